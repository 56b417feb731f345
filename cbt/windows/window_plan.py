"""Plans of which parts windows of several sizes are made (Enorm, section 6.1).

A window is a path through time from its start to its end. Each step is an interval whose state is at hand: a run of
panes, a shorter window, one that ended before, or a *hidden* window, which nobody asked for. A step forward adds the
interval's state; where states subtract exactly, a step back takes it off. The cheapest path merges least. All ways
that are equally cheap are kept open: which one is taken is decided window by window, by the rows that there are.

Times are in ms since the Unix epoch.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import combinations, pairwise
from math import gcd, inf, lcm
from typing import NamedTuple

from cbt.windows.panes import PanePlan, WindowSize

STEPS_MAX = 15_000
"""Upper bound on the steps that are looked at in planning, some 50 ms; past it each size goes by itself."""
PLANS_KEPT = 256
"""Upper bound on the plans that are kept for jobs with the same sizes."""
HIDDEN_MAX = 3
"""Upper bound on the sizes of hidden windows."""


class Interval(NamedTuple):
    """A stretch of time whose state is at hand, and the cost of merging it."""

    start: int
    end: int
    cost: float


class Step(NamedTuple):
    """A step of a path: the state of [start, end) is added, or taken off where `is_back`. `part`: the number of the
    interval, None for a run of panes."""

    start: int
    end: int
    is_back: bool
    part: int | None


class PathGraph:
    """The steps that may lead through a window, from its start to its end."""

    def __init__(
        self,
        begin: int,
        end: int,
        parts: Sequence[Interval],
        run_cost: Callable[[int, int], float],
        *,
        subtracts: bool,
    ) -> None:
        self._begin, self._end = begin, end
        self._edges: dict[int, list[tuple[int, float, Step]]] = defaultdict(list)
        points = sorted({begin, end, *(one.start for one in parts), *(one.end for one in parts)})
        runs = [Interval(low, high, run_cost(low, high)) for low, high in pairwise(points)]
        numbered = [*enumerate(parts), *((None, run) for run in runs)]
        for number, (start, stop, cost) in numbered:
            self._edges[start].append((stop, cost, Step(start, stop, False, number)))
            if subtracts:
                self._edges[stop].append((start, cost, Step(start, stop, True, number)))
        self.size = len(numbered)

    def cheapest(self) -> tuple[float, list[Step]]:
        """The cheapest path, and what it costs; of equals, one of few steps. O(n log n) for n steps."""
        costs, came = self._costs(self._begin, self._edges)
        path: list[Step] = []
        at = self._end
        while at != self._begin:
            at, step = came[at]
            path.append(step)
        return costs[self._end], path[::-1]

    def on_cheapest(self) -> tuple[float, list[Step]]:
        """The cost of the cheapest paths, and all steps of any of them."""
        back: dict[int, list[tuple[int, float, Step]]] = defaultdict(list)
        for at, edges in self._edges.items():
            for to, cost, step in edges:
                back[to].append((at, cost, step))
        costs, _ = self._costs(self._begin, self._edges)
        left, _ = self._costs(self._end, back)
        best = costs[self._end]
        steps = [
            step
            for at, edges in self._edges.items()
            for to, cost, step in edges
            if costs.get(at, inf) + cost + left.get(to, inf) == best
        ]
        return best, steps

    @staticmethod
    def _costs(
        begin: int, edges: Mapping[int, list[tuple[int, float, Step]]]
    ) -> tuple[dict[int, float], dict[int, tuple[int, Step]]]:
        costs, came = {begin: 0.0}, dict[int, tuple[int, Step]]()
        queue = [(0.0, 0, begin)]
        done = set[int]()
        while queue:
            cost, steps, at = heappop(queue)
            if at in done:
                continue
            done.add(at)
            for to, more, step in edges.get(at, ()):
                if cost + more < costs.get(to, inf):
                    costs[to], came[to] = cost + more, (at, step)
                    heappush(queue, (cost + more, steps + 1, to))
        return costs, came


class _TooManyStepsError(Exception):
    """Planning takes too long."""


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Says how windows are made.

    `sizes`: those asked for and `hidden` ones, in the order in which windows with one end are made. `stacks`: those
    whose slices are kept in two stacks. `keeps`: for how long after its end (ms) a window of a size, or a pane (None),
    may be a part of others. `inputs`: the number of states that are merged in a `period_ms`, where all have as many
    rows. `takes_off`: states are subtracted. `is_plain`: each size goes by itself, as planning would take too long.
    """

    sizes: tuple[WindowSize, ...]
    hidden: frozenset[WindowSize]
    stacks: frozenset[WindowSize]
    keeps: Mapping[WindowSize | None, int]
    inputs: float
    period_ms: int
    takes_off: bool = False
    is_plain: bool = False

    @property
    def shared(self) -> tuple[WindowSize, ...]:
        """The sizes whose windows are made of panes and other windows."""
        return tuple(size for size in self.sizes if size not in self.stacks)

    def boundary(self, time_ms: int) -> int | None:
        """The last time up to one at which a window that is made of others begins or ends: panes between two such times
        may be merged. None: there are no such windows."""
        bounds = ((one.slide_ms, after) for one in self.shared for after in (0, one.size_ms))
        return max(((time_ms - after) // slide_ms * slide_ms + after for slide_ms, after in bounds), default=None)


def plan_windows(panes: PanePlan, *, subtracts: bool, hidden: Iterable[WindowSize] = ()) -> WindowPlan:
    """The plan that merges least. `subtracts`: states can be taken off exactly. `hidden`: further windows to be made.

    >>> minute = 60_000
    >>> sizes = [WindowSize.tumbling(n * minute) for n in (1, 5, 10, 15, 20)]
    >>> plan = plan_windows(PanePlan(sizes), subtracts=False)
    >>> plan.period_ms // minute, plan.inputs
    (60, 86.0)
    """
    return _planned(panes.sizes, panes.pane_ms, subtracts, frozenset(hidden))


@lru_cache(PLANS_KEPT)
def _planned(sizes: tuple[WindowSize, ...], pane_ms: int, subtracts: bool, hidden: frozenset[WindowSize]) -> WindowPlan:
    for takes_off in (True, False) if subtracts else (False,):
        with suppress(_TooManyStepsError):
            return _Planner(PanePlan(sizes, pane_ms), takes_off).best(hidden)
    return WindowPlan(sizes, frozenset(), frozenset(sizes), {}, inf, lcm(*_slides(sizes)), is_plain=True)


class _Planner:
    def __init__(self, panes: PanePlan, subtracts: bool) -> None:
        self._panes = panes
        self._subtracts = subtracts
        self._steps_left = STEPS_MAX

    def best(self, hidden: frozenset[WindowSize]) -> WindowPlan:
        plan = self._plan(hidden)
        while len(plan.hidden) < HIDDEN_MAX + len(hidden):
            tried = [self._plan(plan.hidden | {one}) for one in self._candidates(plan)]
            better = min(tried, key=_rate, default=plan)
            if _rate(better) >= _rate(plan):
                break
            plan = better
        return plan

    def _candidates(self, plan: WindowPlan) -> Iterator[WindowSize]:
        """Hidden windows that two sizes could have in common."""
        found = set[WindowSize]()
        for one, other in combinations(self._panes.sizes, 2):
            lengths = {gcd(a, b) for a in (one.size_ms, one.slice_ms) for b in (other.size_ms, other.slice_ms)}
            for length in lengths - {self._panes.pane_ms}:
                slide = gcd(length, one.slide_ms, other.slide_ms)
                found |= {WindowSize(length, length), WindowSize(length, slide)}
        return iter(sorted(found - set(plan.sizes)))

    def _plan(self, hidden: frozenset[WindowSize]) -> WindowPlan:
        sizes = tuple(sorted({*self._panes.sizes, *hidden}))
        period = lcm(*_slides(sizes))
        keeps = dict[WindowSize | None, int]()
        stacks, inputs, takes_off = set[WindowSize](), 0.0, False
        for size in sizes:
            cost, kept, is_back = self._cost(size, sizes, period)
            windows = period // size.slide_ms
            by_stacks = windows * self._stacks_cost(size)
            if by_stacks < cost:
                stacks.add(size)
                inputs += by_stacks
                if self._subtracts:  # to begin the stacks anew, where nothing can be taken off any more
                    keeps[None] = max(keeps.get(None, 0), size.size_ms)
            else:
                inputs += cost
                takes_off |= is_back
                keeps |= {one: max(age, keeps.get(one, 0)) for one, age in kept.items()}
        return WindowPlan(sizes, hidden, frozenset(stacks), keeps, inputs, period, takes_off)

    def _cost(
        self, size: WindowSize, sizes: Sequence[WindowSize], period: int
    ) -> tuple[float, dict[WindowSize | None, int], bool]:
        """The inputs of the windows of a size in a period, how long after their ends these are of use, and whether some
        are taken off."""
        total, keeps, takes_off = 0.0, dict[WindowSize | None, int](), False
        for start in range(0, period, size.slide_ms):
            end = start + size.size_ms
            kinds, parts = self._parts(size, start, end, sizes)
            graph = PathGraph(start, end, parts, self._panes_in, subtracts=self._subtracts)
            self._steps_left -= graph.size
            if self._steps_left < 0:
                raise _TooManyStepsError
            cost, steps = graph.on_cheapest()
            total += cost if cost > 1 else 0.0
            for step in steps:
                kind = None if step.part is None else kinds[step.part]
                first_end = step.start + self._panes.pane_ms if kind is None else step.end
                keeps[kind] = max(keeps.get(kind, 0), end - first_end)
            if any(step.is_back for step in steps):  # without subtraction, all of its panes are needed
                keeps[None] = max(keeps.get(None, 0), size.size_ms)
                takes_off = True
        return total, keeps, takes_off

    def _panes_in(self, start: int, end: int) -> float:
        return (end - start) / self._panes.pane_ms

    def _parts(
        self, size: WindowSize, start: int, end: int, sizes: Sequence[WindowSize]
    ) -> tuple[list[WindowSize], list[Interval]]:
        """The windows that may be parts of one, with their sizes."""
        low = start - max(_slides(sizes)) if self._subtracts else start
        kinds, parts = list[WindowSize](), list[Interval]()
        for other in (one for one in sizes if one.size_ms > self._panes.pane_ms):
            for begin in starts_within(other, low, end, is_before=other < size):
                if other == size and begin != start - size.slide_ms:
                    continue
                kinds.append(other)
                parts.append(Interval(begin, begin + other.size_ms, 1.0))
        return kinds, parts

    def _stacks_cost(self, size: WindowSize) -> float:
        """The inputs that two stacks merge for a window: those of its slices, which are added and turned over."""
        if size.slide_ms >= size.size_ms:
            return inf
        slices = size.slide_ms / size.slice_ms
        panes = size.slide_ms / self._panes.pane_ms if size.slice_ms > self._panes.pane_ms else 0.0
        return panes + 4 * slices + 2


def starts_within(size: WindowSize, low: int, end: int, *, is_before: bool) -> Iterable[int]:
    """The starts of the windows of a size that lie between two times, and end before the second or, if they are made
    `before` those that end with it, at it."""
    first = -(-low // size.slide_ms) * size.slide_ms
    return range(first, end - size.size_ms + (1 if is_before else 0), size.slide_ms)


def _slides(sizes: Iterable[WindowSize]) -> list[int]:
    return [size.slide_ms for size in sizes]


def _rate(plan: WindowPlan) -> float:
    return plan.inputs / plan.period_ms
