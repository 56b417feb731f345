"""Reads another job's results: their rows become events, or the table of a JOIN.

A result is what a peer sent: it may hold anything. One that was made by this agent comes as it is, in columns: the same
events come of it, in a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import polars as pl

import query
from agent.parsing import NO_WATERMARK_MS, TIME, Parsed, SourceColumn, parse_time
from agent.parsing.columns import ParsedColumn, column_of_series, column_of_values, parsed, same_times
from agent.runtime.function.result import WindowResult

RESULT_BYTES_MAX = query.TABLE_BYTES_MAX
"""Upper bound on a result that is read."""


class ResultError(Exception):
    """Says why a received result cannot be read."""


class AppResult(WindowResult, frozen=True):
    """Another job's result, whose rows its readers take as events or as a table."""

    rows: list[dict[str, Any]]

    @classmethod
    def of(cls, result: WindowResult) -> AppResult:
        """A result that was made on this agent."""
        return cls(**{name: getattr(result, name) for name in WindowResult.__struct_fields__})

    @property
    def is_whole(self) -> bool:
        """Whether no agent and no group is missing in it."""
        nobody_missing = self.contributors >= self.expected and not (self.missing or self.partial or self.leaped)
        return nobody_missing and self.other is None

    def closed_ms(self) -> int:
        """The end of its window (epoch ms): no later result is older."""
        end = None if self.window_end is None else parse_time(self.window_end)
        return NO_WATERMARK_MS if end is None else end

    def to_events(self, pane: int, columns: Iterable[SourceColumn]) -> Parsed:
        """Each row as an event at the start of the window. O(rows · columns)."""
        return parsed(same_times(pane, len(self.rows)), self._columns(columns), 0)

    def table(self, columns: Iterable[SourceColumn]) -> Sequence[pl.DataFrame]:
        """The rows with their places as `@time`, in frames whose columns have one physical type each."""
        places = pl.Series(TIME, range(len(self.rows)), dtype=pl.Int64)
        return parsed(places, self._columns(columns), 0).frames

    def _columns(self, columns: Iterable[SourceColumn]) -> list[ParsedColumn]:
        bounds = {"window_start": self.window_start, "window_end": self.window_end}
        found = []
        for column in columns:
            field = column.field
            if field in bounds:
                values: list[Any] = [bounds[field]] * len(self.rows)
            elif isinstance(self.rows, query.ResultRows):
                found.append(column_of_rows(column, self.rows))
                continue
            else:
                values = [row.get(field) for row in self.rows]
            found.append(column_of_values(column.name, column.type, values))
        return found


def column_of_rows(column: SourceColumn, rows: query.ResultRows) -> ParsedColumn:
    """A column of rows that are columns."""
    kinds = rows.kinds(column.field) if rows.has(column.field) else {}
    if kinds is None:
        return column_of_values(column.name, column.type, rows.values(column.field))
    return column_of_series(column.name, column.type, kinds, len(rows))


_DECODER = msgspec.json.Decoder(AppResult)


def read_result(json: bytes) -> AppResult:
    """The result in a JSON line; ResultError if it is too large, or none."""
    if not json:
        raise ResultError(f"its result is larger than {RESULT_BYTES_MAX >> 20} MiB")
    if len(json) > RESULT_BYTES_MAX:
        raise ResultError(f"its result has {len(json):,} bytes: at most {RESULT_BYTES_MAX:,} are read")
    try:
        return _DECODER.decode(json)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ResultError(f"what came as its result is none: {error}"[:200]) from None
