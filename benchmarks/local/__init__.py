"""One agent on one machine, over a million log lines: JSON of a shop, clean and not, and requests to a web server.

`python -m benchmarks.local [--quick] [--json FILE] [CASE ...]`
"""

import tempfile
from pathlib import Path

from benchmarks.environment import use_two_cores
from benchmarks.events import Dataset
from benchmarks.race import BenchmarkError, Outcome, race
from benchmarks.report import Comparison, reaching, throughput

from .cases import CASES, Case

EVENTS = 1_000_000
EVENTS_QUICK = 200_000
ROUNDS = 3
ROUNDS_QUICK = 1
WARM_UPS = 2
WARM_UPS_QUICK = 1
UNIT = "M events/s"


def run(quick: bool, *names: str) -> list[Comparison]:
    """Measure everyone in these cases, by default in all; a line per rival; no targets if `quick`. Raises
    BenchmarkError.
    """
    use_two_cores()
    rounds, warm_ups = (ROUNDS_QUICK, WARM_UPS_QUICK) if quick else (ROUNDS, WARM_UPS)
    lines = []
    for name in names or CASES:
        case = CASES[name]
        with tempfile.TemporaryDirectory(prefix="elf-bench-") as directory:
            data = case.write(Path(directory), EVENTS_QUICK if quick else EVENTS)
            contenders = [case.elf, *(rival for rival, _ in case.rivals)]
            outcomes = race(contenders, Path(directory), rounds=rounds, warm_ups=warm_ups)
        lines += _compare(case, data, outcomes, with_targets=not quick)
    return lines


def _compare(case: Case, data: Dataset, outcomes: dict[str, Outcome], *, with_targets: bool) -> list[Comparison]:
    own = outcomes[case.elf.name]
    if own.seconds is None:
        raise BenchmarkError(f"{case.elf.name} was not run: {own.reason}")
    text = case.text.format(data.events, data.event_bytes)
    value = data.events / own.seconds / 1e6
    lines = []
    for rival, target in case.rivals:
        found = outcomes[rival.name]
        name = rival.name if found.seconds else f"{rival.name} (not run: {found.reason})"
        rate = data.events / found.seconds / 1e6 if found.seconds else None
        lines.append(throughput("local", text, value, UNIT, name, rate, target if with_targets else None))
    if with_targets and case.rate_target is not None:
        lines.append(reaching("local", text, value, UNIT, case.rate_target))
    return lines
