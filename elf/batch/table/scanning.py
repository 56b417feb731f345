"""Scans in order of time, and explanations of the data they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from agent.archive.format.segments import KEY, TIME
from elf.batch.session.session import spark_errors
from elf.batch.table.layout import column
from elf.batch.table.table import ArchiveTable, Range
from elf.errors import ElfError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ScanPlan(msgspec.Struct, frozen=True):
    """The data a scan reads: number of segments and bytes, columns, and Spark's plan with the filters that statistics
    serve.
    """

    segments: int
    segments_in_all: int
    bytes: int
    bytes_in_all: int
    columns: list[str]
    spark: str

    def text(self) -> str:
        return (
            f"segments   {self.segments:,} of {self.segments_in_all:,},"
            f" with {self.bytes:,} of {self.bytes_in_all:,} bytes\n"
            f"columns    {', '.join(self.columns)}\n{self.spark}"
        )


def ordered(
    table: ArchiveTable,
    wanted: Range,
    columns: Sequence[str] | None,
    where: str | None = None,
    limit: int | None = None,
) -> DataFrame:
    """The rows of a range in order of time and key. Raises UsageError for an invalid condition."""
    frame = table.scan(wanted, None if where else columns and [*columns, *(n for n in (TIME, KEY) if n not in columns)])
    if where is not None:
        try:
            with spark_errors():
                frame = frame.where(where)
        except ElfError as error:
            raise UsageError(f"--where {where}: {error}") from error
    frame = frame.orderBy(column(TIME), column(KEY))
    frame = frame if limit is None else frame.limit(limit)
    return frame if columns is None else frame.select(*map(column, columns))


def explained(table: ArchiveTable, wanted: Range, frame: DataFrame) -> ScanPlan:
    """The plan of reading a range's rows."""
    chosen, others = table.segments(wanted), table.segments()
    execution = frame._jdf.queryExecution()
    leaves = execution.sparkPlan().collectLeaves()
    columns = dict.fromkeys(name for n in range(leaves.length()) for name in leaves.apply(n).schema().fieldNames())
    java: Any = table.spark.sparkContext._jvm
    plan = java.org.apache.spark.sql.api.python.PythonSQLUtils.explainString(execution, "formatted")
    return ScanPlan(
        len(chosen), len(others), sum(one.segment.bytes for one in chosen), sum(one.segment.bytes for one in others),
        list(columns), str(plan).strip(),
    )  # fmt: skip
