"""Distributions of durations that are fitted to moments: normal, lognormal, gamma, and the waits of a queue.

Buckets are laid where the durations are: the offset is six standard deviations below the mean, or 0.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from query.latency.distribution import Distribution, Floats, mixture

_DEVIATIONS = 6
"""Standard deviations below the mean from which on durations are laid out."""
_CONSTANT = 1e-6
"""Coefficient of variation below which durations count as constant."""
_KEPT = 2_048
"""Fits that are kept: settings that are compared share most of them, and one takes a millisecond."""
_STEPS = 400
"""Terms of a series, or of a continued fraction, at most."""
_SHAPE_MAX = 2_000.0
"""Shape beyond which a gamma distribution is taken as a normal one: they differ by less than a bucket."""


def normal(mean: float, variance: float, count: float = math.inf) -> Distribution:
    """A normal distribution; what is below 0 counts as 0. Raises ValueError for moments that no duration has."""
    if _constant(mean, variance):
        return Distribution.constant(mean).assumed(count)
    deviation = math.sqrt(variance)
    return Distribution.of_survival(
        _offset(mean, variance), lambda seconds: normal_survival((seconds - mean) / deviation), count
    )


@lru_cache(_KEPT)
def lognormal(mean: float, variance: float, count: float = math.inf) -> Distribution:
    """A lognormal distribution. Raises ValueError for moments that no duration has."""
    if _constant(mean, variance):
        return Distribution.constant(mean).assumed(count)
    spread = math.log1p(variance / mean**2)
    middle, deviation = math.log(mean) - spread / 2, math.sqrt(spread)

    def survival(seconds: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return normal_survival((np.log(seconds) - middle) / deviation)

    return Distribution.of_survival(_offset(mean, variance), survival, count)


@lru_cache(_KEPT)
def gamma(mean: float, variance: float, count: float = math.inf) -> Distribution:
    """A gamma distribution; exponential where the variance is the square of the mean. Raises ValueError for moments
    that no duration has.
    """
    if _constant(mean, variance):
        return Distribution.constant(mean).assumed(count)
    shape = mean**2 / variance
    if shape > _SHAPE_MAX:
        return normal(mean, variance, count)
    scale = variance / mean
    return Distribution.of_survival(
        _offset(mean, variance), lambda seconds: _gamma_survival(shape, seconds / scale), count
    )


def exponential(mean: float, count: float = math.inf) -> Distribution:
    """An exponential distribution: what is left of a wait for something that comes at random."""
    return gamma(mean, mean**2, count)


def waits(busy: float, mean: float, variance: float, count: float = math.inf) -> Distribution:
    """Waits in a queue whose server is busy for this share of the time: those who find it idle do not wait, the waits
    of others have a gamma distribution. Exact for exponential services; infinite for a server that is always busy.
    """
    if not busy < 1 or not math.isfinite(mean):
        return Distribution.constant(math.inf).assumed(count)
    if busy <= 0 or mean <= 0:
        return Distribution.constant(0.0).assumed(count)
    later = mean / busy
    square = (variance + mean**2) / busy
    waiting = gamma(later, max(square - later**2, 0.0))
    return mixture(((Distribution.constant(0.0), 1 - busy), (waiting, busy))).assumed(count)


def normal_survival(deviations: Floats) -> Floats:
    """The share of a standard normal distribution beyond each number of deviations."""
    return np.array([math.erfc(one / math.sqrt(2)) / 2 for one in np.atleast_1d(deviations)])


def _constant(mean: float, variance: float) -> bool:
    if not (0 <= mean < math.inf and 0 <= variance < math.inf):
        raise ValueError(f"no duration has a mean of {mean} s and a variance of {variance} s²")
    return variance <= (_CONSTANT * mean) ** 2


def _offset(mean: float, variance: float) -> float:
    return max(mean - _DEVIATIONS * math.sqrt(variance), 0.0)


def _gamma_survival(shape: float, at: Floats) -> Floats:
    """The regularised upper incomplete gamma function: its series below shape + 1, its continued fraction beyond."""
    result = np.ones(len(at))
    low = (at > 0) & (at < shape + 1)
    high = at >= shape + 1
    for region, function in ((low, _series), (high, _fraction)):
        if region.any():
            result[region] = function(shape, at[region])
    return result


def _weight(shape: float, at: Floats) -> Floats:
    weight: Floats = np.exp(shape * np.log(at) - at - math.lgamma(shape))
    return weight


def _series(shape: float, at: Floats) -> Floats:
    term = np.full(len(at), 1 / shape)
    result = term.copy()
    for step in range(1, _STEPS):
        term = term * at / (shape + step)
        result += term
        if term.max() < 1e-14 * result.max():
            break
    return np.asarray(1 - _weight(shape, at) * result)


def _fraction(shape: float, at: Floats) -> Floats:
    """Lentz's method."""
    tiny = 1e-300
    b = at + 1 - shape
    c = np.full(len(at), 1 / tiny)
    d = 1 / b
    result = d.copy()
    for step in range(1, _STEPS):
        factor = step * (shape - step)
        b = b + 2
        d = 1 / np.where(np.abs(factor * d + b) < tiny, tiny, factor * d + b)
        c = b + factor / c
        c = np.where(np.abs(c) < tiny, tiny, c)
        result *= c * d
        if np.abs(c * d - 1).max() < 1e-14:
            break
    return np.asarray(_weight(shape, at) * result)
