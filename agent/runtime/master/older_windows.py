"""Makes the open windows of older versions go on beside the version in force, at a job's master (DESIGN §4.4).

What they count of panes of the version in force has come with its runs, or is the same. Their results come with those
of the version in force, in order of their ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from agent.runtime.function.result import OtherGroups, WindowRows
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.function.versions import Beside, InForce
from agent.runtime.master.windows import ClosedWindow, Expected, WindowAssembler
from agent.runtime.model.panes import Counts, Run, add_counted, holds_panes, total
from agent.runtime.reduce.owner import OwnedWindow


class OlderWindow(NamedTuple):
    """A window of an older version that is over; its `pane` is that of the version in force with which it comes."""

    window: ClosedWindow
    finished: WindowRows
    other: OtherGroups | None
    version: InForce


class PlacedWindows(NamedTuple):
    """Results by their positions: those of the version in force by the ones that they had, and those of older ones,
    each with whether another one of the same pane follows."""

    moved: dict[int, int]
    older: dict[int, tuple[OlderWindow, bool]]


def placed(positions: Iterable[int], older: Iterable[OlderWindow], pane_ms: int) -> PlacedWindows:
    """Finds positions for windows that come with the same run: pane by pane, and of each those of older versions first,
    as they end no later."""
    panes: dict[int, list[int | OlderWindow]] = {}
    for window in sorted(older, key=_end_and_version):
        panes.setdefault(window.window.pane, []).append(window)
    for position in sorted(positions):
        panes.setdefault(position // pane_ms * pane_ms, []).append(position)
    found = PlacedWindows({}, {})
    for pane, alike in panes.items():
        for rank, one in enumerate(alike):
            if isinstance(one, int):
                found.moved[one] = pane + rank
            else:
                found.older[pane + rank] = (one, rank + 1 < len(alike))
    return found


def _same(run: Run, beside: Beside) -> list[Run]:
    """The part of a run that counts for an older version with the same panes: not what comes between two of them."""
    return [replace(run, patches=(), before=())] if holds_panes(run.after, run.upto, beside.pane_ms) else []


def _end_and_version(one: OlderWindow) -> tuple[int, int, int]:
    return one.window.start_ms + (one.window.size_ms or 0), one.version.version.number, one.window.size_ms or 0


class GoingOn:
    """One older version whose windows go on."""

    def __init__(self, windows: WindowAssembler) -> None:
        self.windows = windows
        self._uncounted = Counts()
        """Counts without a pane of its own so far."""

    def take(
        self, run: Run, beside: Beside, expected: Expected, owned: Sequence[OwnedWindow], placement: TreePlacement
    ) -> Iterator[tuple[ClosedWindow, pl.DataFrame]]:
        """The windows that end with the next run of the version in force, each with its state."""
        last = beside.old.upto
        for one in self._runs(run, beside) if beside.is_carried else _same(run, beside):
            if beside.is_carried:
                over = [window for window in owned if one.after < window.at <= one.upto]
                windows = self.windows.take_beside(one, expected, over, placement, last)
            else:
                windows = self.windows.take(one, one.counted, expected, (), placement)
            for window, state in windows:
                if window.start_ms <= last:
                    yield replace(window, pane=beside.carrier(window.start_ms + (window.size_ms or 0))), state

    def _runs(self, run: Run, beside: Beside) -> Iterator[Run]:
        """Yields the old panes that go with a run, as runs of the older version without gaps. Events that came too
        late, and lines that were none, are counted once, for the version in force; they are shown here too."""
        function, after, upto = beside.old.function, beside.frontier(run.after), beside.frontier(run.upto)
        spans = sorted((one for one in run.before if one.version == beside.number), key=lambda one: one.after)
        own = total(run.counted.values())
        own = self._uncounted.plus(Counts(late=own.late, malformed=own.malformed))
        self._uncounted = own if after == upto else Counts()
        for one in spans:
            first, last = beside.frontier(one.after), beside.frontier(one.upto)
            if first > after:
                yield Run(after, first, 0, function.empty_state, leaped=run.leaped)
            if last > first:
                counted = {pane: counts._replace(late=0, malformed=0) for pane, counts in one.counted.items()}
                partial = (one.partial | run.partial) & one.contributors
                here, own = (own, Counts()) if last == upto else (Counts(), own)
                counted = add_counted([counted, {last: here}]) if any(here) else counted
                yield Run(first, last, one.contributors, one.state, counted, partial, leaped=run.leaped)
            after = max(after, last)
        if after < upto:
            counted = {upto: own} if any(own) else {}
            yield Run(after, upto, 0, function.empty_state, counted, leaped=run.leaped)
