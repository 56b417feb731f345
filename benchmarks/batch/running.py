"""Queries over an archive: `elf batch run` beside what somebody who knows PySpark would write over the same Parquet."""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, smaller
from elf.batch.query.native import NativePlan
from elf.batch.query.run import BatchOptions, BatchRun
from elf.batch.session.session import spark_session
from elf.batch.table.table import ArchiveTable

from .archives import STREAM, write_archives

FULL_EVENTS, QUICK_EVENTS = 5_000_000, 400_000
FULL_ROUNDS, QUICK_ROUNDS = 7, 3
AGENTS = 4
TARGET = 1 / 1.15
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Measured:
    """A query, and its rows computed by hand over all segments, in the order of the query's columns."""

    name: str
    query: str
    by_hand: Callable[[DataFrame], DataFrame]


def _column(name: str) -> Any:
    return F.col(f"`parsed:{name}`")


MEASURED = (
    Measured(
        "count by store",
        f"SELECT store, COUNT(*) FROM {STREAM} GROUP BY store",
        lambda rows: rows.groupBy(_column("store")).agg(F.count("*")),
    ),
    Measured(
        "top 10 products of a store",
        f"SELECT product, SUM(clicks_count) AS clicks FROM {STREAM} WHERE store = 'books' AND clicks_count > 1 "
        "GROUP BY product ORDER BY clicks DESC LIMIT 10",
        lambda rows: (
            rows.where((_column("store") == "books") & (_column("clicks_count") > 1))
            .groupBy(_column("product"))
            .agg(F.sum(_column("clicks_count")).alias("clicks"))
            .orderBy(F.desc("clicks"), "parsed:product")
            .limit(10)
        ),
    ),
    Measured(
        "sums by store and language, each minute",
        f"SELECT store, user.lang, SUM(clicks_count), AVG(buys_count) FROM {STREAM} GROUP BY store, user.lang "
        "WINDOWING 1 MINUTE",
        lambda rows: (
            rows.groupBy(
                F.floor(F.col("`raw:time`") / MINUTE_MS).alias("minute"), _column("store"), _column("user.lang")
            )
            .agg(F.sum(_column("clicks_count")), F.avg(_column("buys_count")))
            .drop("minute")
        ),
    ),
    Measured(
        "different products of each store",
        f"SELECT store, COUNT(DISTINCT product) FROM {STREAM} GROUP BY store",
        lambda rows: rows.groupBy(_column("store")).agg(F.countDistinct(_column("product"))),
    ),
)


def run(quick: bool) -> list[Comparison]:
    """One comparison for each query. Raises BenchmarkError where the two disagree."""
    events, rounds = (QUICK_EVENTS, QUICK_ROUNDS) if quick else (FULL_EVENTS, FULL_ROUNDS)
    with TemporaryDirectory(prefix="elf-benchmark-") as directory:
        print(f"writing an archive of {events:,} events", file=sys.stderr, flush=True)
        _, archives = write_archives(Path(directory), events, AGENTS)
        with spark_session() as spark:
            return [_compared(spark, archives, measured, rounds) for measured in MEASURED]


def _compared(spark: SparkSession, archives: Path, measured: Measured, rounds: int) -> Comparison:
    def by_elf() -> list[tuple[Any, ...]]:
        asked = BatchRun(measured.query, ArchiveTable.open(spark, [str(archives)]), BatchOptions())
        if not isinstance(asked.execution_plan, NativePlan):
            raise BenchmarkError(f"{measured.name}: is not computed by Spark itself: {asked.not_exact}")
        return [tuple(row.values()) for result in asked.results() for row in result.rows]

    def by_hand() -> list[tuple[Any, ...]]:
        rows = spark.read.parquet(*map(str, sorted(archives.glob("*/segments/*.parquet"))))
        return [tuple(row) for row in measured.by_hand(rows).collect()]

    contenders = {"elf": by_elf, "by hand": by_hand}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        print(f"{measured.name}: round {number} of {rounds}", file=sys.stderr, flush=True)
        answers = {}
        for name, compute in contenders.items():
            begin = time.perf_counter()
            answers[name] = compute()
            if number:  # the first one warms up
                seconds[name].append(time.perf_counter() - begin)
        if _plain(answers["elf"]) != _plain(answers["by hand"]):
            raise BenchmarkError(f"{measured.name}: PySpark by hand has another answer")
    own, rival = (statistics.median(seconds[name]) for name in contenders)
    return smaller("batch", measured.name, own, "s", "PySpark by hand", rival, TARGET)


def _plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """In an order of their own, doubles to 12 digits."""
    return sorted(tuple(float(f"{value:.12g}") if isinstance(value, float) else value for value in row) for row in rows)
