"""Runs all benchmarks and writes `benchmarks/results/NAME.json` and `.svg`: `python -m benchmarks [--quick]`."""

import argparse
import sys

from . import batch, cbt, enorm, fish, fleet, idle, jobs, latency, local, overlay, query, recovery, s4
from .chart import write_chart
from .environment import ROOT
from .race import BenchmarkError
from .report import Comparison, print_table, write_json

BENCHMARKS = {
    "local": local.run,
    "cbt": cbt.run,
    "overlay": overlay.run,
    "fleet": fleet.run,
    "idle": idle.run,
    "jobs": jobs.run,
    "query": query.run,
    "batch": batch.run,
    "recovery": recovery.run,
    "s4": s4.run,
    "enorm": enorm.run,
    "fish": fish.run,
    "latency": latency.run,
}
CHARTS = {
    "cbt": cbt.write_chart,
    "overlay": overlay.write_chart,
    "jobs": jobs.write_chart,
    "recovery": recovery.write_chart,
    "fish": fish.write_chart,
    "enorm": enorm.write_chart,
}
RESULTS = ROOT / "benchmarks" / "results"


def main() -> int:
    """All of them, in turn; one that fails is named and the others still run. 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--quick", action="store_true", help="less data: each ends within a minute")
    quick = parser.parse_args().quick
    failed = False
    lines: list[Comparison] = []
    for name, run in BENCHMARKS.items():
        try:
            found = run(quick)
            write_json(found, RESULTS / f"{name}.json")
            CHARTS.get(name, write_chart)(found, RESULTS / f"{name}.svg")
        except (BenchmarkError, OSError) as error:
            print(f"benchmarks.{name}: {error}", file=sys.stderr)
            failed = True
        else:
            lines += found
    print_table(lines)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
