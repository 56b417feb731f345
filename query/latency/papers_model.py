"""The paper's own model of a window's latency (sections 3.3, 3.4), to compare with: U + F, by means and variances."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from query.latency.fits import normal_survival

_DEVIATIONS = np.linspace(-9.0, 9.0, 3_601)


class MeanVariance(NamedTuple):
    """The mean (s) and the variance (s²) of a latency: all that the paper's model knows of it."""

    mean: float
    variance: float

    def normal_quantile(self, share: float) -> float:
        """The quantile of a normal distribution, μ + σ Φ⁻¹(x). Raises ValueError unless 0 < share < 1."""
        return self.mean + math.sqrt(self.variance) * NormalDist().inv_cdf(share)

    def cantelli_quantile(self, share: float) -> float:
        """The upper bound that holds for any distribution (equation 4), μ + σ √(x / (1 − x)). Raises ValueError unless
        0 < share < 1.
        """
        if not 0 < share < 1:
            raise ValueError(f"a quantile is between 0 and 1, not {share}")
        return self.mean + math.sqrt(self.variance * share / (1 - share))


def papers_model(path: MeanVariance, mappers: int, finish_s: float, keys: int) -> MeanVariance:
    """The latency of a window: that of the last tuple of each of so many mappers (U), which are normal and alike, plus
    that of one of so many keys of which all together are finished in `finish_s` (F). Raises ValueError without mappers
    or keys.

    >>> papers_model(MeanVariance(1.0, 0.01), 1, 0.2, 1)
    MeanVariance(mean=1.2, variance=0.01)
    """
    if mappers < 1 or keys < 1:
        raise ValueError("the paper's model has a mapper and a key at least")
    a, squared = _normal_extreme(mappers)
    return MeanVariance(
        path.mean + a * math.sqrt(path.variance) + (1 + 1 / keys) * finish_s / 2,
        squared * path.variance + (1 - 1 / keys**2) * finish_s**2 / 12,
    )


def _normal_extreme(number: int) -> tuple[float, float]:
    """The paper's a and a'²: mean and variance of the greatest of so many standard normal values. By integration, as
    the limit of Fisher, Tippett and Gnedenko is 30 % off for two of them.
    """
    if number == 1:
        return 0.0, 1.0
    share = np.exp(number * np.log1p(-np.minimum(normal_survival(_DEVIATIONS), 1 - 1e-16)))
    masses = np.diff(share)
    middles = (_DEVIATIONS[:-1] + _DEVIATIONS[1:]) / 2
    mean = float(masses @ middles)
    return mean, float(masses @ (middles - mean) ** 2)
