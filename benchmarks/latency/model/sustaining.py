"""Settings of a simulated fleet as they turn out: whether they are within a limit, their cost, their largest rate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from query.latency import Choices, Measured, Setting, largest_rate
from query.latency.planner import BYTE_S
from query.latency.prediction import estimate

from .simulated import calibrated
from .window_simulation import Truth, simulated

GROUP_BYTES = 32.0
RUNS = 3
"""Runs of a setting that all have to be within a limit, as in the paper."""
SPEED_MAX = 64.0
"""Upper bound on the multiple of the rate that is tried."""
_STEPS = 6
_CANDIDATES = 6
"""Settings whose largest rate is computed, of those for which estimates give the largest ones."""


@dataclass(frozen=True)
class Workload:
    """A fleet with a limit (s) for `percent` of windows, measured at `base`; how many windows a run has."""

    truth: Truth
    limit: float
    base: Setting
    windows: int
    percent: float = 99.0

    @cached_property
    def known(self) -> Measured:
        """All that the fleet has measured of itself at its base."""
        return calibrated(self.truth, self.base, simulated(self.truth, self.base, self.windows, self._random(0)))

    def run(self, setting: Setting, speed: float, seed: int = 1) -> Run:
        """Simulates a setting with `speed` times the lines."""
        record = simulated(self.truth, setting, self.windows, self._random(seed), speed)
        seconds = self.windows * self.truth.pane
        quantile = float(np.quantile(record.latencies, self.percent / 100))
        busy = float(record.work_s.max()) / seconds / self.truth.share
        cost = (float(record.work_s.sum()) + record.sent * GROUP_BYTES * BYTE_S) / seconds
        return Run(quantile, cost, quantile <= self.limit and busy <= 1)

    def largest_speed(self, setting: Setting) -> float:
        """The largest multiple of the rate with which a setting is within the limit, by bisection to 4 %; 0 if there is
        none."""
        low, high = 1 / SPEED_MAX, SPEED_MAX
        if not self.run(setting, low).is_valid:
            return 0.0
        for _ in range(2 * _STEPS):
            if high / low < 1.04:
                break
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.run(setting, middle).is_valid else (low, middle)
        return low

    def best_by_model(self, settings: Iterable[Setting]) -> Setting:
        """The setting with the largest rate within the limit, as predicted (Λ of the paper's section 3.1)."""
        share = self.percent / 100
        likely = sorted(settings, key=self._estimated_speed, reverse=True)[:_CANDIDATES]
        return max(likely, key=lambda one: largest_rate(one, self.known, self.limit, share))

    def _estimated_speed(self, setting: Setting) -> float:
        low, high = 1 / SPEED_MAX, SPEED_MAX
        for _ in range(2 * _STEPS):
            middle = math.sqrt(low * high)
            holds = estimate(setting, self.known, self.percent / 100, self.known.rate * middle) <= self.limit
            low, high = (middle, high) if holds else (low, middle)
        return low

    def _random(self, seed: int) -> np.random.Generator:
        return np.random.default_rng([seed, *self.label.encode()])

    @property
    def label(self) -> str:
        """Its limit and its size, in words."""
        agents = sum(number for number, _ in self.truth.kinds)
        return f"{agents} agents, panes of {self.truth.pane:g} s, within {1000 * self.limit:g} ms"

    def grid(self, choices: Choices) -> list[Setting]:
        """All settings of these values."""
        return list(choices.settings(self.known))


@dataclass(frozen=True, slots=True)
class Run:
    """The quantile of a run's latencies (s), seconds of a processor that it costs in a second, bytes included, and
    whether it is within the limit while no agent is overloaded."""

    quantile: float
    cost: float
    is_valid: bool


def geometric_mean(rates: Mapping[str, float]) -> float:
    """That of rates; 0 if one is."""
    return math.prod(rates.values()) ** (1 / len(rates))
