"""The wait of a line for the next look at its file."""

from __future__ import annotations

import math

import numpy as np

from query.latency.distribution import Distribution

_RESOLUTION = 1_000_000
"""Parts of a second in which intervals are compared: microseconds."""
POINTS_MAX = 1_000
"""Upper bound on the different waits that are told apart; more are taken as level."""


def look_wait(interval: float, window: float | None = None, phase: float | None = None) -> Distribution:
    """The wait for the next look at a file that is looked at every `interval` (s), for lines at the ends of windows of
    `window` (s).

    Level between 0 and the interval, with mean B/2 and variance B²/12, for lines that come at any time, and where looks
    keep no time, so that `phase` is None. But looks and windows that are both periodic are locked: with looks at
    `phase` after a window's end, the ends that follow come at multiples of the greatest common divisor of both before a
    look, and only these waits occur, each equally often. If the window is a multiple of the interval, there is one wait
    only. Raises ValueError for an interval that is not positive.

    >>> round(look_wait(0.1).mean, 3)
    0.05
    >>> look_wait(0.1, 1.0, 0.03).quantile(0.99)
    0.03
    """
    if not 0 < interval < math.inf:
        raise ValueError(f"an interval between looks is more than 0 s, not {interval}")
    if window is None or phase is None:
        return Distribution.uniform(0.0, interval)
    every, ends = round(interval * _RESOLUTION), round(window * _RESOLUTION)
    step = math.gcd(every, ends)
    if step <= 0 or every // step > POINTS_MAX:
        return Distribution.uniform(0.0, interval)
    first = round(phase * _RESOLUTION) % step
    return Distribution.of_samples(np.arange(first, every, step) / _RESOLUTION).assumed(math.inf)
