"""Assembles windows of several panes at a job's master (DESIGN §5.6; Enorm).

Agents and combiners only handle panes. Published panes that open windows still need are not replicated: agents keep
their sealed panes until no window needs them (`JobFunction.retention_pane`), and hand them in again to the next master,
which assembles the same windows. An agent that has left or failed since is only in some panes of a window.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from heapq import merge
from itertools import groupby
from operator import add, or_, sub
from typing import NamedTuple

import polars as pl

from agent.runtime.function.changing_windows import ChangingWindows, WindowUpdate
from agent.runtime.function.consolidated_windows import OPEN_BYTES_MAX, ConsolidatedWindows
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.model.panes import (
    END,
    PANE_MAX,
    Counted,
    Counts,
    Patch,
    Run,
    add_counted,
    closed_ms,
    count_in,
    total,
)
from agent.runtime.reduce.owner import OwnedWindow
from cbt import OpenSessions, SessionLayout, WindowSize
from cbt.windows import WorkDone


class Members(NamedTuple):
    """The agents that contribute to any of some panes, and those that are whole in all of them."""

    contributors: int
    whole: int


@dataclass(slots=True)
class _Stretch:
    """The panes in (after, upto] with the same agents."""

    after: int
    upto: int
    contributors: int
    partial: int
    leaped: int = 0


class _Amended(NamedTuple):
    """The late events of a pane: their counts, the agents they come from, and those who may lack some."""

    counts: Counts
    agents: int
    partial: int


class PaneIndex:
    """Counts and contributors of panes that come in order. Sums are differences of running sums: O(log panes)."""

    def __init__(self) -> None:
        self._panes: list[int] = []
        self._sums: list[tuple[int, ...]] = [tuple(Counts())]
        self._stretches: list[_Stretch] = []
        self._amended: dict[int, _Amended] = {}

    def add(self, run: Run, counted: Counted) -> None:
        """Takes the panes of the next run, with their counts where they have any."""
        for pane in sorted(counted):
            self._panes.append(pane)
            self._sums.append(tuple(map(add, self._sums[-1], counted[pane])))
        last = self._stretches[-1] if self._stretches else None
        goes_on = last is not None and last.upto == run.after
        now = (run.contributors, run.partial, run.leaped)
        if last is not None and goes_on and (last.contributors, last.partial, last.leaped) == now:
            last.upto = run.upto
        else:
            self._stretches.append(_Stretch(run.after, run.upto, *now))

    def counted(self, first: int, last: int) -> Counts:
        """The counts of the panes from `first` to `last`."""
        begin, end = bisect_left(self._panes, first), bisect_right(self._panes, last)
        came_late = (one.counts for pane, one in self._amended.items() if first <= pane <= last)
        return total([Counts(*map(sub, self._sums[end], self._sums[begin])), *came_late])

    def amend(self, patch: Patch, partial: int) -> None:
        """Takes late events; of the agents that are `partial` where these come from, not all may be there."""
        for pane, agents in patch.agents.items():
            known = self._amended.get(pane, _Amended(Counts(), 0, 0))
            counts = known.counts.plus(patch.counted.get(pane, Counts()))
            self._amended[pane] = _Amended(counts, known.agents | agents, known.partial | agents & partial)

    def members(self, first: int, last: int, through: int) -> Members:
        """The members of the panes from `first` to `last`, whole if they are so `through` the last or a later one;
        unknown panes have none."""
        inside = [one for one in self._stretches if one.after < through and one.upto >= first]
        if not inside:
            return Members(0, 0)
        contributors, whole = 0, -1
        for one in inside:
            contributors |= one.contributors if one.after < last else 0
            whole &= one.contributors & ~one.partial
        is_covered = inside[0].after < first and inside[-1].upto >= through
        for pane, amended in self._amended.items():
            if first <= pane <= last:
                contributors |= amended.agents
                whole &= ~amended.partial
        return Members(contributors, whole if is_covered else 0)

    def stretches(self, first: int) -> Iterator[tuple[int, int, int]]:
        """The bounds of panes from one on, with their contributors."""
        return ((one.after, one.upto, one.contributors) for one in self._stretches if one.upto >= first)

    def leaped(self, first: int, last: int) -> int:
        """The agents that were leaped over in any of the panes from `first` to `last`."""
        return reduce(or_, (one.leaped for one in self._stretches if one.after < last and one.upto >= first), 0)

    def forget(self, before: int) -> None:
        """Frees panes before a time, once there are many of them."""
        self._stretches = [one for one in self._stretches if one.upto >= before]
        self._amended = {pane: one for pane, one in self._amended.items() if pane >= before}
        old = bisect_left(self._panes, before)
        if 2 * old > len(self._panes):
            del self._panes[:old], self._sums[:old]


def _as_update(one: OwnedWindow) -> WindowUpdate:
    return WindowUpdate(one.at, one.start_ms, one.size_ms, one.state, True, one.at)


def _windows_of(windows: ConsolidatedWindows, run: Run, over_ms: int) -> Iterator[WindowUpdate]:
    """The windows that end with the panes of a run, before a time."""
    for pane in sorted(run.counted):
        yield from windows.add(pane, run.state.filter(pl.col("pane") == pane))
    yield from windows.advance(over_ms)


START = "session.start"


class SessionWindows:
    """Has the interface of `ChangingWindows`. All sessions that end with a pane are one window, from the pane in which
    the first of them began.
    """

    def __init__(self, layout: SessionLayout) -> None:
        self._layout = layout
        self._sessions = OpenSessions(layout)
        self._complete: int | None = None

    def add(self, pane: int, state: pl.DataFrame) -> Iterator[WindowUpdate]:
        """Takes a pane's state, with the times of its first and last events."""
        yield from self.advance(pane)
        self._complete = pane + self._layout.pane_ms
        yield from self._over(self._sessions.add(self._layout.pieces(state), self._complete).frame)

    def advance(self, complete_ms: int) -> Iterator[WindowUpdate]:
        """The sessions that are over once all panes before a time are added."""
        if self._complete is not None and complete_ms > self._complete and len(self._sessions):
            self._complete = complete_ms
            yield from self._over(self._sessions.add(self._layout.empty(), complete_ms).frame)

    def end(self) -> Iterator[WindowUpdate]:
        """The open sessions, at the end of the input."""
        yield from self._over(self._sessions.end().frame)

    def _over(self, sessions: pl.DataFrame) -> Iterator[WindowUpdate]:
        first = sessions[START].min()
        if isinstance(first, int) and self._complete is not None:
            pane_ms = self._layout.pane_ms
            start = first // pane_ms * pane_ms
            newest = self._complete - pane_ms
            yield WindowUpdate(newest, start, self._complete - start, sessions, True, newest)

    @property
    def memory_bytes(self) -> int:
        return self._sessions.memory_bytes


ONE_TREE = TreePlacement(1)
LOOK_PANES = 64
"""Number of panes between two looks at the memory of open windows."""


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """A window that can be published. `pane`: that with which it comes. `position` grows from window to window: the
    pane, and some ms more if several windows come with it. `expected`, `contributors`, `partial`, `leaped`: bitmaps of
    agents. `revision`: how often it has changed since its end.
    """

    pane: int
    position: int
    start_ms: int
    size_ms: int | None
    counted: Counts
    expected: int
    contributors: int
    partial: int
    is_final: bool = True
    leaped: int = 0
    revision: int = 0


Expected = Callable[[int, int], int]
"""Bitmap of the agents that belong to any of the panes from one to another."""


class WindowAssembler:
    """Assembles the windows of one version of a job, which begin at `starts` at the earliest."""

    def __init__(self, function: JobFunction, starts: int) -> None:
        assert function.plan.windowing is not None
        windowing = function.plan.windowing
        sizes = [WindowSize(one.size_ms, one.slide_ms) for one in windowing.sizes]
        self.function = function
        self._pane_ms = windowing.pane_ms
        self._starts = starts
        self._index = PaneIndex()
        self._windows: ChangingWindows | SessionWindows | ConsolidatedWindows
        if function.sessions is not None:
            self._windows = SessionWindows(function.sessions)
        elif windowing.changes:
            self._windows = ChangingWindows(function.combine, sizes, self._pane_ms, function.grace.amends_ms)
        else:
            self._windows = ConsolidatedWindows.of(function)
        self._beside: ConsolidatedWindows | None = None
        """Its windows as far as panes have come with those of a later version."""
        self._last = (0, 0)
        self._taken = 0
        self.is_too_large = False
        """Whether open windows take more than OPEN_BYTES_MAX of memory."""

    def take(
        self,
        run: Run,
        counted: Counted,
        expected: Expected,
        owned: Sequence[OwnedWindow] = (),
        placement: TreePlacement = ONE_TREE,
    ) -> Iterator[tuple[ClosedWindow, pl.DataFrame]]:
        """The windows that the next run completes or changes, in order, each with its state. `owned`: the states that
        owners of trees have of them, by their ends and lengths. `placement`: that of keys, on tree 0 and others."""
        return self.closed(run, self.updates(run, counted, owned, placement), expected)

    def updates(
        self,
        run: Run,
        counted: Counted,
        owned: Sequence[OwnedWindow] = (),
        placement: TreePlacement = ONE_TREE,
    ) -> Iterator[WindowUpdate]:
        """The changes by the next run, as `take` says; they are to be closed before the run after it."""
        patches, too_late = self._sorted_out(run.patches)
        counted = add_counted([counted, too_late]) if too_late else counted
        self._index.add(run, counted)
        updates: Iterable[WindowUpdate] = self._updates_of(run, counted.keys(), patches)
        if placement.moved.moves and self.function.is_consolidated:
            updates = (one._replace(state=placement.of_window(one.state, 0, one.at)) for one in updates)
        merged = self._merged(updates, map(_as_update, owned)) if owned else updates
        yield from (update for update in merged if update.start_ms >= self._starts)

    def closed(
        self, run: Run, updates: Iterable[WindowUpdate], expected: Expected
    ) -> Iterator[tuple[ClosedWindow, pl.DataFrame]]:
        """The windows that a run changes, each with its state."""
        for update in updates:
            yield self._closed(update, expected), update.state
        self._index.forget(self.function.retention_pane(run.upto) + 1)

    def take_beside(
        self, run: Run, expected: Expected, owned: Sequence[OwnedWindow], placement: TreePlacement, last: int
    ) -> Iterator[tuple[ClosedWindow, pl.DataFrame]]:
        """The windows that end with a run of panes of all trees, which came with those of a later version, each with
        its state. `last`: the last pane before them, of which the master and owners have a tree each."""
        if self._beside is None:
            self._beside = ConsolidatedWindows.of(self.function)
        self._index.add(run, run.counted)
        over_ms = min(closed_ms(run.upto, self._pane_ms) + 1, PANE_MAX)
        begun: Iterable[WindowUpdate] = self._windows.advance(over_ms)
        if placement.moved.moves:  # groups that move later have no panes of these windows elsewhere
            begun = (one._replace(state=placement.of_window(one.state, 0, min(one.at, last))) for one in begun)
        going_on = _windows_of(self._beside, run, over_ms)
        for update in self._merged(begun, going_on, map(_as_update, owned)):
            if update.start_ms >= self._starts:
                yield self._closed(update, expected), update.state
        self.is_too_large = self._windows.memory_bytes + self._beside.memory_bytes > OPEN_BYTES_MAX
        self._index.forget(self.function.retention_pane(run.upto) + 1)

    def _merged(self, *every: Iterable[WindowUpdate]) -> Iterator[WindowUpdate]:
        """The windows of all, in order, each once."""
        in_order = merge(*every, key=lambda one: (one.at, one.size_ms))
        for _, parts in groupby(in_order, key=lambda one: (one.at, one.size_ms)):
            first, *others = parts
            states = [one.state for one in (first, *others) if one.state.height]
            yield first if not others else first._replace(state=self.function.put_together(states))

    def _sorted_out(self, patches: Iterable[Patch]) -> tuple[list[Patch], Counted]:
        """The patches cut to the panes that can be amended, and what is to be counted late of the others."""
        taken, too_late = [], dict[int, Counts]()
        for patch in patches:
            panes = {pane for pane in patch.agents if self._accepts(pane, patch.carrier)}
            taken.append(patch.of(panes))
            late = total(counts for pane, counts in patch.counted.items() if pane not in panes).events
            count_in(too_late, {patch.carrier: Counts(late=late)} if late else {})
        return [patch for patch in taken if patch.agents], too_late

    def _accepts(self, pane: int, carrier: int) -> bool:
        windows = self._windows
        return pane >= self._starts and isinstance(windows, ChangingWindows) and windows.accepts(pane, carrier)

    @property
    def done(self) -> WorkDone:
        """The windows made of several panes, and the states that were merged for them."""
        return self._windows.done if isinstance(self._windows, ConsolidatedWindows) else WorkDone()

    def stretches(self, start_ms: int) -> Iterator[tuple[int, int, int]]:
        """The bounds of panes from a time on, with who contributes to them."""
        return self._index.stretches(start_ms)

    def settle(self, upto: int, expected: Expected) -> Iterator[tuple[ClosedWindow, pl.DataFrame]]:
        """The last results of windows that are over with all panes up to one, as those of another version follow."""
        if isinstance(self._windows, ChangingWindows):
            next_pane = closed_ms(upto, self._pane_ms) + 1
            updates = list(self._windows.settle(next_pane, upto))
            for number, update in enumerate(updates):
                closed = self._closed(update, expected)
                yield replace(closed, pane=upto + 1, position=next_pane - len(updates) + number), update.state

    def _updates_of(self, run: Run, panes: Collection[int], patches: Iterable[Patch]) -> Iterator[WindowUpdate]:
        late = {patch.carrier: patch for patch in patches}
        for pane in sorted({*panes, *late}):
            windows = self._windows
            if pane in late and isinstance(windows, ChangingWindows):
                yield from windows.advance(pane)
                self._index.amend(late[pane], run.partial | late[pane].lacking)
                for amended in late[pane].state.partition_by("pane"):
                    windows.amend(amended["pane"][0], amended)
                if pane not in panes:
                    yield from windows.show(pane)
            if pane in panes:
                yield from windows.add(pane, run.state.filter(pl.col("pane") == pane))
            self._taken += 1
            if self._taken % LOOK_PANES == 0:
                self.is_too_large = self._windows.memory_bytes > OPEN_BYTES_MAX
        if run.upto == END:
            yield from self._windows.end()
        else:
            # The span of an unsound run is taken without its content: nobody waits for it.
            yield from self._windows.advance(min(closed_ms(run.upto, self._pane_ms) + 1, PANE_MAX))

    def _closed(self, update: WindowUpdate, expected: Expected) -> ClosedWindow:
        before, rank = self._last
        rank = rank + 1 if update.at == before else 0
        self._last = (update.at, rank)
        # An agent that is in all panes of an open window up to now is whole. What it had late for one that is over came
        # with later panes: it is in those as well.
        is_over = update.start_ms + update.size_ms <= update.at
        members = self._index.members(update.start_ms, update.pane, update.at if is_over else update.pane)
        belong = expected(update.start_ms, update.pane)
        return ClosedWindow(
            pane=update.at,
            position=update.at + rank,
            start_ms=update.start_ms,
            size_ms=update.size_ms,
            counted=self._index.counted(update.start_ms, update.pane),
            expected=belong,
            contributors=belong & members.contributors,
            partial=belong & members.contributors & ~members.whole,
            is_final=update.is_final,
            leaped=belong & self._index.leaped(update.start_ms, update.pane),
            revision=update.revision,
        )
