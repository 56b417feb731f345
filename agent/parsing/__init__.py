"""From blocks of log lines to frames with the needed columns."""

from collections.abc import Sequence

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
    "parser",
    "schema",
    "sniff",
]


def parser(form: Format, columns: Sequence[SourceColumn]) -> Parser:
    """The parser of files of this format that reads only the given columns."""
    if form.kind == "json":
        return JsonParser(form, columns)
    return CombinedParser(columns) if form.kind == "combined" else DelimitedParser(form, columns)
