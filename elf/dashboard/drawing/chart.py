"""A watched job's chart, as options of ECharts. What logs say stands in lists of values only, never in names of
options, some of which the toolkit would take for code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elf.dashboard.watched_job import ChartPoint
from elf.terminal.terminal import printable

GROUPS_SHOWN = 12
NAME_CHARACTERS = 40
COLOURS = ["#2f7ed8", "#d9822b", "#1f9d6b", "#b565d9", "#d64550", "#7a8a99", "#0097a7", "#a67c00"]
"""Colours that stand out on light and on dark."""
Options = dict[str, Any]


def chart_options(points: Sequence[ChartPoint], measure: str | None) -> Options:
    """Lines over windows, or bars for each group of a result without windows."""
    if not points or measure is None:
        return {}
    names = largest_groups(points)
    is_timed = any(point.label for point in points)
    title = _name(measure)
    if not is_timed:
        newest = points[-1]
        bars: list[Options] = [{"type": "bar", "name": title, "data": [newest.values.get(name) for name in names]}]
        return _options(title, [_name(name) for name in names], bars)
    series: list[Options] = [
        {
            "type": "line", "name": _name(name), "showSymbol": len(points) < 30, "connectNulls": False,
            "data": [point.values.get(name) for point in points],
        }
        for name in names
    ]  # fmt: skip
    return _options(title, [clock(point.label) for point in points], series)


def largest_groups(points: Sequence[ChartPoint]) -> list[str]:
    """The groups with the largest sums over all points."""
    sums: dict[str, float] = {}
    for point in points:
        for name, value in point.values.items():
            sums[name] = sums.get(name, 0.0) + abs(value)
    return sorted(sums, key=lambda name: (-sums[name], name))[:GROUPS_SHOWN]


def described(points: Sequence[ChartPoint], measure: str | None) -> str:
    """The chart in words."""
    if not points or measure is None:
        return "no chart: the result has no column of numbers"
    names = largest_groups(points)
    newest = [f"{_name(name)} {points[-1].values[name]:,.6g}" for name in names[:3] if name in points[-1].values]
    return f"chart of {_name(measure)}, {len(names)} groups over {len(points)} windows; newest: {', '.join(newest)}"


def clock(moment: str) -> str:
    """The time of a moment's day.

    >>> clock("2026-01-01T10:20:30Z"), clock("2026-01-01T10:20:30.5Z"), clock("")
    ('10:20:30', '10:20:30.5', '')
    """
    return moment.partition("T")[2].rstrip("Z").partition("+")[0]


def _options(title: str, categories: list[str], series: list[Options]) -> Options:
    return {
        "animation": False,
        "color": COLOURS,
        "aria": {"enabled": True, "label": {"enabled": False}, "decal": {"show": True}},
        "tooltip": {"trigger": "axis", "confine": True},
        "legend": {"type": "scroll", "top": 0, "show": len(series) > 1},
        "grid": {"left": 8, "right": 16, "top": 48, "bottom": 8, "containLabel": True},
        "xAxis": {"type": "category", "data": categories},
        "yAxis": {
            "type": "value",
            "name": title,
            "splitLine": {"lineStyle": {"color": "#88888855"}},
            "nameTextStyle": {"align": "left"},
        },
        "series": series,
    }


def _name(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= NAME_CHARACTERS else f"{shown[: NAME_CHARACTERS - 1]}…"
