"""Figures as curves: panels of lines, one for each of ELF's figures and one for each rival, in SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from .report import Comparison

WIDTH, PLOT_LEFT, PLOT_WIDTH, PLOT_HEIGHT, PANEL_HEIGHT, LEGEND_ROW = 820, 60, 480, 220, 300, 18
ELF_COLOURS = ("#1f6feb", "#0a3069", "#54aeff", "#8250df", "#1a7f37", "#bf3989")
TARGET = "target"
RIVAL_COLOURS = ("#bc4c00", "#d4a72c", "#8250df", "#8c959f", "#1a7f37", "#bf3989")


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot of the lines whose case is `{label}: {place on the x axis}`; places `apart` are not joined."""

    title: str
    labels: tuple[str, ...]
    apart: tuple[str, ...] = ()
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """The y axis of a panel: linear from 0, or logarithmic over whole powers of ten."""

    ticks: tuple[float, ...]
    logarithmic: bool
    top: int

    @classmethod
    def of(cls, values: Sequence[float], panel: Panel, top: int) -> "Axis":
        if not panel.logarithmic:
            return cls((0.0, max(values) or 1.0), False, top)
        powers = range(math.floor(math.log10(min(values))), math.floor(math.log10(max(values))) + 2)
        return cls(tuple(10.0**power for power in powers), True, top)

    def y(self, value: float) -> int:
        low, high = self.ticks[0], self.ticks[-1]
        share = math.log(value / low) / math.log(high / low) if self.logarithmic else value / high
        return self.top + round(PLOT_HEIGHT * (1 - share))


def write_panels(panels: Sequence[Panel], comparisons: Sequence[Comparison], path: Path) -> None:
    """Draws all panels with lines below each other; rivals that were not run are left out."""
    labels = {_label(line) for line in comparisons}
    panels = [panel for panel in panels if labels.intersection(panel.labels)]
    parts: list[str] = []
    for number, panel in enumerate(panels):
        parts += _panel(panel, comparisons, number * PANEL_HEIGHT + 30)
    size = f'width="{WIDTH}" height="{len(panels) * PANEL_HEIGHT}"'
    body = "\n".join(parts)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n',
        encoding="utf-8",
    )


def _panel(panel: Panel, comparisons: Sequence[Comparison], top: int) -> list[str]:
    lines = [line for line in comparisons if _label(line) in panel.labels]
    places = list(dict.fromkeys(_place(line) for line in lines))
    own, rivals = _series(lines)
    axis = Axis.of([value for values in (*own.values(), *rivals.values()) for value in values.values()], panel, top)
    bottom = top + PLOT_HEIGHT
    x = {place: PLOT_LEFT + round(PLOT_WIDTH * (at + 0.5) / len(places)) for at, place in enumerate(places)}
    parts = [
        _text(8, top - 10, f"{panel.title}, {lines[0].unit}", weight="bold"),
        f'<path d="M{PLOT_LEFT},{top}V{bottom}H{PLOT_LEFT + PLOT_WIDTH}" fill="none" stroke="black"/>',
        *(_text(PLOT_LEFT - 6, axis.y(tick) + 4, f"{tick:.4g}", anchor="end") for tick in axis.ticks),
        *(_text(at, bottom + 20, place, anchor="middle") for place, at in x.items()),
    ]
    colours = [*zip(own, ELF_COLOURS, strict=False), *zip(rivals, RIVAL_COLOURS, strict=False)]
    for row, (name, colour) in enumerate(colours):
        values = (own | rivals)[name]
        points = {place: (x[place], axis.y(value)) for place, value in values.items()}
        joined = " ".join(f"{px},{py}" for place, (px, py) in points.items() if place not in panel.apart)
        parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{px}" cy="{py}" r="3.5" fill="{colour}"/>' for px, py in points.values()]
        y = top + 10 + row * LEGEND_ROW
        parts.append(f'<circle cx="{PLOT_LEFT + PLOT_WIDTH + 20}" cy="{y - 4}" r="5" fill="{colour}"/>')
        parts.append(_text(PLOT_LEFT + PLOT_WIDTH + 32, y, name))
    return parts


Series = dict[str, dict[str, float]]


def _series(lines: Sequence[Comparison]) -> tuple[Series, Series]:
    """By name and by place, the figures of ELF and those of the rivals that were run, and the most they may be."""
    own: Series = {}
    rivals: Series = {}
    for line in lines:
        own.setdefault(_label(line), {})[_place(line)] = line.value
        if line.rival is None and line.target is not None:
            rivals.setdefault(TARGET, {})[_place(line)] = line.target
        if line.rival is not None and line.rival_value is not None:
            rivals.setdefault(line.rival, {})[_place(line)] = line.rival_value
    return own, rivals


def _label(line: Comparison) -> str:
    return line.case.partition(": ")[0]


def _place(line: Comparison) -> str:
    return line.case.partition(": ")[2]


def _text(x: int, y: int, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
