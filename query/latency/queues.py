"""Waits in a queue with one server, in the order of arrival: G/G/1, by the moments of the times between arrivals and of
services, by replaying what was measured, or by adding up a batch.

The paper (section 3.2) takes the mean and the variance of the wait from the first three moments of both and prints no
formula. These are its first two moments by Krämer and Langenbach-Belz and by an identity of the third power.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from query.latency.distribution import Distribution, Floats
from query.latency.fits import waits

PAIRS_MAX = 1_024
"""Upper bound on the last pairs of times between arrivals and services that are replayed."""


class RawMoments(NamedTuple):
    """Means of the first three powers of a duration (s, s², s³)."""

    mean: float
    square: float
    cube: float

    @property
    def variation(self) -> float:
        """The squared coefficient of variation; 0 of what is always 0."""
        return max(self.square / self.mean**2 - 1, 0.0) if self.mean > 0 else 0.0

    @classmethod
    def of(cls, values: Sequence[float] | Floats) -> RawMoments:
        """Moments of a list. Raises ValueError if it is empty."""
        if not len(values):
            raise ValueError("moments of nothing")
        array = np.asarray(values, np.float64)
        return cls(float(array.mean()), float((array**2).mean()), float((array**3).mean()))

    @classmethod
    def constant(cls, value: float) -> RawMoments:
        """Moments of what is always the same."""
        return cls(value, value**2, value**3)

    @classmethod
    def gamma(cls, mean: float, variation: float) -> RawMoments:
        """Moments of a gamma distribution by its mean and squared coefficient of variation; exponential if it is 1."""
        return cls(mean, mean**2 * (1 + variation), mean**3 * (1 + variation) * (1 + 2 * variation))


def kingman_bound(between: RawMoments, service: RawMoments) -> float:
    """Kingman's upper bound on the mean wait (s): (var A + var S) / (2 (E[A] − E[S])). Tight under heavy load only;
    here for comparison.
    """
    slack = between.mean - service.mean
    if slack <= 0:
        return math.inf
    return (_variance(between) + _variance(service)) / (2 * slack)


def mean_wait(between: RawMoments, service: RawMoments) -> float:
    """The mean wait (s) by Krämer and Langenbach-Belz (1976); infinite where the server is always busy.

    Kingman's heavy-traffic mean ρ/(1 − ρ) · (c²A + c²S)/2 · E[S], times exp(−2(1 − ρ)(1 − c²A)²/(3ρ(c²A + c²S))) where
    c²A ≤ 1, exp(−(1 − ρ)(c²A − 1)/(c²A + 4c²S)) elsewhere. Exact for M/G/1, and for D/D/1.
    """
    if between.mean <= 0 or service.mean >= between.mean:
        return math.inf
    load = service.mean / between.mean
    arrivals, services = between.variation, service.variation
    if load <= 0 or arrivals + services <= 0:
        return 0.0
    if arrivals <= 1:
        correction = -2 * (1 - load) * (1 - arrivals) ** 2 / (3 * load * (arrivals + services))
    else:
        correction = -(1 - load) * (arrivals - 1) / (arrivals + 4 * services)
    return load / (1 - load) * (arrivals + services) / 2 * service.mean * math.exp(correction)


def waiting_share(between: RawMoments, service: RawMoments) -> float:
    """The share of those who wait at all, by Krämer and Langenbach-Belz (1976); 1 where the server is always busy.
    Exact for M/G/1, where it is the load.
    """
    if between.mean <= 0 or service.mean >= between.mean:
        return 1.0
    load = service.mean / between.mean
    arrivals, services = between.variation, service.variation
    later = load**2 * (4 * arrivals + services)
    if arrivals <= 1:
        factor = (1 + arrivals + load * services) / (1 + load * (services - 1) + later)
    else:
        factor = 4 * load / (arrivals + later)
    return min(max(load + (arrivals - 1) * load * (1 - load) * factor, 0.0), 1.0)


def wait_variance(between: RawMoments, service: RawMoments) -> float:
    """The variance of the wait (s²), from the mean by an identity of the third power.

    By Lindley W' = max(0, W + X) with X = S − A. Let I = W' − (W + X) be the time for which the server then idles; one
    of W' and I is 0, so W'ᵏ + (−I)ᵏ = (W + X)ᵏ. In balance W' is distributed as W, and X is independent of W. The means
    of the powers 1, 2 and 3 say

        E[I]  = −E[X]
        E[I²] = E[X²] + 2 E[W] E[X]
        E[W²] = (3 E[W] E[X²] + E[X³] + E[I³]) / (−3 E[X])

    E[I³] is that of an idle time that is 0 for those who wait (`waiting_share`), and otherwise has a gamma distribution
    with these E[I] and E[I²]. Exact for M/G/1, where idle times are exponential.
    """
    mean = mean_wait(between, service)
    if not math.isfinite(mean) or mean <= 0:
        return mean
    first = service.mean - between.mean
    second = service.square - 2 * service.mean * between.mean + between.square
    third = service.cube - 3 * service.square * between.mean + 3 * service.mean * between.square - between.cube
    idle = max(1 - waiting_share(between, service), 1 - service.mean / between.mean)
    known = RawMoments(-first / idle, max(second + 2 * mean * first, 0.0) / idle, 0.0)
    idle_cube = idle * RawMoments.gamma(known.mean, known.variation).cube
    square = (3 * mean * second + third + idle_cube) / (-3 * first)
    return max(square - mean**2, 0.0)


def queue_wait(between: RawMoments, service: RawMoments, count: float = math.inf) -> Distribution:
    """The distribution of the wait by its first two moments; infinite where the server is always busy. For arrivals
    that know nothing of each other: correlated ones wait two to nine times as long, and `replayed` tells.
    """
    waiting = waiting_share(between, service)
    return waits(waiting, mean_wait(between, service), wait_variance(between, service), count)


def replayed(pairs: Iterable[tuple[float, float]]) -> Floats:
    """Waits (s) of the last PAIRS_MAX arrivals, by Lindley's recursion over (time since the arrival before, service),
    which keeps whatever correlation there is. The first one waits as those after the last one would, as long as the
    server has less to do than there is time. O(pairs). Raises ValueError for times that are negative or no numbers.
    """
    times = np.asarray(list(pairs)[-PAIRS_MAX:], np.float64).reshape(-1, 2)
    if not ((times >= 0) & (times < math.inf)).all():
        raise ValueError("times between arrivals and services are 0 or more")
    if not len(times):
        return np.empty(0)
    between, services = times[:, 0], times[:, 1]
    steps = np.roll(services, 1) - between
    first = 0.0
    if steps.sum() < 0:
        first = float(_lindley(steps, 0.0)[-1])
    else:
        steps[0] = 0.0
    return _lindley(steps, first)


def _lindley(steps: Floats, before: float) -> Floats:
    """Each wait from the one before: max(0, it plus the step)."""
    path = before + np.cumsum(steps)
    return path - np.minimum(np.minimum.accumulate(path), 0.0)


def batch_waits(services: Sequence[Distribution]) -> list[Distribution]:
    """Waits of those that arrive together and are served in this order, as panes of several jobs that end together:
    each waits for all before it. No G/G/1, whose arrivals come one by one.
    """
    found = [Distribution.constant(0.0)]
    for service in services[:-1]:
        found.append(found[-1] + service)
    return found[: len(services)]


def _variance(moments: RawMoments) -> float:
    return max(moments.square - moments.mean**2, 0.0)
