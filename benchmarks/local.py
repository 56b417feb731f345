"""One agent on one machine: clicks per product every 30 seconds over a million JSON events.

`python -m benchmarks.local [--quick] [--json FILE]`
"""

import sys
import tempfile
from pathlib import Path

from .environment import check_java, use_two_cores
from .events import Dataset, write_shop_events
from .race import BenchmarkError, Contender, Outcome, race
from .report import Comparison, main, throughput

EVENTS = 1_000_000
EVENTS_QUICK = 200_000
ROUNDS = 3
ROUNDS_QUICK = 1
WARM_UPS = 2
WARM_UPS_QUICK = 1
UNIT = "M events/s"

ELF = Contender("ELF, 1 agent", "benchmarks.elf_local", python=lambda: Path(sys.executable))
RIVALS = (
    (Contender("Polars scan, 2 threads", "benchmarks.rivals.polars_scan"), 0.5),
    (Contender("Spark Structured Streaming local[2]", "benchmarks.rivals.spark_stream", check=check_java), 5.0),
    (Contender("Spark, the same with its memory sink", "benchmarks.rivals.spark_memory_sink", check=check_java), 5.0),
    (Contender("DuckDB, 2 threads", "benchmarks.rivals.duckdb_scan"), None),
)


def run(quick: bool) -> list[Comparison]:
    """Measure everyone on the same files; a line per rival; no targets if `quick`. Raises BenchmarkError."""
    use_two_cores()
    contenders = [ELF, *(rival for rival, _ in RIVALS)]
    with tempfile.TemporaryDirectory(prefix="elf-bench-") as directory:
        data = write_shop_events(Path(directory), EVENTS_QUICK if quick else EVENTS)
        rounds, warm_ups = (ROUNDS_QUICK, WARM_UPS_QUICK) if quick else (ROUNDS, WARM_UPS)
        outcomes = race(contenders, Path(directory), rounds=rounds, warm_ups=warm_ups)
    return _compare(data, outcomes, with_targets=not quick)


def _compare(data: Dataset, outcomes: dict[str, Outcome], *, with_targets: bool) -> list[Comparison]:
    own = outcomes[ELF.name]
    if own.seconds is None:
        raise BenchmarkError(f"{ELF.name} was not run: {own.reason}")
    case = f"sum per product per 30 s, {data.events:,} JSON events of {data.event_bytes:.0f} bytes"
    lines = []
    for rival, target in RIVALS:
        found = outcomes[rival.name]
        name = rival.name if found.seconds else f"{rival.name} (not run: {found.reason})"
        rate = data.events / found.seconds / 1e6 if found.seconds else None
        aim = target if with_targets else None
        lines.append(throughput("local", case, data.events / own.seconds / 1e6, UNIT, name, rate, aim))
    return lines


if __name__ == "__main__":
    sys.exit(main("local", run))
