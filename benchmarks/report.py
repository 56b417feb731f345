"""The one form all benchmarks report in: a table for people, an object a line for programs."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from .race import BenchmarkError


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of a report. `ratio` > 1 means that ELF is better; `met` is None where nothing is aimed at."""

    benchmark: str
    case: str
    value: float
    unit: str
    rival: str | None = None
    rival_value: float | None = None
    ratio: float | None = None
    target: float | None = None
    met: bool | None = None


def throughput(
    benchmark: str,
    case: str,
    value: float,
    unit: str,
    rival: str,
    rival_value: float | None,
    target: float | None,
) -> Comparison:
    """A comparison where more is better. A rival that was not run is never beaten: the target is not met."""
    ratio = None if rival_value is None else value / rival_value
    met = None if target is None else ratio is not None and ratio >= target
    return Comparison(benchmark, case, value, unit, rival, rival_value, ratio, target, met)


def smaller(
    benchmark: str,
    case: str,
    value: float,
    unit: str,
    rival: str,
    rival_value: float | None,
    target: float | None = None,
) -> Comparison:
    """A comparison where less is better; `ratio` is the rival's figure over ELF's."""
    ratio = None if rival_value is None else rival_value / value
    met = None if target is None else ratio is not None and ratio >= target
    return Comparison(benchmark, case, value, unit, rival, rival_value, ratio, target, met)


def within(benchmark: str, case: str, value: float, unit: str, target: float | None = None) -> Comparison:
    """A figure of ELF's own where less is better; the target, if there is one, is the most it may be."""
    return Comparison(benchmark, case, value, unit, target=target, met=None if target is None else value <= target)


def reaching(benchmark: str, case: str, value: float, unit: str, target: float) -> Comparison:
    """A figure of ELF's own where more is better; the target is the least it may be."""
    return Comparison(benchmark, case, value, unit, target=target, met=value >= target)


def print_table(comparisons: Sequence[Comparison]) -> None:
    """The table for people, one row a comparison, on stdout."""
    table = Table("benchmark", "case", "rival", title_justify="left")
    for heading in ("ELF", "rival", "ratio", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("met")
    for line in comparisons:
        alone = line.rival is None
        missed = "no" if alone or line.ratio is not None else "not run"
        met = "-" if line.met is None else "yes" if line.met else missed
        table.add_row(
            line.benchmark,
            line.case,
            line.rival or "-",
            f"{line.value:.3g} {line.unit}",
            _number(line.rival_value, f" {line.unit}"),
            _number(line.ratio, "x"),
            _number(line.target, f" {line.unit}" if alone else "x"),
            met,
        )
    Console(width=None if sys.stdout.isatty() else 140, soft_wrap=False).print(table)


def write_json(comparisons: Sequence[Comparison], path: Path) -> None:
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(asdict(line))}\n" for line in comparisons), encoding="utf-8")


def read_json(path: Path) -> list[Comparison]:
    """The lines that `write_json` has written."""
    return [Comparison(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def main(name: str, run: Callable[..., list[Comparison]], figures: Sequence[str] = ()) -> int:
    """The command line of one benchmark: `python -m benchmarks.NAME [--quick] [--json FILE] [FIGURE ...]`.

    `run` is called with whether it is to be quick, and the names of those of its `figures` that are wanted.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("--quick", action="store_true", help="less data: a minute, or a few, on two cores")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, an object a line")
    if figures:
        parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or some of: {', '.join(figures)}")
    options = parser.parse_args()
    wanted = options.figures if figures else []
    check_figures(parser, wanted, figures)
    return 1 if reported(name, lambda: run(options.quick, *wanted), options.json) is None else 0


def check_figures(parser: argparse.ArgumentParser, wanted: Sequence[str], figures: Sequence[str]) -> None:
    """Ends the program with a usage error where a figure is wanted that there is not."""
    if unknown := set(wanted) - set(figures):
        parser.error(f"there is no figure {', '.join(map(repr, unknown))}; there are {', '.join(map(repr, figures))}")


def reported(name: str, run: Callable[[], list[Comparison]], json_file: Path | None) -> list[Comparison] | None:
    """Runs a benchmark, writes its results to the file if there is one, and prints them; None, and the reason on
    standard error, where nothing could be measured."""
    try:
        comparisons = run()
        if json_file:
            write_json(comparisons, json_file)
    except (BenchmarkError, OSError) as error:
        print(f"benchmarks.{name}: {error}", file=sys.stderr)
        return None
    print_table(comparisons)
    return comparisons


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.3g}{unit}"
