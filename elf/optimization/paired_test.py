"""The t-test for paired measurements, looked at after every pair, with one error for all looks together.

A test at p < 0.05 after each of 5 to 24 pairs finds a difference between equals in a fifth of all comparisons. Here the
looks share the error: by look n of N, differences between equals have been found in `alpha * (n / N) ** 2` of all
comparisons, so the bound on |t| is high at first and falls (alpha spending, Lan and DeMets 1983, with the power family
of Kim and DeMets 1987). As t does not depend on the scale of the differences, the bounds are the same for all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

BETTER, EQUAL, WORSE = 1, 0, -1
"""Verdicts on the first of two: its values are larger, not told apart, smaller."""

FIRST, LAST, ALPHA = 5, 24, 0.05
"""The least number of pairs, the greatest, and the share of equals that may be found different."""
LAST_MAX = 1_000
_SPENDING_POWER = 2
_PATHS = 1 << 20
_SEED = 26

_BOUNDS: tuple[float, ...] = (
    7.0596,
    6.1734,
    5.3123,
    4.6505,
    4.2212,
    3.9153,
    3.6780,
    3.4792,
    3.3199,
    3.1883,
    3.0792,
    2.9719,
    2.8847,
    2.8001,
    2.7269,
    2.6626,
    2.5947,
    2.5390,
    2.4874,
    2.4347,
)
"""`simulated_bounds(FIRST, LAST, ALPHA)`, so that programs need no simulation and no NumPy; a test holds them to it."""


@lru_cache(maxsize=16)
def bounds(first: int = FIRST, last: int = LAST, alpha: float = ALPHA) -> tuple[float, ...]:
    """Bounds on |t| after `first`, ..., `last` pairs. Other numbers than the usual ones are simulated, once."""
    if (first, last, alpha) == (FIRST, LAST, ALPHA):
        return _BOUNDS
    return simulated_bounds(first, last, alpha)


def simulated_bounds(first: int, last: int, alpha: float, *, paths: int = _PATHS) -> tuple[float, ...]:
    """Finds the bounds among `paths` simulated comparisons of equals, always the same ones.

    At each look the comparisons with the largest |t| end as false differences, so many that the share of those found so
    far is what may have been spent. The overall error is alpha to within sqrt(alpha / paths).
    """
    import numpy as np  # only here: programs with the usual bounds start without it

    if not (2 <= first <= last <= LAST_MAX and 0 < alpha < 1):
        raise ValueError(f"pairs from {first} to {last} with alpha {alpha:g}: they are 2 to {LAST_MAX}, alpha 0 to 1")
    draws = np.random.Generator(np.random.PCG64(_SEED))
    sums, squares = np.zeros(paths), np.zeros(paths)
    found: list[float] = []
    spent = 0
    for count in range(1, last + 1):
        drawn = draws.standard_normal(len(sums))
        sums += drawn
        squares += drawn * drawn
        if count < first:
            continue
        t = np.abs(sums) / np.sqrt(count * (squares - sums * sums / count) / (count - 1))
        ending = min(len(t), max(1, round(alpha * (count / last) ** _SPENDING_POWER * paths) - spent))
        bound = float(np.partition(t, len(t) - ending)[len(t) - ending])
        found.append(math.ceil(bound * 1e4) / 1e4)
        going_on = t < bound
        spent += len(t) - int(going_on.sum())
        sums, squares = sums[going_on], squares[going_on]
    return tuple(found)


@dataclass(slots=True)
class PairedTest:
    """Takes differences of paired measurements until they tell which of two is better, or `last` have not.

    `count`, `mean` and `squares` (sum of squared deviations) are its whole state.
    """

    first: int = FIRST
    last: int = LAST
    alpha: float = ALPHA
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, difference: float) -> int | None:
        """Returns the verdict once there is one; nothing may be added after it. Raises ValueError for no finite
        number."""
        if not math.isfinite(difference):
            raise ValueError(f"the difference of two measurements is {difference}, no finite number")
        self.count += 1
        deviation = difference - self.mean
        self.mean += deviation / self.count
        self.squares += deviation * (difference - self.mean)
        if self.count >= self.first and abs(self.t) >= self._bounds()[self.count - self.first]:
            return BETTER if self.mean > 0 else WORSE
        return EQUAL if self.count >= self.last else None

    def _bounds(self) -> Sequence[float]:
        return bounds(self.first, self.last, self.alpha)

    @property
    def t(self) -> float:
        """The statistic: the mean over its standard error."""
        if self.mean == 0 or self.count < 2:
            return 0.0
        error = math.sqrt(self.squares / (self.count - 1) / self.count)
        return self.mean / error if error > 0 else math.copysign(math.inf, self.mean)
