"""Writes results for people (tables) and for programs (JSON lines, CSV)."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import msgspec
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from elf.output.chart import ChartWriter
from elf.output.completeness import completeness
from elf.terminal.console import open_console
from elf.terminal.live_region import LiveRegion
from elf.terminal.terminal import printable, printable_json, tell

if TYPE_CHECKING:
    from agent.runtime.function.result import OtherGroups, WindowResult

READABLE_CELLS = 16
"""Width below which a table's column is not folded unless it needs less; narrower tables are shown as records."""


class ResultWriter(Protocol):
    """Writes results one by one; the job's `columns` are known before its first result."""

    def write(self, result: WindowResult) -> None: ...

    def release(self) -> None:
        """Leaves what is drawn in place, since other lines follow; the next result comes below."""
        return

    def close(self) -> None:
        """Ends the output."""
        return


def result_writer(
    kind: str,
    columns: Sequence[str],
    stream: TextIO | None = None,
    *,
    measures: Sequence[str] = (),
    in_place: bool = False,
) -> ResultWriter:
    """The writer for an `--output` choice: table, json, csv, or plot, a chart of the first of `measures`.

    `in_place`: a table or a chart replaces the one before, on a terminal that can be drawn over.
    """
    stream = stream or sys.stdout
    if kind == "json":
        return JsonWriter(stream)
    if kind == "csv":
        return CsvWriter(columns, stream)
    console = open_console(stream)
    place = LiveRegion(console) if in_place else None
    if kind == "plot":
        return ChartWriter(measures, console, place)
    return TableWriter(columns, console, place)


def write_all(results: Iterable[WindowResult], writer: ResultWriter) -> None:
    """Writes all results, then ends the output."""
    for result in results:
        writer.write(result)
    writer.close()


class JsonWriter(ResultWriter):
    """Writes one JSON line per result (DESIGN §5); on a terminal with control characters escaped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._safe = printable_json if stream.isatty() else str

    def write(self, result: WindowResult) -> None:
        self._stream.write(self._safe(result.to_json()) + "\n")


class CsvWriter(ResultWriter):
    """Writes a header, then one line per row, led by its window's start and end where there are windows.

    When an update of the job changes the columns, another header follows. Only a terminal gets text from logs escaped.
    Groups without a row, and values left out of an aggregate, are reported on standard error.
    """

    def __init__(self, columns: Sequence[str], stream: TextIO) -> None:
        self._columns = columns
        self._writer = csv.writer(stream, lineterminator="\n")
        self._safe = printable if stream.isatty() else str
        self._header: list[str] | None = None

    def write(self, result: WindowResult) -> None:
        window = [_csv_value(result.window_start), _csv_value(result.window_end)] if _is_windowed(result) else []
        names = _columns_of(result, self._columns)
        header = [*(["window_start", "window_end"] if window else []), *map(self._safe, names)]
        if self._header is None or (result.rows and header != self._header):
            self._writer.writerow(header)
            self._header = header
        columns = [[self._safe(_csv_value(value)) for value in _column(result, name)] for name in names]
        self._writer.writerows([*window, *values] for values in zip(*columns, strict=True))
        if result.other is not None:
            tell(": ".join([*window[:1], other_line(result.other)]))
        for line in limit_lines(result.limited):
            tell(": ".join([*window[:1], line]))


class TableWriter(ResultWriter):
    """Writes a table per window, with its completeness below; in a live region, as many rows as it has lines."""

    def __init__(self, columns: Sequence[str], console: Console, place: LiveRegion | None = None) -> None:
        self._columns = columns
        self._console = console
        self._place = place

    def write(self, result: WindowResult) -> None:
        if self._place is None:
            self._console.print(result_table(result, self._columns, self._console.width))
        else:
            self._place.show(result_table(result, self._columns, self._console.width, self._place.lines))

    def release(self) -> None:
        if self._place is not None:
            self._place.release()

    def close(self) -> None:
        self.release()


def result_table(result: WindowResult, columns: Sequence[str], width: int, lines_max: int | None = None) -> Group:
    """One window in a terminal of a given width, completeness below: NULL dimmed, log text escaped.

    A table, numbers to the right; or, where it would be too narrow, one record per row. At most the rows that need
    `lines_max` lines.
    """
    columns = _columns_of(result, columns)
    names = [printable(name) for name in columns]
    values = [_column(result, name)[:lines_max] for name in columns]
    cells = [[_cell(value) for value in column] for column in values]
    is_table = _table_width(names, cells) <= width
    if lines_max is not None and not is_table:
        cells = [column[: max(1, lines_max // (len(columns) + 2))] for column in cells]
    if is_table:
        numeric = [any(map(_is_number, column)) for column in values]
        shown = [_as_table(names, cells, numeric)]
    else:
        shown = [_as_record(names, row) for row in zip(*cells, strict=True)]
    window = [Text(f"{result.window_start or '…'} … {result.window_end or '…'}")] if _is_windowed(result) else []
    other = [] if result.other is None else [Text(other_line(result.other), style="dim")]
    limited = [Text(line, style="dim") for line in limit_lines(result.limited)]
    more = len(result.rows) - len(cells[0]) if cells else 0
    cut = [Text(f"… {more:,} more rows", style="dim")] if more else []
    return Group(*window, *shown, *cut, *other, *limited, Text(completeness(result), style="dim"))


def _columns_of(result: WindowResult, columns: Sequence[str]) -> Sequence[str]:
    """Columns of a result's rows, which may differ from the job's first ones after an update."""
    rows = result.rows
    return list(rows[0]) if isinstance(rows, list) and rows else columns


def _column(result: WindowResult, name: str) -> Sequence[Any]:
    rows = result.rows
    return [row[name] for row in rows] if isinstance(rows, list) else rows.column(name)


def _is_windowed(result: WindowResult) -> bool:
    """Whether a result has a window; one of its bounds may be missing, beyond the years 1 to 9999."""
    return bool(result.window_start or result.window_end)


def _table_width(names: Sequence[str], cells: Sequence[Sequence[Text]]) -> int:
    """Least width of a readable table, with the spaces around its columns."""
    widths = [
        min(READABLE_CELLS, max(cell_len(name), *(cell.cell_len for cell in column), 1))
        for name, column in zip(names, cells, strict=True)
    ]
    return sum(widths) + 3 * len(widths)


def _as_table(names: Sequence[str], cells: Sequence[Sequence[Text]], numeric: Sequence[bool]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name, right in zip(names, numeric, strict=True):
        table.add_column(Text(name), justify="right" if right else "left", overflow="fold")
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def _as_record(names: Sequence[str], row: Sequence[Text]) -> Table:
    record = Table(box=box.SIMPLE_HEAD, show_header=False)
    record.add_column(overflow="fold", style="dim")
    record.add_column(overflow="fold")
    for name, cell in zip(names, row, strict=True):
        record.add_row(Text(name), cell)
    return record


def other_line(other: OtherGroups) -> str:
    """A line about the groups that have no row."""
    more = f"about {other.about} more are" if other.about else "all others are"
    values = [f"{printable(name)} {_cell(value).plain}" for name, value in other.values.items()]
    return f"{other.kept:,} groups; {more} together in OTHER{': ' if values else ''}{', '.join(values)}"


def limit_lines(limited: Mapping[str, int]) -> list[str]:
    """A line for each aggregate that has left values out."""
    return [
        f"{printable(text)} met its limit in {groups:,} {'group' if groups == 1 else 'groups'}"
        for text, groups in limited.items()
    ]


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
