"""A benchmark's table as a picture: one bar for ELF and one for each rival, in SVG."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from .report import Comparison

WIDTH, LABEL_WIDTH, BAR_WIDTH, ROW = 720, 270, 330, 30
ELF_COLOUR, RIVAL_COLOUR = "#1f6feb", "#8c959f"


def write_chart(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draws all cases of one benchmark below each other; rivals that were not run have no bar but their name.

    A figure without rivals stands beside the most it may be, if there is such a target.
    """
    cases = list(dict.fromkeys(line.case for line in comparisons))
    parts: list[str] = []
    y = 0
    for case in cases:
        lines = [line for line in comparisons if line.case == case]
        parts.append(_text(8, y + 20, case, weight="bold"))
        y += ROW
        bars = [("ELF", lines[0].value), *((line.rival, line.rival_value) for line in lines if line.rival is not None)]
        bars += [("at most", line.target) for line in lines if line.rival is None and line.target is not None]
        greatest = max(value for _, value in bars if value is not None)
        for name, value in bars:
            parts += _bar(y, name, value, greatest, lines[0].unit)
            y += ROW
    size = f'width="{WIDTH}" height="{y + 8}" viewBox="0 0 {WIDTH} {y + 8}"'
    body = "\n".join(parts)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n',
        encoding="utf-8",
    )


def _bar(y: int, name: str, value: float | None, greatest: float, unit: str) -> list[str]:
    label = _text(LABEL_WIDTH - 8, y + 18, name, anchor="end")
    if value is None:
        return [label]
    width = max(1, round(BAR_WIDTH * value / greatest))
    colour = ELF_COLOUR if name == "ELF" else RIVAL_COLOUR
    bar = f'<rect x="{LABEL_WIDTH}" y="{y + 4}" width="{width}" height="{ROW - 10}" fill="{colour}"/>'
    return [label, bar, _text(LABEL_WIDTH + width + 6, y + 18, f"{value:.3g} {unit}")]


def _text(x: int, y: int, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
