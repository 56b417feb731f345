"""Results for people (tables) and for programs (JSON lines, CSV)."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from typing import Any, Protocol, TextIO

import msgspec
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from agent import Result
from elf.terminal import printable


class ResultWriter(Protocol):
    """Shows results one by one; `columns` of a job are known before its first result."""

    def write(self, result: Result) -> None: ...


def result_writer(kind: str, columns: Sequence[str], stream: TextIO | None = None) -> ResultWriter:
    """The writer for an `--output` choice: table, json or csv."""
    stream = stream or sys.stdout
    if kind == "json":
        return JsonWriter(stream)
    if kind == "csv":
        return CsvWriter(columns, stream)
    return TableWriter(columns, Console(file=stream, highlight=False))


class JsonWriter:
    """One result a line, as DESIGN's result line says it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, result: Result) -> None:
        self._stream.write(result.to_json() + "\n")


class CsvWriter:
    """A header, then one line a row, each led by its window's start and end where there are windows."""

    def __init__(self, columns: Sequence[str], stream: TextIO) -> None:
        self._columns = columns
        self._writer = csv.writer(stream, lineterminator="\n")
        self._begun = False

    def write(self, result: Result) -> None:
        window = [result.window_start, result.window_end] if result.window_start else []
        if not self._begun:
            self._writer.writerow([*(["window_start", "window_end"] if window else []), *self._columns])
            self._begun = True
        columns = [map(_csv_value, result.rows.column(name)) for name in self._columns]
        self._writer.writerows([*window, *values] for values in zip(*columns, strict=True))


class TableWriter:
    """A table a window, with its completeness below."""

    def __init__(self, columns: Sequence[str], console: Console) -> None:
        self._columns = columns
        self._console = console

    def write(self, result: Result) -> None:
        self._console.print(result_table(result, self._columns))


def result_table(result: Result, columns: Sequence[str]) -> Group:
    """One window as a table, completeness below: numbers to the right, NULL dimmed, log text made safe."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in columns:
        numeric = any(map(_is_number, result.rows.column(name)))
        table.add_column(Text(printable(name)), justify="right" if numeric else "left", overflow="fold")
    for row in result.rows:
        table.add_row(*(_cell(row[name]) for name in columns))
    window = [Text(f"{result.window_start} … {result.window_end}")] if result.window_start else []
    return Group(*window, table, Text(completeness(result), style="dim"))


def completeness(result: Result) -> str:
    """What stands behind a result, in one line: agents, events, and everything that is not in it."""
    parts = [f"{result.contributors} of {result.expected} agents", f"{result.events:,} events"]
    if result.missing:
        parts[0] += f" (missing {', '.join(printable(name) for name in result.missing)})"
    counts = {"late": result.late, "malformed": result.malformed, "coerced": result.coerced}
    parts += [f"{count:,} {name}" for name, count in counts.items() if count]
    if result.dropped:
        parts.append(f"{result.dropped:,} more rows past the limit")
    return " · ".join(parts)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}")
    return Text(printable(value) if isinstance(value, str) else _csv_value(value))


def _csv_value(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
