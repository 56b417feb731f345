"""Scans of a narrow range: how much of an archive Spark reads for them, by its own count of bytes."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from agent.archive.format.segments import KEY
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, within
from elf.batch.session.session import spark_session
from elf.batch.table.table import ArchiveTable, Range

from .archives import write_archives

FULL_EVENTS, QUICK_EVENTS = 5_000_000, 1_600_000
AGENTS = 4
PART = 100
"""One in so many rows is asked for."""
BYTES_TARGET_PERCENT = 5.0
_COUNTED_MIN = 0.9
"""Of the bytes of all files: a scan of everything has to read as much, else its bytes were not counted."""


def run(quick: bool) -> list[Comparison]:
    """The share of the bytes for a hundredth of the keys, and for a hundredth of the time. Raises BenchmarkError."""
    print("scanning", file=sys.stderr, flush=True)
    with TemporaryDirectory() as directory:
        _, archives = write_archives(Path(directory), QUICK_EVENTS if quick else FULL_EVENTS, AGENTS)
        with spark_session() as spark:
            _count_all_bytes(spark)
            return _shares(spark, ArchiveTable.open(spark, [str(archives)]))


def _shares(spark: SparkSession, table: ArchiveTable) -> list[Comparison]:
    stored = sum(one.segment.bytes for one in table.segments())
    everything = _bytes_read(spark, table.scan())
    if everything < _COUNTED_MIN * stored:
        raise BenchmarkError(f"Spark counts {everything:,} bytes for a scan of {stored:,}: its count cannot be used")
    return [
        _share(spark, table, wanted, what, everything, target)
        for what, wanted, target in (
            ("a hundredth of the keys", _of_keys(table), BYTES_TARGET_PERCENT),
            ("a hundredth of the time, of all agents", _of_time(table), None),
        )
    ]


def _share(
    spark: SparkSession, table: ArchiveTable, wanted: Range, what: str, everything: int, target: float | None
) -> Comparison:
    """How much of all bytes a scan of all columns reads."""
    return within("batch", what, 100 * _bytes_read(spark, table.scan(wanted)) / everything, "%", target)


def _of_keys(table: ArchiveTable) -> Range:
    """One row in PART, next to each other in the order of their keys, from the middle of the archive."""
    keys = table.scan(columns=[KEY])
    rows = keys.count()
    first = keys.orderBy(KEY).offset(rows // 2).limit(rows // PART + 1).agg({KEY: "min"}).first()
    last = keys.orderBy(KEY).offset(rows // 2).limit(rows // PART + 1).agg({KEY: "max"}).first()
    if first is None or last is None:
        raise BenchmarkError("the archive is empty")
    return Range(start=bytes(first[0]), stop=bytes(last[0]))


def _of_time(table: ArchiveTable) -> Range:
    segments = [one.segment for one in table.segments()]
    begin, end = min(one.from_ms for one in segments), max(one.to_ms for one in segments)
    middle = (begin + end) // 2
    return Range(since_ms=middle, until_ms=middle + (end - begin) // PART)


def _bytes_read(spark: SparkSession, frame: DataFrame) -> int:
    """What the tasks of a scan have read from files."""
    before = _counted(spark)
    frame.write.format("noop").mode("overwrite").save()
    return _counted(spark) - before


def _count_all_bytes(spark: SparkSession) -> None:
    """Reads that go on beside a task are in no count of bytes: files are read without them."""
    context: Any = spark.sparkContext
    context._jsc.hadoopConfiguration().set("parquet.hadoop.vectored.io.enabled", "false")


def _counted(spark: SparkSession) -> int:
    context: Any = spark.sparkContext
    java = context._jsc.sc()
    java.listenerBus().waitUntilEmpty()
    return int(java.statusStore().executorSummary("driver").totalInputBytes())
