"""The simplex search of Nelder and Mead (1965), adapted: it never sees a value, only which of two points is better, and
it is told "equal" where noise hides the difference.

- Every comparison is a new one: what was found before is never taken for granted, so a lucky point that has become the
  best is soon compared again.
- Equal points have the best between them. Where a whole round has told nothing apart, the simplex is *flat*: the best
  is its middle, and a new simplex begins there, turned around and larger, never smaller than half of the first.
- Where the reflected point and the best are equal in one dimension, the best is in the middle of them.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

from elf.optimization.paired_test import BETTER, EQUAL, WORSE

Point = tuple[float, ...]
Question = tuple[Point, Point, Point]
"""Two points to compare, and the best one so far."""
_Asking = Generator[Question, int, bool]

PARAMETERS_MAX = 16
_SMALLEST, _LARGEST = 0.5, 4.0
"""Bounds on the size of a new simplex, in steps."""
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number to tune between `low` and `high`, from `start` on; `step` is how far the first comparisons look."""

    name: str
    low: float
    high: float
    start: float
    step: float

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, self.start, self.step)
        if not all(map(math.isfinite, numbers)) or not self.low <= self.start <= self.high:
            raise ValueError(
                f"parameter {self.name}: its start {self.start:g} is not from {self.low:g} to {self.high:g}"
            )
        if not 0 < self.step <= (self.high - self.low) / 2:
            raise ValueError(f"parameter {self.name}: its step {self.step:g} is not over 0, at most half of its range")


class NelderMead:
    """The search: `pair` are the two points to compare next, `best` is the one to live with meanwhile.

    It is a function of the parameters and of the verdicts told so far, so its state is their list.
    """

    def __init__(self, parameters: Sequence[Parameter], verdicts: Iterable[int] = ()) -> None:
        if not 1 <= len(parameters) <= PARAMETERS_MAX:
            raise ValueError(f"{len(parameters)} parameters: there can be 1 to {PARAMETERS_MAX}")
        self._parameters = tuple(parameters)
        self._search = _Simplex(self._parameters).search()
        self._take(*next(self._search))
        for verdict in verdicts:
            self.tell(verdict)

    def tell(self, verdict: int) -> None:
        """Goes on with the verdict on `pair`: 1 if the first is better, 0 if they are equal, -1 if it is worse."""
        self._take(*self._search.send(verdict))

    def _take(self, first: Point, second: Point, best: Point) -> None:
        self.pair: tuple[Point, Point] = (self._unscaled(first), self._unscaled(second))
        self.best: Point = self._unscaled(best)

    def _unscaled(self, point: Point) -> Point:
        return tuple(
            min(one.high, max(one.low, one.start + place * one.step))
            for one, place in zip(self._parameters, point, strict=True)
        )


class _Simplex:
    """The points, best first, in units of each parameter's step from its start."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._bounds = [((one.low - one.start) / one.step, (one.high - one.start) / one.step) for one in parameters]
        self._best: Point = (0.0,) * len(parameters)
        self._points: list[Point] = []

    def search(self) -> Generator[Question, int, None]:
        """Asks which of two points is better, again and again, and never ends."""
        step = 1.0
        while True:
            told = yield from self._order(self._corners(step))
            size = _SMALLEST if told else min(_LARGEST, 2 * abs(step))
            while told:
                told = yield from self._round()
            self._best = _middle(self._points)
            size = max(size, min(1.0, 2 * max(math.dist(self._best, point) for point in self._points)))
            step = math.copysign(size, -step)

    def _corners(self, step: float) -> list[Point]:
        """Returns the points of a new simplex: the best one, and one along each parameter."""
        corners = [self._best]
        for axis, (low, high) in enumerate(self._bounds):
            aside = self._best[axis] + step
            if not low <= aside <= high:
                aside = self._best[axis] - step
            corners.append(self._within((*self._best[:axis], aside, *self._best[axis + 1 :])))
        return corners

    def _order(self, points: Iterable[Point]) -> _Asking:
        """Makes a simplex of these points; says whether any two were told apart."""
        self._points, told = [], False
        for point in points:
            told |= yield from self._insert(point)
        return told

    def _insert(self, point: Point, below: int | None = None) -> _Asking:
        """Puts a point, known to be better than all from `below` on, where it belongs; says whether it was told apart
        from another."""
        place, told = len(self._points) if below is None else below, False
        while place > 0:
            verdict = yield from self._compare(point, self._points[place - 1])
            told |= verdict != EQUAL
            if verdict != BETTER:
                break
            place -= 1
        self._points.insert(place, point)
        self._best = self._points[0]
        return told

    def _round(self) -> _Asking:
        """Replaces the worst point by a better one, or draws all together; says whether points were told apart."""
        *others, worst = self._points
        last, centre = others[-1], _middle(others)
        reflected = self._within(_beyond(centre, worst, -1.0))
        verdict = yield from self._compare(reflected, last)
        if verdict == BETTER:
            self._points = others
            yield from self._insert(reflected, len(others) - 1)
            if self._best is reflected:
                yield from self._expand(self._within(_beyond(centre, worst, -2.0)))
            return True
        if verdict == EQUAL and len(others) == 1:
            self._points = [*others, reflected]
            return False
        nearer = _beyond(centre, reflected if verdict == EQUAL else worst, 0.5)
        told = yield from self._contract(others, nearer)
        return told or (verdict == WORSE and len(others) > 1)

    def _expand(self, further: Point) -> _Asking:
        """Goes twice as far where the reflected point has become the best, half as far again where that is equal."""
        reflected = self._points[0]
        verdict = yield from self._compare(further, reflected)
        if verdict != WORSE:
            self._points[0] = further if verdict == BETTER else _middle((further, reflected))
            self._best = self._points[0]
        return verdict != EQUAL

    def _contract(self, others: list[Point], nearer: Point) -> _Asking:
        """Takes a point nearer to the others than the worst was; where it is worse too, draws all to the best one."""
        verdict = yield from self._compare(nearer, others[-1])
        if verdict == BETTER:
            self._points = others
            yield from self._insert(nearer, len(others) - 1)
        elif verdict == EQUAL:
            self._points = [*others, nearer]
        else:
            best = others[0]
            yield from self._order([best, *(_beyond(best, point, 0.5) for point in (*others[1:], nearer))])
        return verdict != EQUAL

    def _compare(self, first: Point, second: Point) -> Generator[Question, int, int]:
        """Asks for a verdict; the same point twice needs none."""
        if math.dist(first, second) < _SAME:
            return EQUAL
        return (yield first, second, self._best)

    def _within(self, point: Point) -> Point:
        return tuple(min(high, max(low, place)) for place, (low, high) in zip(point, self._bounds, strict=True))


def _middle(points: Sequence[Point]) -> Point:
    return tuple(sum(places) / len(points) for places in zip(*points, strict=True))


def _beyond(centre: Point, point: Point, times: float) -> Point:
    """Returns the point so many times as far from the centre as `point` is; on its other side if negative."""
    return tuple(middle + times * (place - middle) for middle, place in zip(centre, point, strict=True))
