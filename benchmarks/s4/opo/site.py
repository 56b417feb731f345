"""Simulates a site whose click yield depends on its parameters, hour by hour, as its logs would show it."""

import math
from collections.abc import Sequence

import numpy as np

START = 0.95
"""The yield at the start, of that at the optimum."""
EVENTS = 100_000
"""Events per slot and slice."""
SLOTS_PER_DAY = 24
_DAILY_SWING, _COMMON_NOISE = 0.25, 0.03
_MIX_NOISE = 0.004
"""Relative noise of a slice's yield in a slot beyond that of independent clicks: users who click a lot or little."""


class Site:
    """A site with its optimum somewhere off the start; parameters are from 0 to 1, and start in the middle.

    The yield falls off around the optimum, up to three times as fast in one direction of the plane as in the other, and
    on one side up to 2.3 times as fast as on the other. Slices share the day's swing and the news of the hour; clicks
    are drawn for each of them.
    """

    def __init__(self, seed: int, parameters: int, *, click_yield: float) -> None:
        self._draws = np.random.default_rng(seed)
        self._top = click_yield
        start = np.full(parameters, 0.5)
        direction = self._draws.normal(size=parameters)
        self.optimum = start + self._draws.uniform(0.15, 0.45) * direction / np.linalg.norm(direction)
        turned, _ = np.linalg.qr(self._draws.normal(size=(parameters, parameters)))
        self._axes = turned * self._draws.uniform(1, 3, parameters)
        self._skew = self._draws.uniform(-0.4, 0.4, parameters)
        self._steepness = 1.0
        self._steepness = -math.log(START) / self._fall(start)
        self._slot = 0

    def worth(self, point: Sequence[float]) -> float:
        """The true yield at a point, of that at the optimum."""
        return math.exp(-self._fall(np.asarray(point)))

    def gained(self, point: Sequence[float]) -> float:
        """The share of what could be gained from the start on."""
        return (self.worth(point) - START) / (1 - START)

    def measure(self, first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
        """The yields that the next slot shows of two slices with these parameters."""
        self._slot += 1
        swing = 1 + _DAILY_SWING * math.sin(2 * math.pi * self._slot / SLOTS_PER_DAY)
        level = self._top * swing * math.exp(self._draws.normal(0, _COMMON_NOISE))
        mixes = np.exp(self._draws.normal(0, _MIX_NOISE, 2))
        clicks = self._draws.binomial(EVENTS, level * np.array([self.worth(first), self.worth(second)]) * mixes)
        return float(clicks[0]) / EVENTS, float(clicks[1]) / EVENTS

    def _fall(self, point: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
        along = self._axes.T @ (point - self.optimum)
        return float(self._steepness * np.sum(along**2 * (1 + self._skew * np.sign(along))))
