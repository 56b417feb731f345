"""Predictions beside what was measured: errors of ELF's model and of the paper's, and the lines that tell of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import median

import numpy as np

from benchmarks.overlay.population import progress
from benchmarks.report import Comparison, reaching, smaller, within
from query.latency import MASTER_PHASES, MeanVariance, Phase, Prediction, papers_model

NAME = "latency"
BESIDE = "as predicted, beside measured"
"""The lines of single settings."""
QUANTILE = 0.99
HOUR_S = 3_600.0
"""Latency as which all longer ones count, and such as have no bound or were not measured."""
LONG_S = 0.005
"""Length from which on the mean of a phase is to be near."""
LONG_NEAR = 0.1


@dataclass(frozen=True, slots=True)
class Latency:
    """Mean and 0.99 quantile of the latency of windows (s)."""

    mean: float
    quantile: float

    @classmethod
    def of(cls, seconds: Sequence[float] | np.ndarray) -> Latency:
        """Mean and quantile of windows that were measured."""
        return cls(float(np.mean(seconds)), float(np.quantile(seconds, QUANTILE)))


@dataclass(slots=True)
class Judged:
    """A setting: what was predicted before it was run, and what was measured then. `phases`: mean of each (s)."""

    label: str
    predicted: Latency
    normal: Latency
    """By the paper's model, with normal distributions."""
    cantelli: float
    """Its 0.99 quantile where distributions are not known."""
    phases: Mapping[Phase, float]
    measured: Latency = Latency(0.0, 0.0)
    measured_phases: Mapping[Phase, float] = field(default_factory=dict)

    @classmethod
    def before(cls, label: str, found: Prediction, agents: int, keys: float) -> Judged:
        """Writes the prediction of a setting before that is run."""
        papers = papers_view(found, agents, keys)
        normal = Latency(papers.mean, papers.normal_quantile(QUANTILE))
        phases = {phase: one.mean for phase, one in found.phases.items()}
        made = cls(label, Latency(found.mean, found.quantile), normal, papers.cantelli_quantile(QUANTILE), phases)
        progress(f"predicted, {label}: mean {_ms(found.mean)}, p99 {_ms(found.quantile)}")
        return made

    def after(self, measured: Latency, phases: Mapping[Phase, float]) -> None:
        """Adds what was measured."""
        self.measured, self.measured_phases = measured, phases
        progress(
            f" measured, {self.label}: mean {_ms(measured.mean)} ({self.error(self.predicted, 'mean'):+.1%}), "
            f"p99 {_ms(measured.quantile)} ({self.error(self.predicted, 'quantile'):+.1%}); "
            f"paper's {self.error(self.normal, 'mean'):+.1%}, {self.error(self.normal, 'quantile'):+.1%}; phases: "
            + ", ".join(f"{phase.label} {error:+.0%}" for phase, error in self.phase_errors().items())
        )

    def error(self, predicted: Latency, what: str) -> float:
        """The relative error of a prediction, negative where it is too low."""
        value, measured = (min(getattr(told, what), HOUR_S) for told in (predicted, self.measured))
        return float(value / measured - 1)

    def phase_errors(self) -> dict[Phase, float]:
        """Relative errors of the means of phases that are long."""
        return {
            phase: self.phases[phase] / seconds - 1
            for phase, seconds in self.measured_phases.items()
            if seconds >= LONG_S and phase is not Phase.CLOSE
        }


def papers_view(found: Prediction, agents: int, keys: float) -> MeanVariance:
    """The paper's U + F over ELF's phases: the agents' are normal and alike, a result is one of so many keys; commits
    and deliveries, which it does not have, are added."""
    path = [one for phase, one in found.phases.items() if phase not in MASTER_PHASES]
    tuples = MeanVariance(sum(one.mean for one in path), sum(one.variance for one in path))
    window = papers_model(tuples, agents, found.phases[Phase.FINISH].mean, max(1, round(keys)))
    behind = [found.phases[phase] for phase in MASTER_PHASES if phase is not Phase.FINISH]
    mean, variance = (sum(getattr(one, what) for one in behind) for what in ("mean", "variance"))
    return MeanVariance(window.mean + mean, window.variance + variance)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Most that means and quantiles may be off, and the percentages of settings in which they are to be near.
    `papers_ratio`: the least by which the median error of quantiles is to be below that of the paper's model."""

    mean: float
    quantile: float
    mean_percent: float
    quantile_percent: float
    papers_ratio: float | None = None


def lines_of(what: str, judged: Sequence[Judged], bounds: Bounds) -> list[Comparison]:
    """A line for each setting and measure, and those of all together."""
    lines = []
    for one in judged:
        for name in ("mean", "quantile"):
            label = f"{what}, {'mean' if name == 'mean' else 'p99'} {BESIDE}: {one.label}"
            value, rival = (min(getattr(told, name), HOUR_S) for told in (one.predicted, one.measured))
            lines.append(Comparison(NAME, label, 1000 * value, "ms", "measured", 1000 * rival, value / rival))
    return [*_summary(what, judged, bounds), *lines]


def _summary(what: str, judged: Sequence[Judged], bounds: Bounds) -> list[Comparison]:
    own = [errors_of(judged, measure) for measure in ("mean", "quantile")]
    papers = [errors_of(judged, measure, attrgetter("normal")) for measure in ("mean", "quantile")]
    cantelli = errors_of(judged, "quantile", lambda one: Latency(one.cantelli, one.cantelli))
    whole = f"{what}, {len(judged)} settings"
    found = []
    for name, errors, rivals, most, percent in (
        ("mean", own[0], papers[0], bounds.mean, bounds.mean_percent),
        ("p99", own[1], papers[1], bounds.quantile, bounds.quantile_percent),
    ):
        near = f"{whole}, whose {name} is within {most:.0%}"
        found += [
            reaching(NAME, near, percent_near(errors, most), "% of settings", percent),
            Comparison(NAME, f"{near}, by the paper's model", percent_near(rivals, most), "% of settings"),
            within(NAME, f"{whole}, greatest error of the {name}", 100 * max(errors), "%"),
        ]
    found += [
        smaller(NAME, f"{whole}, median error of the mean", 100 * median(own[0]), "%", "the paper's, normal",
                100 * median(papers[0])),
        smaller(NAME, f"{whole}, median error of the p99", 100 * median(own[1]), "%", "the paper's, normal",
                100 * median(papers[1]), bounds.papers_ratio),
        smaller(NAME, f"{whole}, median error of the p99", 100 * median(own[1]), "%", "the paper's, Cantelli",
                100 * median(cantelli)),
    ]  # fmt: skip
    return found


def phase_lines(what: str, judged: Sequence[Judged], percent: float) -> list[Comparison]:
    """Means of phases that are long: how many are near, and the median error of each."""
    errors = [(phase, abs(error)) for one in judged for phase, error in one.phase_errors().items()]
    if not errors:
        return []
    near = percent_near([error for _, error in errors], LONG_NEAR)
    label = f"{what}, {len(errors)} means of phases over {1000 * LONG_S:g} ms, within {LONG_NEAR:.0%}"
    each = [
        within(NAME, f"{what}, median error of the mean of a phase over 5 ms: {phase.label}",
               100 * median(error for one, error in errors if one is phase), "%")
        for phase in Phase
        if any(one is phase for one, _ in errors)
    ]  # fmt: skip
    return [reaching(NAME, label, near, "% of phases", percent), *each]


def errors_of(
    judged: Sequence[Judged], what: str, model: Callable[[Judged], Latency] = attrgetter("predicted")
) -> list[float]:
    """How far off predictions are, relative to what was measured: those that were made, or by another model."""
    return [abs(one.error(model(one), what)) for one in judged]


def percent_near(errors: Sequence[float], most: float) -> float:
    """The percentage of settings that are no further off."""
    return 100 * sum(error <= most for error in errors) / len(errors)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms"
