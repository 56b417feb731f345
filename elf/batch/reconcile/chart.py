"""Draws live and offline results over time as SVG: events of each window, and its verdict."""

from __future__ import annotations

from collections.abc import Sequence

from elf.batch.reconcile.live_results import moment_ms
from elf.batch.reconcile.verdicts import Judged
from query import format_timestamp

WIDTH, HEIGHT = 1000, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 990, 20, 230
STRIP = 248
"""Top of the row of verdicts."""
COLUMNS = RIGHT - LEFT
_LEGEND = (("live", "live"), ("offline", "offline"), ("unexplained", "not explained"))


def picture(judged: Sequence[Judged]) -> str:
    """SVG; "" where no window has a time. Each window marks its verdict; rare verdicts are drawn on top."""
    starts = [(moment_ms(one.window[0] or None), one) for one in judged]
    timed = [(start, one) for start, one in starts if start is not None]
    if not timed:
        return ""
    first, last = timed[0][0], max(timed[-1][0], timed[0][0] + 1)
    most = max((_most(one) for _, one in timed), default=0) or 1
    points = [(LEFT + (start - first) * (COLUMNS - 4) / (last - first), one) for start, one in timed]
    lines = [_line("offline", [(x, one.offline.events) for x, one in points if one.offline is not None], most, 4)]
    lines.append(_line("live", [(x, one.live.events) for x, one in points if one.live is not None], most, 1.5))
    marks = [
        f'<circle cx="{x:.1f}" cy="{_y(_most(one), most):.1f}" r="6" fill="none" stroke="var(--unexplained)" '
        f'stroke-width="2.5"/>'
        for x, one in points
        if one.verdict == "unexplained"
    ]
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Events of each window, live and offline">'
        f"{_axes(first, last, most)}{''.join(lines)}{''.join(marks)}{_strip(points)}{_legend()}</svg>"
    )


def _most(one: Judged) -> int:
    return max(0 if side is None else side.events for side in (one.live, one.offline))


def _y(events: int, most: int) -> float:
    return BOTTOM - events * (BOTTOM - TOP) / most


def _line(name: str, points: Sequence[tuple[float, int]], most: int, width: float) -> str:
    path = " ".join(f"{x:.1f},{_y(events, most):.1f}" for x, events in points)
    return f'<polyline points="{path}" fill="none" stroke="var(--{name})" stroke-width="{width}"/>'


def _strip(points: Sequence[tuple[float, Judged]]) -> str:
    """A mark for each window in the colour of its verdict; differences are drawn last, on top."""
    rarest_last = sorted(points, key=lambda point: point[1].verdict not in ("equal", "explained"))
    return "".join(
        f'<rect x="{x - 1.5:.1f}" y="{STRIP}" width="3" height="12" fill="var(--{one.verdict})"/>'
        for x, one in rarest_last
    )


def _axes(first: int, last: int, most: int) -> str:
    ink = 'fill="currentColor" font-size="13"'
    return (
        f'<path d="M{LEFT},{TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="var(--line)"/>'
        f'<text x="{LEFT - 8}" y="{TOP + 5}" text-anchor="end" {ink}>{most:,}</text>'
        f'<text x="{LEFT - 8}" y="{BOTTOM}" text-anchor="end" {ink}>0</text>'
        f'<text x="{LEFT - 8}" y="{STRIP + 11}" text-anchor="end" {ink}>verdict</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 10}" {ink}>{format_timestamp(first)}</text>'
        f'<text x="{RIGHT}" y="{HEIGHT - 10}" text-anchor="end" {ink}>{format_timestamp(last)}</text>'
    )


def _legend() -> str:
    entries = "".join(f'<tspan fill="var(--{color})">●</tspan> {text}&#160;&#160; ' for color, text in _LEGEND)
    place = f'x="{WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle"'
    return f'<text {place} fill="currentColor" font-size="13">{entries}</text>'
