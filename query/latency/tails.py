"""The tails of agents that are alike, pooled: the 0.99 quantile of the longest of 128 needs the 0.99992 quantile of
each, which no agent has measured by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from query.latency.distribution import EDGES, Distribution, Floats, mixture

TAIL_SHARE = 0.05
"""Share of the longest durations that are taken as the tail."""
TAIL_COUNT_MIN = 20
"""Durations in a tail below which it is not fitted."""
_STEEPEST, _FLATTEST = 50.0, 1.1
"""Exponents of Pareto tails that are told from data; flatter ones have no mean."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Durations beyond a threshold (s): exponential with the mean excess `scale`, or, if `exponent` is not None, a
    Pareto tail with that exponent. `count` is the number of durations that it was fitted to.
    """

    threshold: float
    scale: float
    exponent: float | None
    count: float

    @classmethod
    def fitted(cls, alike: Iterable[Distribution]) -> Tail | None:
        """The tail above the pooled 0.95 quantile of distributions that are alike, each with the weight of its measured
        durations; None where there are fewer than TAIL_COUNT_MIN in it, or durations that may last for ever.
        Exponential or Pareto, whichever makes what was measured likelier.
        """
        several = [one for one in alike if 0 < one.count < math.inf]
        count = sum(one.count for one in several) * TAIL_SHARE
        if count < TAIL_COUNT_MIN:
            return None
        pooled = mixture((one, one.count) for one in several)
        threshold = pooled.quantile(1 - TAIL_SHARE)
        places = pooled.offset + EDGES
        first = int(np.searchsorted(places, threshold, side="right"))
        edges = np.concatenate(([threshold], places[first:]))
        survival = np.concatenate(([TAIL_SHARE], np.minimum(pooled.survival[first:], TAIL_SHARE))) / TAIL_SHARE
        masses = survival[:-1] - survival[1:]
        middles = (edges[:-1] + edges[1:]) / 2
        scale = float(masses @ (middles - threshold))
        if survival[-1] > 0 or threshold <= 0 or scale <= 0:
            return None
        exponent = min(max(1 / float(masses @ np.log(middles / threshold)), _FLATTEST), _STEEPEST)
        both = (cls(threshold, scale, None, count), cls(threshold, scale, exponent, count))
        return max(both, key=lambda tail: tail._likelihood(edges, masses))

    def beyond(self, ratio: Floats) -> Floats:
        """The share of durations in the tail that are beyond so many times the threshold; 1 below it."""
        ratio = np.maximum(ratio, 1.0)
        if self.exponent is not None:
            return ratio**-self.exponent
        return np.exp(-(ratio - 1) * (self.threshold / self.scale))

    def put_on(self, one: Distribution) -> Distribution:
        """The distribution with this tail above its own 0.95 quantile, in proportion to that; itself if it may last for
        ever.
        """
        own = one.quantile(1 - TAIL_SHARE)
        if one.beyond or own <= 0:
            return one
        places = one.offset + EDGES
        survival = np.where(places <= own, one.survival, TAIL_SHARE * self.beyond(places / own))
        return Distribution(one.offset, np.minimum.accumulate(survival), max(one.count, self.count))

    def _likelihood(self, edges: Floats, masses: Floats) -> float:
        shares = self.beyond(edges / self.threshold)
        return float(masses @ np.log(np.maximum(shares[:-1] - shares[1:], 1e-300)))


def pooled(alike: Iterable[Distribution]) -> list[Distribution]:
    """Distributions that are alike, each with the tail of all of them; themselves if it cannot be told."""
    several = list(alike)
    tail = Tail.fitted(several)
    return several if tail is None else [tail.put_on(one) for one in several]
