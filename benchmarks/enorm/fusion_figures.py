"""Figures 14 and 15 of Enorm: components of random jobs, and the traffic between these, by who fuses them."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean, quantiles
from types import MappingProxyType
from typing import TypeAlias

from benchmarks.report import Comparison, smaller, within
from query.fusion.graph import FusionGraph, Partitioning, has_circle, traffic_between
from query.fusion.greedy import fused_by_attributes, fused_by_rate, fused_from_first
from query.fusion.labelling import fused_by_labels

from .random_jobs import random_job

JOBS: Mapping[int, int] = MappingProxyType({50: 2_000, 100: 500, 150: 500})
"""Operators → jobs. What 500 of 50 operators average may be 2 % of the traffic away from what all do."""
JOBS_QUICK = 40
TOLERANCE = 2.0
"""Most that components, and percent of the traffic, may be away from what is expected."""
BASELINE, PA, COMM, ELF = "baseline", "score PA", "score COMM", "ELF"
GAIN = 1.08
"""Least ratio of the traffic between Algorithm 1's components and that between ELF's."""
PLANNING_MS = 50.0
"""Upper bound on the processor's time for one job."""
ROUNDING = 1e-9
"""Percent of the traffic that sums of rates in another order may differ by."""
Expected: TypeAlias = Mapping[str, tuple[int, int]]
"""Who fuses → components, and percent of the traffic between them."""
EXPECTED: Mapping[int, Expected] = MappingProxyType(
    {
        50: {BASELINE: (19, 57), PA: (12, 52), COMM: (13, 35)},
        100: {BASELINE: (36, 57), PA: (23, 53), COMM: (26, 36)},
        150: {BASELINE: (53, 57), PA: (35, 54), COMM: (38, 37)},
    }
)
"""Operators → the figures that the paper's heuristics have, from a generator written apart from this one."""


@dataclass(frozen=True, slots=True)
class FusedFigures:
    """One job fused in one way: components, percent of the traffic between them, a circle of them, milliseconds."""

    components: int
    percent: float
    has_circle: bool
    planning_ms: float


Found: TypeAlias = Mapping[str, Sequence[FusedFigures]]


def fused_jobs(*, quick: bool) -> list[Comparison]:
    """The rows of all sizes. Jobs, and what the baseline chooses, are the same in each run."""
    return [line for size, jobs in JOBS.items() for line in _of_size(size, JOBS_QUICK if quick else jobs, quick=quick)]


def _of_size(operators: int, jobs: int, *, quick: bool) -> Iterator[Comparison]:
    draw = random.Random(operators)
    made = [random_job(operators, draw) for _ in range(jobs)]
    ways: dict[str, Callable[[FusionGraph], Partitioning]] = {
        BASELINE: partial(fused_from_first, choose=draw.choice),
        PA: fused_by_attributes,
        COMM: fused_by_rate,
        ELF: lambda graph: fused_by_labels(graph).components,
    }
    found = {name: [_fused(job, way) for job in made] for name, way in ways.items()}
    title = f"{jobs} jobs of {operators} operators"
    yield from _components(title, found, EXPECTED[operators], quick=quick)
    yield from _traffic(title, found, EXPECTED[operators], quick=quick)
    for name in (COMM, ELF):
        circles = 100 * mean(one.has_circle for one in found[name])
        yield within("enorm", f"{title}: with components in circles, {name}", circles, "%")
    times = quantiles((one.planning_ms for one in found[ELF]), n=100)
    yield within("enorm", f"{title}: planning, median", times[49], "ms")
    yield within("enorm", f"{title}: planning, 99th percentile", times[98], "ms", None if quick else PLANNING_MS)


def _fused(job: FusionGraph, way: Callable[[FusionGraph], Partitioning]) -> FusedFigures:
    begin = time.process_time()
    components = way(job)
    planning_ms = (time.process_time() - begin) * 1_000
    percent = 100 * traffic_between(job, components) / sum(rate for *_, rate in job.edges)
    return FusedFigures(len(set(components)), percent, has_circle(job, components), planning_ms)


def _components(title: str, found: Found, expected: Expected, *, quick: bool) -> Iterator[Comparison]:
    """Figure 14."""
    for name, jobs in found.items():
        case, value = f"figure 14, {title}: components, {name}", mean(one.components for one in jobs)
        yield _near(case, value, "", None if name == ELF else expected[name][0], quick=quick)


def _traffic(title: str, found: Found, expected: Expected, *, quick: bool) -> Iterator[Comparison]:
    """Figure 15, and ELF's traffic against that of all others."""
    percent = {name: mean(one.percent for one in jobs) for name, jobs in found.items()}
    for name in expected:
        yield _near(f"figure 15, {title}: traffic, {name}", percent[name], "%", expected[name][1], quick=quick)
    for rival, target in ((COMM, GAIN), (PA, None), (BASELINE, None)):
        yield smaller("enorm", f"figure 15, {title}: traffic, {ELF}", percent[ELF], "%", rival, percent[rival], target)
    pairs = zip(found[ELF], found[COMM], strict=True)
    worse = sum(ours.percent > theirs.percent + ROUNDING for ours, theirs in pairs)
    yield within("enorm", f"{title}: more traffic than by {COMM}", worse, "jobs", 0)


def _near(case: str, value: float, unit: str, expected: float | None, *, quick: bool) -> Comparison:
    """A figure of the paper's heuristics, which is met where it is as expected, neither more nor less."""
    if expected is None:
        return within("enorm", case, value, unit)
    met = None if quick else abs(value - expected) <= TOLERANCE
    return Comparison("enorm", case, value, unit, "expected", expected, expected / value, met=met)
