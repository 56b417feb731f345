"""Work and the share of a processor that it gets: the paper's u / v (section 3.2, equation 2).

The paper's u is a batch's tuples times a cost of each; here it is linear in rows, groups and bytes, and has a fixed
part. Its v is bounded from below by what all other threads may take; here it is measured: processor time over elapsed
time of that work. The paper halves the time of a batch, as a tuple is anywhere in it; a window waits for the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np

from query.latency.distribution import Distribution, Floats
from query.latency.fits import gamma

SHARE_MIN = 0.01
"""Least share of a processor that work is taken to get."""
COST_MAX = 60.0
"""Upper bound on each part of a cost (s)."""
SPREAD_MAX = 5.0
"""Upper bound on the coefficient of variation of work around its fitted cost."""
_POINTS_MIN = 8
"""Measurements below which the spread around a fit is not told from them."""
_SPREAD_ASSUMED = 0.5
_PULL = 1e-2
"""Weight, in that of the pieces, with which a fit keeps to how parts are divided without them."""


class Amount(NamedTuple):
    """The size of a piece of work."""

    rows: float = 0.0
    groups: float = 0.0
    size: float = 0.0
    """Bytes."""

    def times(self, factor: float) -> Amount:
        """Work that is so many times as much."""
        return Amount(self.rows * factor, self.groups * factor, self.size * factor)


class LinearCost(NamedTuple):
    """Time (s) that a kind of work takes: for each piece, row, group and byte; `spread` is the coefficient of variation
    around that, `pieces` the number of pieces that it was fitted to, 0 if it is assumed.

    >>> cost = LinearCost(0.001, 2e-6, 0.0, 0.0)
    >>> round(cost.seconds(Amount(rows=1_000)), 4)
    0.003
    """

    fixed: float = 0.0
    row: float = 0.0
    group: float = 0.0
    byte: float = 0.0
    spread: float = _SPREAD_ASSUMED
    pieces: float = 0.0

    def seconds(self, amount: Amount) -> float:
        """The mean for a piece of this size (s)."""
        return self.fixed + self.row * amount.rows + self.group * amount.groups + self.byte * amount.size

    def duration(self, amount: Amount, share: float = 1.0) -> Distribution:
        """Elapsed time with this share of a processor: a gamma distribution around the mean."""
        mean = self.seconds(amount) / min(max(share, SHARE_MIN), 1.0)
        if not math.isfinite(mean):
            return Distribution.constant(math.inf).assumed(self.pieces)
        return gamma(mean, (self.spread * mean) ** 2, self.pieces)

    @classmethod
    def fitted(cls, pieces: Iterable[tuple[Amount, float]], like: LinearCost | None = None) -> LinearCost:
        """The cost with the least squares of relative errors, no part negative: what each piece was, and its seconds.
        O(pieces). What the pieces do not tell apart, as where all are of nearly one size, is divided as in `like`, or
        evenly. Raises ValueError if there are none, or one is negative or no number.
        """
        told = np.array([(1.0, *amount, seconds) for amount, seconds in pieces], np.float64).reshape(-1, 5)
        if not len(told) or not ((told >= 0) & (told < math.inf)).all():
            raise ValueError("a cost is fitted to pieces of 0 or more, and at least one")
        sizes, seconds = told[:, :4], told[:, 4]
        least = max(float(seconds.mean()) / 10, 1e-9)
        fitted = _pulled(sizes, seconds, like)
        weights = 1 / np.maximum(sizes @ fitted, least)
        fitted = _pulled(sizes * weights[:, None], seconds * weights, like)
        predicted = sizes @ fitted
        off = (seconds - predicted)[predicted > 0] / predicted[predicted > 0]
        spread = float(np.sqrt((off**2).mean())) if len(off) >= _POINTS_MIN else _SPREAD_ASSUMED
        fixed, row, group, byte = map(float, fitted)
        return cls(fixed, row, group, byte, min(spread, SPREAD_MAX), len(told))


def share_of_processor(processor_s: float, elapsed_s: float) -> float:
    """The share of a processor that work got (v), from its processor time and how long it took; 1 if nothing was done.

    >>> share_of_processor(0.3, 0.6)
    0.5
    """
    if not (0 < elapsed_s < math.inf and 0 <= processor_s < math.inf):
        return 1.0
    return min(max(processor_s / elapsed_s, SHARE_MIN), 1.0)


def _pulled(matrix: Floats, target: Floats, like: LinearCost | None) -> Floats:
    """Least squares without negative parts, which keep to the proportions of `like` where nothing tells."""
    scales = np.sqrt((matrix**2).sum(axis=0))
    parts = np.divide(1.0, scales, out=np.zeros(len(scales)), where=scales > 0) if like is None else np.array(like[:4])
    expected = matrix @ parts
    if expected.any():
        parts = parts * (target @ expected / (expected @ expected))
    pull = math.sqrt(_PULL) * np.diag(scales)
    return _non_negative(np.vstack((matrix, pull)), np.concatenate((target, pull @ parts)))


def _non_negative(matrix: Floats, target: Floats) -> Floats:
    """Least squares without negative parts: the best of those subsets of columns whose own solution has none."""
    scales = np.sqrt((matrix**2).sum(axis=0))
    used = [column for column in range(matrix.shape[1]) if scales[column] > 0]
    best, least = np.zeros(matrix.shape[1]), float(target @ target)
    for number in range(1, len(used) + 1):
        for columns in map(list, combinations(used, number)):
            parts = np.linalg.lstsq(matrix[:, columns] / scales[columns], target, rcond=None)[0] / scales[columns]
            error = float(((matrix[:, columns] @ parts - target) ** 2).sum())
            if (parts >= 0).all() and error < least:
                least = error
                best = np.zeros(matrix.shape[1])
                best[columns] = parts
    return best
