"""Unites the columns of segments, each of which has its own, under one type per column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from agent.archive.format.row_key import NUMBER_BYTES
from agent.archive.format.segments import (
    AGENT,
    EVENTS,
    FILE,
    FORMAT,
    KEY,
    LINE,
    OFFSET,
    PARSED,
    STREAM,
    TIME,
    WRITTEN,
    Segment,
)
from agent.parsing.fields import DTYPES, Field, Kind, united

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

RAW = {
    KEY: "binary", WRITTEN: "bigint", TIME: "bigint", AGENT: "string", STREAM: "string", FILE: "string",
    OFFSET: "bigint", FORMAT: "string", EVENTS: "int", LINE: "binary",
}  # fmt: skip
"""Columns that every segment has → their Spark types."""
_SPARK_TYPES = {
    "integer": "bigint", "number": "double", "string": "string", "boolean": "boolean", "timestamp": "timestamp",
    "any": "string",
}  # fmt: skip
OBJECT = "object"


def united_kinds(segments: Iterable[Segment]) -> dict[str, str]:
    """The parsed columns of segments, by name, with a kind that holds the values of all.

    Integers and numbers together are numbers; any other mixture is `any`. Columns that are only ever objects are left
    out.
    """
    seen = _kinds_seen(segments)
    return {name: _united(kinds) for name, kinds in seen.items() if kinds != {OBJECT}}


def _kinds_seen(segments: Iterable[Segment]) -> dict[str, set[str]]:
    seen: dict[str, set[str]] = {}
    for segment in segments:
        for name, kind in segment.columns.items():
            seen.setdefault(name, set()).add(kind)
    return seen


def _united(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    return "number" if kinds == {"integer", "number"} else "any"


def mixed_numbers(segments: Iterable[Segment]) -> list[str]:
    """Columns that are integers in some segments and numbers in others."""
    seen = _kinds_seen(segments)
    return [name for name, kinds in seen.items() if kinds == {"integer", "number"}]


def stored_kinds(segment: Segment) -> dict[str, str]:
    """The parsed columns in a segment's file, with their kinds."""
    return {name: kind for name, kind in segment.columns.items() if kind != OBJECT}


def struct_of(columns: Sequence[str], kinds: Mapping[str, str]) -> StructType:
    """The Spark type of these columns; `kinds` are those of the parsed ones."""
    from pyspark.sql.types import StructField, StructType, _parse_datatype_string

    types = (RAW.get(name) or _SPARK_TYPES[kinds[name.removeprefix(PARSED)]] for name in columns)
    fields = [StructField(name, _parse_datatype_string(text)) for name, text in zip(columns, types, strict=True)]
    return StructType(fields)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Converts batches of rows whose parsed columns have `kinds` into batches with the `wanted` kinds."""

    columns: tuple[str, ...]
    kinds: Mapping[str, Kind]
    wanted: Mapping[str, Kind]

    def changed(self) -> list[str]:
        """Columns whose kind differs from the wanted one."""
        return [name for name, kind in self.wanted.items() if self.kinds.get(name, kind) != kind]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)
            frame = frame.with_columns(self._converted(frame, name) for name in self.changed())
            table = frame.select(self.columns).to_arrow(compat_level=pl.CompatLevel.oldest())
            yield from table.cast(_narrow(table.schema)).to_batches() or [
                pa.RecordBatch.from_pylist([], schema=_narrow(table.schema))
            ]

    def _converted(self, frame: pl.DataFrame, name: str) -> pl.Series:
        column = f"{PARSED}{name}"
        values = frame[column].cast(DTYPES[self.kinds[name]])
        if self.wanted[name] == "number":
            return values.cast(pl.Float64)
        nothing = Field("any", pl.Series([], dtype=pl.String))
        return united([Field(self.kinds[name], values), nothing]).values.alias(column)


def _narrow(schema: pa.Schema) -> pa.Schema:
    """A schema with the types that Spark has, which knows no large texts."""
    import pyarrow as pa

    narrow: dict[pa.DataType, pa.DataType] = {
        pa.large_string(): pa.string(), pa.large_binary(): pa.binary(), pa.string_view(): pa.string(),
        pa.binary_view(): pa.binary(), pa.timestamp("ms", "UTC"): pa.timestamp("us", "UTC"),
    }  # fmt: skip
    return pa.schema([(field.name, narrow.get(field.type, field.type)) for field in schema])


def column(name: str) -> Column:
    """The column of a name, which may contain any characters."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(quoted(name))


def file_ids() -> Column:
    """The file ids in the rows' keys, which stand before the offset."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.substring(column(KEY), -2 * NUMBER_BYTES, NUMBER_BYTES)


def quoted(name: str) -> str:
    """A column's name quoted for Spark's expressions."""
    return f"`{name.replace('`', '``')}`"
