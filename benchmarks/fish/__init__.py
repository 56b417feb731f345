"""Groupings of keyed events over workers (FISH): makespans, memory, waits in virtual time; routing and agents for real.

`python -m benchmarks.fish [--quick] [--json FILE] [FIGURE ...]`
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import geometric_mean

from benchmarks.overlay.pool import PROCESSES, Figure, reports, together
from benchmarks.report import Comparison

from .charts import write_chart
from .figures import FULL, QUICK, TIMED
from .full_load import MEAN_GAIN, MEANS
from .in_flight import GAINS, THROUGHPUT
from .lines import at_least
from .routing import ROUTED
from .streams import REAL_LOGS, ZIPF, real_streams

__all__ = ["run", "write_chart"]

MEAN_OF_ZIPF = "geometric mean over Zipf streams"
TARGETS = {(MEANS, "wchoices"): MEAN_GAIN, **{(THROUGHPUT, rival): gain for rival, gain in GAINS.items()}}
"""Least geometric means of ratios over Zipf streams, by label and rival."""


def run(quick: bool, *names: str) -> list[Comparison]:
    """All figures, or those of these names; a quick run aims at nothing with its short Zipf streams."""
    *_, lines = measured([figure for figure in (QUICK if quick else FULL) if not names or figure.name in names])
    lines = with_means(lines)
    return [_untargeted(line) for line in lines] if quick else lines


def measured(figures: Sequence[Figure]) -> Iterator[list[Comparison]]:
    """Yields the lines of all so far. Those that are timed come first, one at a time."""
    if not any(real_streams()):
        print(f"no real logs in {REAL_LOGS}: their rows are left out (ELF_REAL_LOGS names the folder)", file=sys.stderr)
    timed = [figure for figure in figures if figure.name.startswith(TIMED)]
    before: list[Comparison] = []
    yield before
    for some, processes in ((timed, 1), ([figure for figure in figures if figure not in timed], PROCESSES)):
        lines: list[Comparison] = []
        for lines in reports(some, processes) if some else ():
            yield [*before, *lines]
        before += lines


def with_means(lines: Sequence[Comparison]) -> list[Comparison]:
    """Lines, together by label, with the means of them that targets are about."""
    single = [line for line in lines if MEAN_OF_ZIPF not in line.case]
    return together([*single, *_means(single)])


def _means(lines: Sequence[Comparison]) -> Iterator[Comparison]:
    for (label, rival), target in TARGETS.items():
        of_zipf = [line for line in lines if line.case.startswith(f"{label}: {ZIPF}") and line.rival == rival]
        if of_zipf:
            gain = geometric_mean(line.ratio for line in of_zipf if line.ratio is not None)
            yield at_least(f"{label}: {MEAN_OF_ZIPF}, gain over {rival}", gain, "times", target)


def _untargeted(line: Comparison) -> Comparison:
    """A line of a short Zipf stream, which does not show what is aimed at over a long one; a rate of rows does."""
    short = ZIPF in line.case.lower() and not line.case.startswith(ROUTED)
    return replace(line, target=None, met=None) if short else line
