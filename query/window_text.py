"""What an explanation says of a plan's windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from query.windows import Windowing, WindowSize

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


def windows_text(windowing: Windowing | None) -> str:
    """The windows in a few words.

    >>> from query.windows import Windowing, WindowSize
    >>> windows_text(Windowing((WindowSize(600_000, 60_000), WindowSize(3_600_000, 3_600_000)), grace_ms=0))
    '10 min every 1 min, 1 h, grace 0 ms, of panes of 1 min'
    """
    if windowing is None:
        return "none: one result over everything"
    parts = list(map(_size, windowing.sizes))
    if windowing.session is not None:
        gap, most = duration(windowing.session.gap_ms), duration(windowing.session.max_ms)
        parts.append(f"sessions that end with {gap} without an event, cut after {most}")
    if windowing.grace_ms is not None:
        parts.append(f"grace {duration(windowing.grace_ms)}")
    if not windowing.is_of_panes:
        parts.append(f"of panes of {duration(windowing.pane_ms)}")
    return ", ".join(parts)


def making_steps(windowing: Windowing | None) -> tuple[str, ...]:
    """What the master does with panes first."""
    if windowing is None or windowing.is_of_panes:
        return ()
    return ("make windows of panes" if windowing.session is None else "make sessions of panes",)


def publishing_step(windowing: Windowing | None) -> str:
    """What it does at last."""
    if windowing is None:
        return "publish one result"
    if windowing.session is not None:
        return "publish sessions once they are over"
    return "publish each window after each of its panes" if windowing.changes else "publish each window"


def duration(milliseconds: int) -> str:
    """In the largest unit that leaves no fraction: 90 s, 5 min."""
    if not milliseconds:
        return "0 ms"
    size, unit = next((size, unit) for size, unit in _UNITS if milliseconds % size == 0)
    return f"{milliseconds // size} {unit}"


def _size(size: WindowSize) -> str:
    every = "" if size.slide_ms == size.size_ms else f" every {duration(size.slide_ms)}"
    return f"{duration(size.size_ms)}{every}"
