"""The comparisons: what is read, by whom, and what is aimed at."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environment import NotAvailable, check_java
from benchmarks.events import Dataset
from benchmarks.race import Contender

from . import data


def own_python() -> Path:
    """The interpreter of ELF's own environment."""
    return Path(sys.executable)


def check_goaccess() -> None:
    """NotAvailable unless GoAccess is installed."""
    if shutil.which("goaccess") is None:
        raise NotAvailable("no goaccess")


def elf(case: str, folder: str = "") -> Contender:
    """ELF in a case."""
    return Contender("ELF, 1 agent", "benchmarks.local.elf", python=own_python, arguments=(case,), folder=folder)


def polars(case: str, folder: str = "", name: str = "Polars scan, 2 threads") -> Contender:
    """A scan of Polars in a case."""
    return Contender(name, "benchmarks.rivals.polars_scan", arguments=(case,), folder=folder)


@dataclass(frozen=True, slots=True)
class Case:
    """A query over one dataset: ELF, and rivals with the ratio that is aimed at. `rate_target`: millions a second."""

    text: str
    write: Callable[[Path, int], Dataset]
    elf: Contender
    rivals: tuple[tuple[Contender, float | None], ...]
    rate_target: float | None = None


CASES = {
    "sums": Case(
        "sum per product per 30 s, {:,} JSON events of {:.0f} bytes",
        data.write_shop,
        elf("sums"),
        (
            (polars("sums"), 1.7),
            (Contender("Spark Structured Streaming local[2]", "benchmarks.rivals.spark_stream", check=check_java), 7.0),
            (
                Contender(
                    "Spark, the same with its memory sink", "benchmarks.rivals.spark_memory_sink", check=check_java
                ),
                7.0,
            ),
            (Contender("DuckDB, 2 threads", "benchmarks.rivals.duckdb_scan"), 0.75),
            (Contender("Bytewax, 1 worker", "benchmarks.rivals.bytewax_flow"), 150.0),
        ),
    ),
    "malformed": Case(
        "the same, {:,} lines of which 1% are cut off",
        data.write_with_bad_lines,
        elf("malformed", data.BAD),
        ((polars("malformed", data.CLEAN, "Polars scan without those lines, which it refuses"), 1.0),),
    ),
    "where": Case(
        "the same with a WHERE that keeps 5% of {:,} events",
        data.write_shop,
        elf("where"),
        ((polars("where"), 1.0),),
    ),
    "nested": Case(
        "the same, 3 nested of 20 fields needed, {:,} JSON events of {:.0f} bytes",
        data.write_nested,
        elf("nested"),
        ((polars("nested"), 1.0),),
    ),
    "combined": Case(
        "hits and bytes by path, {:,} lines of combined logs of {:.0f} bytes",
        data.write_access_logs,
        elf("combined"),
        (
            (
                Contender("GoAccess, requests only", "benchmarks.rivals.goaccess_report", own_python, check_goaccess),
                2.0,
            ),
            (Contender("Python, re and a dict", "benchmarks.rivals.regular_expression", own_python), 10.0),
        ),
        rate_target=3.0,
    ),
}
