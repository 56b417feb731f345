"""Makes columns of events of tables in memory, for agents to take."""

from __future__ import annotations

import polars as pl

import cbt
from elf.errors import UsageError

_KINDS: list[tuple[str, pl.DataType]] = [
    ("string", pl.String()), ("integer", pl.Int64()), ("number", pl.Float64()), ("boolean", pl.Boolean()),
]  # fmt: skip


def encoded_columns(frame: pl.DataFrame) -> tuple[list[tuple[str, str]], bytes]:
    """The columns of a table, by name and type, and their bytes. Raises UsageError for a type that events have not."""
    columns = [_plain(column) for column in frame]
    kinds = [(one.name, next(kind for kind, dtype in _KINDS if one.dtype == dtype)) for one in columns]
    return kinds, cbt.encode_frame(pl.DataFrame(columns))


def _plain(column: pl.Series) -> pl.Series:
    dtype = column.dtype
    if dtype.is_integer():
        plain = column.cast(pl.Int64, strict=False)
        if plain.null_count() > column.null_count():
            raise UsageError(f"the column {column.name} has integers beyond 64 bits")
        return plain
    if dtype.is_float() or dtype.is_decimal():
        return column.cast(pl.Float64)
    if isinstance(dtype, pl.Datetime):
        return column.dt.epoch("ms")
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    if dtype in (pl.Boolean, pl.Null):
        return column.cast(pl.Boolean)
    raise UsageError(
        f"the column {column.name} is of type {dtype}: events have strings, integers, numbers, booleans and timestamps"
    )
