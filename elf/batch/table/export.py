"""Exports rows as files: tables of Parquet, CSV and JSON lines, or the original logs line by line."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from agent.archive.format.segments import AGENT, FILE, KEY, LINE, OFFSET, STREAM, TIME, WRITTEN
from elf.batch.table.files import Directory, open_directory
from elf.batch.table.layout import column, file_ids
from elf.batch.table.scanning import ordered
from elf.batch.table.table import ArchiveTable, Range
from elf.batch.table.writing import UNFINISHED
from elf.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ExportFormat = Literal["lines", "parquet", "csv", "json"]
_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss.SSSX"
_PARTITIONS = ("agent", "stream", "file")


def export(
    table: ArchiveTable, wanted: Range, target: str, form: ExportFormat, columns: Sequence[str] | None = None
) -> list[str]:
    """Writes the rows of a range to a new directory; returns the names of the files.

    `lines`: AGENT/STREAM/FILE.ID with the original lines of a log file in order. Other formats: files in order of time,
    with these columns (None: all). Raises UsageError for a directory that is not empty.
    """
    directory = open_directory(target, table.spark)
    if directory.list():
        raise UsageError(f"{target}: is there already, and has something in it: name another directory")
    folder = f"{UNFINISHED}{uuid.uuid4().hex}"
    try:
        if form == "lines":
            _write_lines(table, wanted, directory.uri_of(folder))
            found = list(_logs(directory, folder))
        else:
            rows = ordered(table, wanted, columns)
            writer = (rows if form == "parquet" else _as_texts(rows)).write.format(form)
            options = {"header": "true", "ignoreNullFields": "false"}
            writer.options(**options, compression="zstd" if form == "parquet" else "none").save(
                directory.uri_of(folder)
            )
            parts = [one.name for one in directory.list(folder) if one.name.startswith("part-")]
            found = [(f"{folder}/{name}", name) for name in parts]
        for path, name in found:
            directory.move(path, name)
    finally:
        directory.delete(folder)
    return sorted(name for _, name in found)


def _as_texts(frame: DataFrame) -> DataFrame:
    """Converts columns to types that CSV and JSON have: keys to hex, lines to text, times to dates."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import TimestampType

    def text(name: str) -> Column:
        value = column(name)
        if name == KEY:
            return F.lower(F.hex(value))
        if name == LINE:
            return F.decode(value, "UTF-8")
        if name in (TIME, WRITTEN):
            return F.date_format(F.timestamp_millis(value), _TIMESTAMP)
        return F.date_format(value, _TIMESTAMP) if isinstance(frame.schema[name].dataType, TimestampType) else value

    return frame.select(*(text(name).alias(name) for name in frame.columns))


def _write_lines(table: ArchiveTable, wanted: Range, uri: str) -> None:
    """Writes each log file's lines in order, in a folder of its own."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = table.scan(wanted, [KEY, AGENT, STREAM, FILE, OFFSET, LINE])
    file_id = F.lower(F.hex(file_ids()))
    base = F.element_at(F.split(column(FILE), "/"), -1)
    named = rows.select(
        column(AGENT).alias("agent"), column(STREAM).alias("stream"), F.concat_ws(".", base, file_id).alias("file"),
        column(OFFSET).alias("offset"), column(LINE).cast("string").alias("value"),
    )  # fmt: skip
    sorted_rows = named.repartition(*_PARTITIONS).sortWithinPartitions(*_PARTITIONS, "offset")
    sorted_rows.drop("offset").write.partitionBy(*_PARTITIONS).text(uri)


def _logs(directory: Directory, folder: str) -> Iterator[tuple[str, str]]:
    """Yields the written files and their final names."""
    for agent in _folders(directory, folder):
        for stream in _folders(directory, f"{folder}/{agent}"):
            for file in _folders(directory, f"{folder}/{agent}/{stream}"):
                path = f"{folder}/{agent}/{stream}/{file}"
                (part,) = (one.name for one in directory.list(path) if one.name.startswith("part-"))
                yield f"{path}/{part}", "/".join(_value(name) for name in (agent, stream, file))


def _folders(directory: Directory, path: str) -> list[str]:
    return [one.name for one in directory.list(path) if one.is_directory and "=" in one.name]


def _value(folder: str) -> str:
    """The value in a folder's name, made safe as a file name."""
    value = unquote(folder.partition("=")[2]).replace("/", "_")
    return f"_{value}" if value.startswith(".") else value
