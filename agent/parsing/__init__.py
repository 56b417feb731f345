"""From blocks of log lines to frames with the needed columns."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from agent.parsing.columns import column_of_values, null_column, parsed
from agent.parsing.combined import CombinedParser
from agent.parsing.delimited import DelimitedParser
from agent.parsing.formats import COERCED, KINDS, NO_WATERMARK_MS, TIME, Format, Parsed, Parser, SourceColumn
from agent.parsing.json_lines import JsonParser
from agent.parsing.sniff import schema, sniff
from agent.parsing.times import parse_time, parse_times

__all__ = [
    "COERCED",
    "KINDS",
    "NO_WATERMARK_MS",
    "TIME",
    "Format",
    "Parsed",
    "Parser",
    "SourceColumn",
    "parse_time",
    "parse_times",
    "parsed_rows",
    "parser",
    "schema",
    "sniff",
]


def parser(form: Format, columns: Sequence[SourceColumn]) -> Parser:
    """The parser of files of this format that reads only the given columns."""
    if form.kind == "json":
        return JsonParser(form, columns)
    return CombinedParser(columns) if form.kind == "combined" else DelimitedParser(form, columns)


def parsed_rows(times: Sequence[int], columns: Sequence[SourceColumn], values: dict[str, list[Any]]) -> Parsed:
    """Rows that are there as values by column, as events: as if they had been read from JSON lines."""
    made = [
        column_of_values(column.name, column.type, values[column.field])
        if column.field in values
        else null_column(column.name, len(times))
        for column in columns
    ]
    return parsed(pl.Series(times, dtype=pl.Int64), made, 0)
