"""Measures online parameter optimization (S4, section V): what it gains, and what its comparisons find among equals.

`python -m benchmarks.s4 opo`. A site is simulated, 40 of them, each from 5 % below its optimum; slots are hours, of
100,000 events in each slice. Whatever compares and searches is the job's own code. The slot in which parameters change
is lost, as it is to the job.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.environment import ROOT
from benchmarks.report import Comparison, reaching, smaller, within
from benchmarks.s4.lines import NAME
from elf.optimization import EQUAL, Comparator, MeasuredSlot, NelderMead, PairedTest, Parameter

from .chart import write_trajectories
from .site import Site

SEEDS, QUICK_SEEDS = 40, 10
EQUALS, MANY_EQUALS = 2_000, 20_000
SLOTS = {1: 336, 2: 672}
TARGETS = {1: 0.9, 2: 0.85}
YIELD, LOW_YIELD = 0.05, 0.02
ALPHA = 0.05
TRAJECTORIES = ROOT / "benchmarks" / "results" / "opo.json"

# Student's t, two-sided 0.05, with 4 to 23 degrees of freedom.
_NAIVE = (
    2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069,
)  # fmt: skip


@dataclass(slots=True)
class NaiveTest(PairedTest):
    """Looks for p < 0.05 after each of 5 to 24 pairs, as if each look were the only one."""

    def _bounds(self) -> Sequence[float]:
        return _NAIVE


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One run: after each experiment the slot, the point that is best so far, and its share of the gain."""

    seed: int
    steps: tuple[tuple[int, tuple[float, ...], float], ...]

    @property
    def gained(self) -> float:
        return self.steps[-1][2]


def run(quick: bool = False) -> list[Comparison]:
    """All rows. The trajectories are kept beside the results, unless it is quick."""
    seeds = range(QUICK_SEEDS if quick else SEEDS)
    report: list[Comparison] = []
    kept: dict[str, list[Trajectory]] = {}
    for parameters, slots in SLOTS.items():
        name = "one parameter" if parameters == 1 else "two parameters"
        runs = [optimized(Site(seed, parameters, click_yield=YIELD), parameters, slots, seed) for seed in seeds]
        kept[f"{name}, {slots} slots"] = runs
        report += _gains(f"{name}, {slots} slots", runs, TARGETS[parameters])
        for label, click_yield, test in (
            (f"a yield of {LOW_YIELD:.0%}", LOW_YIELD, PairedTest),
            ("p < 0.05 at every look", YIELD, NaiveTest),
        ):
            others = [
                optimized(Site(seed, parameters, click_yield=click_yield), parameters, slots, seed, test)
                for seed in seeds
            ]
            median = statistics.median(one.gained for one in others)
            report.append(Comparison(NAME, f"{name}, {slots} slots, {label}: median share of the gain", median, ""))
    if not quick:
        write_trajectories(kept, TRAJECTORIES)
    counts = (EQUALS,) if quick else (EQUALS, MANY_EQUALS)
    return [*report, *_equals(counts), *_costs(200 if quick else 1_000)]


def optimized(
    site: Site, parameters: int, slots: int, seed: int, test: Callable[[], PairedTest] = PairedTest
) -> Trajectory:
    """Runs the loop for so many slots."""
    search = NelderMead([Parameter(str(number), 0.0, 1.0, 0.5, 0.2) for number in range(parameters)])
    comparator = Comparator(test=test)
    steps = [(0, search.best, site.gained(search.best))]
    experiment = began = 0
    for slot in range(slots):
        measured = site.measure(*search.pair)
        outcome = None
        for which, mean in enumerate(measured):
            taken = MeasuredSlot(experiment, slot, 0, mean, valid=slot != began)
            outcome = comparator.add(which, taken) or outcome
        if outcome is not None:
            search.tell(outcome.verdict)
            experiment, began = experiment + 1, slot + 1
            steps.append((slot + 1, search.best, site.gained(search.best)))
    steps.append((slots, *steps[-1][1:]))
    return Trajectory(seed, tuple(steps))


def _gains(name: str, runs: Sequence[Trajectory], target: float) -> list[Comparison]:
    shares = sorted(one.gained for one in runs)
    tenth = shares[len(shares) // 10]
    return [
        reaching(NAME, f"{name}: median share of the gain", statistics.median(shares), "", target),
        Comparison(NAME, f"{name}: share of the gain, lowest tenth", tenth, ""),
        reaching(NAME, f"{name}: share of the gain, worst of {len(shares)} seeds", shares[0], "", 0.0),
    ]


def _equals(counts: Sequence[int]) -> list[Comparison]:
    """Compares the same parameters in both slices: whatever is told apart is an error.

    The distance from alpha is to be within the error of as many tosses, in 95 of 100 runs. The further runs of as many
    say whether it is by chance that it is not.
    """
    report = []
    outcomes, naive_outcomes = (_told_apart(test, max(counts)) for test in (PairedTest, NaiveTest))
    for count in counts:
        found, naive = statistics.fmean(outcomes[:count]), statistics.fmean(naive_outcomes[:count])
        case = f"{count:,} comparisons of equals"
        report += [
            smaller(NAME, f"{case}: told apart", found, "", "p < 0.05 at every look", naive),
            within(NAME, f"{case}: distance of that from alpha {ALPHA:g}", abs(found - ALPHA), "", _error(count)),
        ]
    if len(outcomes) > EQUALS:
        runs = [statistics.fmean(outcomes[first : first + EQUALS]) for first in range(0, len(outcomes), EQUALS)]
        inside = statistics.fmean(abs(found - ALPHA) <= _error(EQUALS) for found in runs)
        case = f"{len(runs)} runs of {EQUALS:,} comparisons of equals, the first of them above"
        report.append(within(NAME, f"{case}: share of runs within the error", inside, ""))
    return report


def _error(count: int) -> float:
    """The distance from alpha within which 95 of 100 runs of so many comparisons are."""
    return 1.96 * math.sqrt(ALPHA * (1 - ALPHA) / count)


def _told_apart(test: Callable[[], PairedTest], count: int) -> list[bool]:
    site = Site(4711, 1, click_yield=YIELD)
    return [_compared(test(), lambda: site.measure((0.5,), (0.5,)))[0] != EQUAL for _ in range(count)]


def _costs(count: int) -> list[Comparison]:
    """The slots that a difference takes, and how often it is found within 24 of them."""
    report = []
    for percent in (1.0, 2.0, 5.0):
        took, found = _effort(PairedTest, percent, count)
        naive_took, naive_found = _effort(NaiveTest, percent, count)
        rival = "p < 0.05 at every look"
        case = f"a difference of {percent:g} %"
        report.append(smaller(NAME, f"{case}: slots until the verdict", took, "slots", rival, naive_took))
        report.append(Comparison(NAME, f"{case}: found", found, "", rival, naive_found, found / naive_found))
    return report


def _effort(test: Callable[[], PairedTest], percent: float, count: int) -> tuple[float, float]:
    draws = np.random.default_rng(99)
    level = np.array([YIELD, YIELD * (1 - percent / 100)])

    def measure() -> tuple[float, float]:
        first, second = draws.binomial(100_000, level) / 100_000
        return float(first), float(second)

    done = [_compared(test(), measure) for _ in range(count)]
    return statistics.fmean(slots for _, slots in done), sum(verdict > 0 for verdict, _ in done) / count


def _compared(test: PairedTest, measure: Callable[[], tuple[float, float]]) -> tuple[int, int]:
    """The verdict, and the slots it took."""
    while True:
        first, second = measure()
        verdict = test.add(first - second)
        if verdict is not None:
            return verdict, test.count
