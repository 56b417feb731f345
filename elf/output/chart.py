"""Draws a measure over windows as a chart of characters: a line of bars for each group, the newest window to the
right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import isfinite
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.text import Text

from elf.output.completeness import completeness
from elf.terminal.live_region import LiveRegion
from elf.terminal.terminal import printable

if TYPE_CHECKING:
    from agent import WindowResult

BARS = " ▁▂▃▄▅▆▇█"
NAME_CELLS = 24
VALUE_CELLS = 14
WINDOWS_MAX = 500
GROUPS_KEPT = 100
"""Number of largest groups kept of each window."""
GROUPS_SHOWN = 20
LINES_OF_ONE = 8
"""Height of the chart of a single group, in lines."""


@dataclass(frozen=True, slots=True)
class _Point:
    """The part of a window that a chart shows: each group's measured value, and the number of further groups."""

    start: str | None
    end: str | None
    values: Mapping[str, float]
    more: int
    completeness: str


class ChartWriter:
    """Charts the first of `measures` that holds numbers, for each of the groups that the other columns name.

    With a live region it is redrawn with each window, else drawn once at the end. A result without a window is a chart
    by itself, a bar for each group. The largest groups are shown, the others counted.
    """

    def __init__(self, measures: Sequence[str], console: Console, place: LiveRegion | None) -> None:
        self._measures = measures
        self._console = console
        self._place = place
        self._measure: str | None = None
        self._points: deque[_Point] = deque(maxlen=WINDOWS_MAX)
        self._is_drawn = True

    def write(self, result: WindowResult) -> None:
        rows = result.rows
        if self._measure is None:
            self._measure = next((name for name in self._measures if is_measured(rows, name)), None)
        values, more = group_values(rows, self._measure, self._measures)
        point = _Point(result.window_start, result.window_end, values, more, completeness(result))
        if point.start is None and point.end is None:
            self._console.print(self._bars(point))
            return
        self._points.append(point)
        self._is_drawn = False
        if self._place is not None:
            self._place.show(self._chart())
            self._is_drawn = True

    def release(self) -> None:
        if self._place is not None:
            self._place.release()

    def close(self) -> None:
        self.release()
        if not self._is_drawn:
            self._console.print(self._chart())
            self._is_drawn = True

    @property
    def _width(self) -> int:
        return max(1, self._console.width - NAME_CELLS - VALUE_CELLS - 2)

    def _chart(self) -> Group:
        points = list(self._points)[-self._width :]
        most = GROUPS_SHOWN if self._place is None else min(GROUPS_SHOWN, self._place.lines)
        names = _largest(points, most)
        top = max((value for point in points for value in point.values.values()), default=0.0)
        height = LINES_OF_ONE if len(names) == 1 else 1
        lines = [line for name in names for line in _line(name, points, top, height)]
        return self._framed(lines, points[-1], names, f"{points[0].start or '…'} … {points[-1].end or '…'}")

    def _bars(self, point: _Point) -> Group:
        names = _largest([point], GROUPS_SHOWN)
        top = max(point.values.values(), default=0.0)
        bars = [(name, point.values[name], _bar(point.values[name], top, self._width)) for name in names]
        lines = [Text(f"{_name(name)} {bar:<{self._width}} {_number(value)}") for name, value, bar in bars]
        return self._framed(lines, point, names, "")

    def _framed(self, lines: Sequence[Text], newest: _Point, names: Sequence[str], time: str) -> Group:
        head = " · ".join(part for part in (printable(self._measure or "no column of numbers"), time) if part)
        more = newest.more + len(newest.values.keys() - set(names))
        cut = [Text(f"… and {more:,} more", style="dim")] if more else []
        return Group(Text(head), *lines, *cut, Text(newest.completeness, style="dim"))


def is_measured(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Whether a column has a number that can be drawn."""
    return any(_as_number(row.get(name)) is not None for row in rows)


def _as_number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def group_values(
    rows: Sequence[Mapping[str, Any]], measure: str | None, measures: Sequence[str]
) -> tuple[dict[str, float], int]:
    """The largest groups' values, and the number of further groups with a value."""
    values = {}
    for row in rows:
        value = _as_number(row.get(measure or ""))
        if value is not None:
            keys = ("NULL" if key is None else str(key) for name, key in row.items() if name not in measures)
            values[", ".join(keys) or (measure or "")] = value
    kept = dict(nlargest(GROUPS_KEPT, values.items(), key=lambda item: abs(item[1])))
    return kept, len(values) - len(kept)


def _largest(points: Sequence[_Point], most: int) -> list[str]:
    """The groups with the largest sums."""
    sums: dict[str, float] = {}
    for point in points:
        for name, value in point.values.items():
            sums[name] = sums.get(name, 0.0) + abs(value)
    return sorted(sums, key=lambda name: (-sums[name], name))[:most]


def _line(name: str, points: Sequence[_Point], top: float, height: int) -> list[Text]:
    """One group's bars, `height` lines high; its name and newest value stand beside the lowest one."""
    eighths = [_eighths(point.values.get(name), top, height) for point in points]
    lines = []
    for row in reversed(range(height)):
        bars = "".join(BARS[max(0, min(8, one - 8 * row))] for one in eighths)
        label, value = (name, _number(points[-1].values.get(name))) if row == 0 else ("", "")
        lines.append(Text(f"{_name(label)} {bars} {value or (_number(top) if row == height - 1 else '')}".rstrip()))
    return lines


def _eighths(value: float | None, top: float, height: int) -> int:
    """Height of a bar in eighths of a line: 0 without a value, else at least 1."""
    if value is None:
        return 0
    return max(1, round(8 * height * value / top)) if top > 0 else 1


def _bar(value: float, top: float, width: int) -> str:
    return "█" * max(1, round(width * value / top)) if top > 0 else "█"


def _name(name: str) -> str:
    name = printable(name)
    if cell_len(name) > NAME_CELLS:
        name = set_cell_size(name, NAME_CELLS - 1) + "…"
    return set_cell_size(name, NAME_CELLS)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e12 else f"{value:,.4g}"
