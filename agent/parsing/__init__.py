"""Parses blocks of log lines into frames of events.

Blocks and the needed columns come in, `Parsed` frames go out; `sniff` tells a file's format. The registry lists the
formats. Imports `agent.sources` and nothing else of the product.
"""

from agent.parsing.columns import parsed_rows
from agent.parsing.formats import (
    COERCED,
    LINE_FORMATS,
    NO_WATERMARK_MS,
    TIME,
    Abandoned,
    Format,
    LineFormat,
    Parsed,
    Parser,
    PassedOver,
    SourceColumn,
)
from agent.parsing.native import Clauses, ColumnTest, native_status
from agent.parsing.registry import parser
from agent.parsing.sniff import schema, sniff
from agent.parsing.times import parse_time, parse_times

__all__ = [
    "COERCED",
    "LINE_FORMATS",
    "NO_WATERMARK_MS",
    "TIME",
    "Abandoned",
    "Clauses",
    "ColumnTest",
    "Format",
    "LineFormat",
    "Parsed",
    "Parser",
    "PassedOver",
    "SourceColumn",
    "native_status",
    "parse_time",
    "parse_times",
    "parsed_rows",
    "parser",
    "schema",
    "sniff",
]
