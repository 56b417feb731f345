"""Formats rows of the table for people and programs: times as dates, keys in hex, lines as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent.archive.format.segments import KEY, TIME, WRITTEN
from elf.batch.table.layout import column
from query import format_timestamp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIMES = (TIME, WRITTEN)


def formatted_rows(frame: DataFrame) -> Iterator[dict[str, Any]]:
    """Yields the rows in order, as dicts by column name, one partition in memory at a time."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import TimestampType

    stamps = {field.name for field in frame.schema.fields if isinstance(field.dataType, TimestampType)}
    plain = [F.unix_millis(column(name)).alias(name) if name in stamps else column(name) for name in frame.columns]
    times = stamps.union(_TIMES)
    for row in frame.select(*plain).toLocalIterator(prefetchPartitions=True):
        yield {name: _formatted(name, value, times) for name, value in zip(frame.columns, row, strict=True)}


def _formatted(name: str, value: Any, times: set[str]) -> Any:
    if isinstance(value, bytes | bytearray):
        return value.hex() if name == KEY else value.decode("utf-8", "backslashreplace")
    return format_timestamp(value) if name in times and value is not None else value
