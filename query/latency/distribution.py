"""A distribution of durations, and its algebra: sums, greatest of several, mixtures, quantiles.

Each has an offset, which all durations exceed, and what is beyond it in the buckets of `query.latency.buckets`; within
a bucket the density is level. So an error is a part of a bucket, 5 % of the distance from the offset: constants such as
GRACE are exact, however long they are. Sums are convolved without rounding to buckets first; twelve of them in a row
move quantiles up to the 0.99 one by less than 3 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from query.latency.buckets import EDGES_US
from query.latency.statistics import PhaseStatistics

Floats = npt.NDArray[np.float64]
EDGES = np.array(EDGES_US) / 1e6
"""Edges of buckets (s)."""
WIDTHS = np.diff(EDGES)
NEGLIGIBLE = 1e-6
"""Share of durations that may last for ever without the mean being for ever."""
_CUT = 1e-10
"""Share of the longest durations that sums leave out."""


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """A distribution of durations (s): each is `offset` plus a rest, and `survival[i]` is the share of rests that
    exceed edge i of the buckets. What exceeds the last edge, about an hour, may last for ever.

    `count` is the number of measured durations that it stands on: infinite for what is known, 0 for what is assumed.
    That of a sum is the least of its parts.

    >>> both = Distribution.constant(5.0) + Distribution.uniform(0.0, 0.1)
    >>> round(both.mean, 4), round(both.quantile(0.99), 3)
    (5.05, 5.1)
    """

    offset: float
    survival: Floats
    count: float = math.inf

    @classmethod
    def constant(cls, seconds: float) -> Distribution:
        """Always as long; for ever if infinite. Raises ValueError for what is negative or no number."""
        if not seconds >= 0:
            raise ValueError(f"a duration is 0 or more, not {seconds}")
        if seconds > EDGES[-1]:
            return cls(0.0, np.ones(len(EDGES)))
        return cls(seconds, np.zeros(len(EDGES)))

    @classmethod
    def uniform(cls, low: float, high: float) -> Distribution:
        """Equally likely anywhere between two durations. Raises ValueError unless 0 <= low <= high."""
        if not 0 <= low <= high < math.inf:
            raise ValueError(f"no interval of durations: {low} to {high}")
        if high <= low:
            return cls.constant(low)
        return cls(low, np.clip(1 - EDGES / (high - low), 0.0, 1.0))

    @classmethod
    def of_samples(cls, samples: Iterable[float], weights: Sequence[float] | None = None) -> Distribution:
        """The durations in a list, alike or each with its weight. Raises ValueError if there are none, or one is
        negative or no number. O(n log buckets).
        """
        values = np.asarray(list(samples), np.float64)
        shares = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
        if not len(values) or not (values >= 0).all():
            raise ValueError("samples are durations of 0 or more, and at least one")
        offset = float(values.min())
        if offset > EDGES[-1]:
            return cls(0.0, np.ones(len(EDGES)), len(values))
        rests = values - offset
        places = np.where(rests > 0, np.searchsorted(EDGES, rests, side="right"), 0)
        masses = np.bincount(places, shares, len(EDGES) + 1) / shares.sum()
        return cls.of_masses(offset, masses, len(values))

    @classmethod
    def of_statistics(cls, statistics: PhaseStatistics) -> Distribution:
        """The durations that were counted, stretched by some per cent so that the mean is theirs. Raises ValueError if
        there are none.
        """
        if not statistics.count:
            raise ValueError("statistics without durations")
        masses = np.zeros(len(EDGES) + 1)
        for bucket, count in statistics.buckets.items():
            masses[bucket + 1] = count / statistics.count
        found = cls.of_masses(0.0, masses, statistics.count)
        if masses[-1] or statistics.mean < EDGES[1]:
            return found
        return found.scaled(statistics.mean / found.mean)

    @classmethod
    def of_masses(cls, offset: float, masses: Floats, count: float = math.inf) -> Distribution:
        """By shares of durations: those that are `offset`, those in each bucket beyond it, those beyond all buckets."""
        return cls(offset, np.clip(np.cumsum(masses[::-1])[::-1][1:], 0.0, 1.0), count)

    @classmethod
    def of_survival(cls, offset: float, survival: Callable[[Floats], Floats], count: float = math.inf) -> Distribution:
        """By a function of durations, the share that exceeds each."""
        return cls(offset, np.clip(np.minimum.accumulate(survival(offset + EDGES)), 0.0, 1.0), count)

    @property
    def masses(self) -> Floats:
        """Shares of durations that are `offset`, in each bucket beyond it, and beyond all buckets."""
        return np.concatenate(([1 - self.survival[0]], self.survival[:-1] - self.survival[1:], self.survival[-1:]))

    @property
    def beyond(self) -> float:
        """Share of durations of an hour and more beyond the offset, which may last for ever."""
        return float(self.survival[-1])

    @property
    def mean(self) -> float:
        """Mean duration (s); infinite where more than NEGLIGIBLE last for ever."""
        if self.beyond > NEGLIGIBLE:
            return math.inf
        return self.offset + float(_levels(self.survival) @ WIDTHS)

    @property
    def variance(self) -> float:
        """Variance of durations (s²); infinite where the mean is."""
        if self.beyond > NEGLIGIBLE:
            return math.inf
        masses = self.survival[:-1] - self.survival[1:]
        low, high = EDGES[:-1], EDGES[1:]
        square = float(masses @ (low * low + low * high + high * high)) / 3
        return max(square - float(_levels(self.survival) @ WIDTHS) ** 2, 0.0)

    def exceeds(self, seconds: npt.ArrayLike) -> Floats:
        """The share of durations that exceed each of these."""
        rest = np.asarray(seconds, np.float64) - self.offset
        return np.where(rest < 0, 1.0, np.interp(rest, EDGES, self.survival))

    def quantile(self, share: float) -> float:
        """The duration (s) that this share of durations does not exceed; infinite if it may last for ever. Raises
        ValueError unless 0 < share < 1.
        """
        if not 0 < share < 1:
            raise ValueError(f"a quantile is between 0 and 1, not {share}")
        left = 1 - share
        if left >= self.survival[0]:
            return self.offset
        if left < self.beyond or not left:
            return math.inf
        at = int(np.searchsorted(-self.survival, -left, side="left"))
        before, after = self.survival[at - 1], self.survival[at]
        return self.offset + float(EDGES[at - 1] + WIDTHS[at - 1] * (before - left) / (before - after))

    def shifted(self, seconds: float) -> Distribution:
        """Each duration longer, or shorter but not below 0, by so much."""
        if self.offset + seconds >= 0:
            return Distribution(self.offset + seconds, self.survival, self.count)
        return Distribution(0.0, self.exceeds(EDGES - seconds), self.count)

    def scaled(self, factor: float) -> Distribution:
        """Each duration so many times as long. Raises ValueError for a factor that is negative or no number."""
        if not 0 <= factor < math.inf:
            raise ValueError(f"no factor of durations: {factor}")
        if factor == 0:
            return Distribution(0.0, np.zeros(len(EDGES)), self.count)
        survival = np.interp(EDGES / factor, EDGES, self.survival)
        return Distribution(self.offset * factor, np.maximum(survival, self.beyond), self.count)

    def assumed(self, count: float) -> Distribution:
        """This distribution, as standing on so many measured durations."""
        return Distribution(self.offset, self.survival, count)

    def __add__(self, other: Distribution) -> Distribution:
        """The sum of one duration of each, which are independent. O(buckets²), about a millisecond."""
        count = min(self.count, other.count)
        offset = self.offset + other.offset
        for one, constant in ((self, other), (other, self)):
            if not constant.survival[0]:
                return Distribution(offset, one.survival, count)
        one, other = sorted((self, other), key=lambda each: np.count_nonzero(each.survival))
        return Distribution(offset, _convolved(one, other), count)


def total(distributions: Iterable[Distribution]) -> Distribution:
    """The sum of one duration of each; 0 of none. Short ones are added first."""
    result = Distribution.constant(0.0)
    for one in sorted(distributions, key=lambda each: float(each.survival @ np.append(WIDTHS, 0.0))):
        result = one + result
    return result


def greatest(distributions: Iterable[tuple[Distribution, float]]) -> Distribution:
    """The longest of durations that are independent: so many of each distribution. Their shares that do not exceed a
    duration are multiplied. O(distributions · buckets). Raises ValueError if there are none.
    """
    several = [(one, number) for one, number in distributions if number > 0]
    if not several:
        raise ValueError("the longest of no durations")
    offset = max(one.offset for one, _ in several)
    with np.errstate(divide="ignore"):
        logarithms = sum(number * np.log1p(-one.exceeds(offset + EDGES)) for one, number in several)
    return Distribution(offset, -np.expm1(np.asarray(logarithms)), min(one.count for one, _ in several))


def last_shares(distributions: Sequence[tuple[Distribution, float]]) -> list[float]:
    """The probability of each distribution that one of its durations is the longest of all, as in `greatest`: in each
    bucket, in proportion to what it adds to the logarithm of their product. Raises ValueError if there are none.
    """
    edges = max(one.offset for one, _ in distributions) + EDGES
    floor = math.log(np.finfo(float).tiny)
    with np.errstate(divide="ignore"):
        several = [np.maximum(number * np.log1p(-one.exceeds(edges)), floor) for one, number in distributions]
    gained = np.diff(np.exp(np.sum(several, axis=0)), prepend=0.0)
    steps = np.diff(several, prepend=floor)
    whole = steps.sum(axis=0)
    shares = (steps * np.divide(gained, whole, out=np.zeros_like(gained), where=(gained > 0) & (whole > 0))).sum(axis=1)
    known = float(shares.sum())
    return [float(share / known) if known > 0 else 1 / len(shares) for share in shares]


def mixture(distributions: Iterable[tuple[Distribution, float]]) -> Distribution:
    """A duration of one of several distributions, taken with these weights. Raises ValueError if all are 0."""
    several = [(one, weight) for one, weight in distributions if weight > 0]
    if not several:
        raise ValueError("a mixture of nothing")
    weights = sum(weight for _, weight in several)
    offset = min(one.offset for one, _ in several)
    survival = sum(one.exceeds(offset + EDGES) * (weight / weights) for one, weight in several)
    return Distribution(offset, np.asarray(survival), sum(one.count for one, _ in several))


def _levels(survival: Floats) -> Floats:
    """The mean of survival in each bucket."""
    return (survival[:-1] + survival[1:]) / 2


@cache
def _differences() -> tuple[npt.NDArray[np.intp], Floats]:
    """For edge k and edge i the bucket of their difference and how far it is into it, negative below 0."""
    differences = EDGES[:, None] - EDGES[None, :]
    buckets = np.clip(np.searchsorted(EDGES, differences, side="right") - 1, 0, len(WIDTHS) - 1)
    return buckets, differences - EDGES[buckets]


def _convolved(one: Distribution, other: Distribution) -> Floats:
    """Survival of the sum of two rests at all edges: for a rest of `one` that is level between edges a and b, the mean
    of the other's survival between t - b and t - a, by the integral of it from there on. Tails below _CUT are left out.
    """
    first, second = (int(np.count_nonzero(each.survival - each.beyond > _CUT)) + 1 for each in (one, other))
    first, second = min(first, len(EDGES)), min(second, len(EDGES))
    rows = int(np.searchsorted(EDGES, EDGES[first - 1] + EDGES[second - 1])) + 1
    buckets, into = (part[:rows, :first] for part in _differences())
    after = np.append(np.cumsum((_levels(other.survival) * WIDTHS)[::-1])[::-1], 0.0)
    slopes = np.diff(other.survival) / (2 * WIDTHS)
    levels = np.where(into < 0, 1.0, other.survival[:-1][buckets] + slopes[buckets] * into)
    left = after[buckets] - levels * into
    masses = one.masses[:first]
    means = np.diff(left, axis=1) / WIDTHS[: first - 1]
    result = np.full(len(EDGES), max(one.beyond, other.beyond))
    result[:rows] = masses[0] * other.survival[:rows] + means @ masses[1:] + one.beyond
    both = one.beyond + other.beyond - one.beyond * other.beyond
    return np.clip(np.minimum.accumulate(result), both, 1.0)
