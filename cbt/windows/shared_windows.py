"""Makes windows of several sizes of panes and of each other, by a plan (Enorm, section 6.1)."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from heapq import heappush, heapreplace
from math import inf
from typing import NamedTuple

import polars as pl

from cbt.windows.merging import Difference, Mergeable, combined
from cbt.windows.pane_runs import FOLDED_AT, FRAME_COST, PaneRuns
from cbt.windows.panes import PanePlan, WindowSize
from cbt.windows.sequence import CompleteWindow, WindowSequence, in_pane
from cbt.windows.window_plan import Interval, PathGraph, Step, WindowPlan, plan_windows, starts_within

BEFORE_ALL = -(2**63)


@dataclass(slots=True)
class WorkDone:
    """`windows` of several panes were made, of `panes` in all, by merging `inputs`."""

    windows: int = 0
    panes: int = 0
    inputs: int = 0


class _Counted:
    """A layout whose merges are counted."""

    def __init__(self, layout: Mergeable, done: WorkDone) -> None:
        self.empty, self._layout, self._done = layout.empty, layout, done

    def combine(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
        merged = list(frames)
        self._done.inputs += len(merged)
        return self._layout.combine(merged)


class _Made(NamedTuple):
    """A window that may be a part of others."""

    start: int
    end: int
    frame: pl.DataFrame


class SharedWindows:
    """Takes panes in order and makes windows, shorter ones first where several end together.

    `difference`: the way in which frames are taken off, as long as that leaves no trace.
    """

    def __init__(self, layout: Mergeable, panes: PanePlan, difference: Difference | None) -> None:
        self._layout = layout
        self._panes = panes
        self._difference = difference
        self._runs = PaneRuns()
        self._made: dict[WindowSize, deque[_Made]] = {}
        self._stacks: dict[WindowSize, WindowSequence] = {}
        self._ends: list[tuple[int, WindowSize]] = []
        """The ends of the windows to be made next, one of each size."""
        self._complete = BEFORE_ALL
        self.done = WorkDone()
        self.plan = plan_windows(panes, subtracts=difference is not None)
        if not self.plan.takes_off:
            self._difference = None
        self._keeps = dict(self.plan.keeps)
        self._follow(self.plan)

    def _follow(self, plan: WindowPlan) -> None:
        self.plan = plan
        self._made = {size: self._made.get(size, deque()) for size in plan.sizes}
        self._stacks = {size: self._sequence(size) for size in plan.stacks}
        if self._complete > BEFORE_ALL:
            for size in plan.sizes:
                if size not in (one for _, one in self._ends):
                    heappush(self._ends, (self._next_end(size), size))

    def _sequence(self, size: WindowSize) -> WindowSequence:
        """A sequence that has had all panes which its next windows need."""
        layout = self._layout if self._difference is None else self._difference.layout
        sequence = WindowSequence(_Counted(layout, self.done), size)
        for start, _, frame in self._runs.stretches():
            _take_all(sequence.advance(start))
            sequence.add(frame)
        return sequence

    def _next_end(self, size: WindowSize) -> int:
        """The end of the first window of a size that is not complete."""
        return (self._complete - size.size_ms) // size.slide_ms * size.slide_ms + size.slide_ms + size.size_ms

    # Panes.

    def add(self, frame: pl.DataFrame) -> None:
        """Adds the pane that follows those that are complete."""
        pane, end = self._complete, self._complete + self._panes.pane_ms
        if self._difference is not None and not self._difference.takes(frame):
            self._subtract_no_more()
        frame = in_pane(frame, 0)
        if self._difference is not None:
            frame = self._difference.counted(frame)
        for sequence in self._stacks.values():
            _take_all(sequence.advance(pane))
            sequence.add(frame)
        self._runs.add(pane, end, frame)
        if self._difference is None:  # else single panes are taken off again
            self._fold(pane, end)

    def _fold(self, pane: int, end: int) -> None:
        """Merges panes that are in the same windows made of panes: if there are many of them and, of those that are cut
        from one, as they come, so that little is left to be merged once the last one is there."""
        boundary, common_ms = self.plan.boundary(pane), self._panes.common_ms
        if boundary is None:
            return
        begins, least = (pane // common_ms * common_ms, 2) if end % common_ms else (boundary, FOLDED_AT)
        self.done.inputs += self._runs.fold(lambda frames: combined(self._layout, frames), begins, least)

    def _subtract_no_more(self) -> None:
        """From now on windows are made without taking anything off."""
        difference, self._difference = self._difference, None
        assert difference is not None
        self._runs.replace(difference.plain)
        for made in self._made.values():
            whole = [one._replace(frame=difference.plain(one.frame)) for one in made]
            made.clear()
            made.extend(whole)
        plan = plan_windows(self._panes, subtracts=False, hidden=self.plan.hidden)
        self._keeps |= {kind: max(age, self._keeps.get(kind, 0)) for kind, age in plan.keeps.items()}
        self._follow(plan)

    # Windows.

    def advance(self, complete_ms: int) -> Iterator[CompleteWindow]:
        """Yields the windows that are complete once all panes before a time are, except windows without any pane."""
        if self._complete == BEFORE_ALL:
            self._complete = complete_ms
            self._follow(self.plan)
            return
        self._complete = complete_ms
        while self._ends[0][0] <= complete_ms:
            end, size = self._ends[0]
            start = end - size.size_ms
            if self._runs.is_occupied(start, end):
                window = self._window(size, start)  # which may begin another plan, and with it further sizes
                heapreplace(self._ends, (end + size.slide_ms, size))
                if size not in self.plan.hidden:
                    self._note(size)
                    yield CompleteWindow(size, start, in_pane(window, start))
            else:
                heapreplace(self._ends, (self._end_after(size, start), size))
        self._forget()

    def partial(self) -> Iterator[CompleteWindow]:
        """Yields the windows that have begun, as far as they have come; what is kept stays. O(frames)."""
        kept = (self._layout, self._panes, self._difference, self.plan)
        copied = deepcopy(self, {id(one): one for one in kept})
        return copied.advance(self._complete + self._panes.size_max_ms) if self._ends else iter(())

    def _note(self, size: WindowSize) -> None:
        if size.size_ms > self._panes.pane_ms:
            self.done.windows += 1
            self.done.panes += size.size_ms // self._panes.pane_ms

    def _end_after(self, size: WindowSize, start: int) -> int:
        """The end of the first window of a size, after one, that has a pane or is not complete."""
        occupied = self._runs.first_occupied(start)
        if occupied is None:
            return self._next_end(size)
        containing = size.containing(occupied)
        first = next(iter(containing), None)
        if first is None:  # a pane between two windows
            first = occupied // size.slide_ms * size.slide_ms + size.slide_ms
        return max(min(first + size.size_ms, self._next_end(size)), start + size.slide_ms + size.size_ms)

    def _window(self, size: WindowSize, start: int) -> pl.DataFrame:
        end = start + size.size_ms
        if (sequence := self._stacks.get(size)) is not None:
            (frame,) = (in_pane(one.frame, 0) for one in sequence.advance(end) if one.start_ms == start)
        else:
            frame = self._merged(size, start, end)
        self._made[size].append(_Made(start, end, frame))
        return frame if self._difference is None else self._difference.plain(frame)

    def _merged(self, size: WindowSize, start: int, end: int) -> pl.DataFrame:
        """The state of a window, by the cheapest path through what there is."""
        parts = list(self._parts(size, start, end))
        costs = [Interval(one.start, one.end, FRAME_COST + one.frame.height) for one in parts]
        graph = PathGraph(start, end, costs, self._runs.cost, subtracts=self._difference is not None)
        cost, path = graph.cheapest()
        assert cost < inf, "the panes of windows are kept until they are made"
        added = [frame for step in path if not step.is_back for frame in self._frames(step, parts)]
        taken_off = [frame for step in path if step.is_back for frame in self._frames(step, parts)]
        if len(added) + len(taken_off) > 1:
            self.done.inputs += len(added) + len(taken_off)
        if self._difference is None:
            return combined(self._layout, added)
        merged = self._difference.merge(added, taken_off)
        if self._difference.is_within_limit(merged):
            return merged
        self._subtract_no_more()
        return self._merged(size, start, end)

    def _parts(self, size: WindowSize, start: int, end: int) -> Iterator[_Made]:
        low = start - max(one.slide_ms for one in self.plan.sizes) if self._difference is not None else start
        for other in self.plan.sizes:
            wanted = starts_within(other, low, end, is_before=other < size)
            yield from (one for one in self._made[other] if one.start in wanted)

    def _frames(self, step: Step, parts: Sequence[_Made]) -> list[pl.DataFrame]:
        return self._runs.frames(step.start, step.end) if step.part is None else [parts[step.part].frame]

    def _forget(self) -> None:
        for size, made in self._made.items():
            while made and made[0].end + self._keeps.get(size, -1) < self._complete:
                made.popleft()
        self._runs.drop(self._complete - self._panes.pane_ms - self._keeps.get(None, -1))
        self._runs.forget(self._complete - self._panes.size_max_ms - max(self._slides()))

    def _slides(self) -> list[int]:
        return [size.slide_ms for size in self.plan.sizes]

    @property
    def frames(self) -> int:
        """The number of frames held."""
        return len(self._runs) + sum(map(len, self._made.values())) + sum(one.slices for one in self._stacks.values())

    @property
    def memory_bytes(self) -> int:
        """Bytes of the columns held, those that frames share once for each of them."""
        made = sum(int(one.frame.estimated_size()) for ones in self._made.values() for one in ones)
        return self._runs.memory_bytes + made + sum(one.memory_bytes for one in self._stacks.values())


def _take_all(windows: Iterator[CompleteWindow]) -> None:
    for _ in windows:
        pass
