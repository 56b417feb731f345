"""Keeps trajectories: numbers in JSON, and the share of the gain by slot as curves in SVG."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Protocol

WIDTH, LEFT, PLOT_WIDTH, PLOT_HEIGHT, PANEL_HEIGHT = 720, 60, 620, 200, 280
COLOUR, MEDIAN_COLOUR = "#8c959f", "#1f6feb"
_LOWEST = -0.25
"""The share of the gain at the bottom; curves below are cut."""


class Steps(Protocol):
    """A run, with its slot, best point and share of the gain after each experiment."""

    @property
    def seed(self) -> int: ...

    @property
    def steps(self) -> Sequence[tuple[int, tuple[float, ...], float]]: ...


def write_trajectories(runs: Mapping[str, Sequence[Steps]], path: Path) -> None:
    """Writes the file, and a picture of the same name with all runs and their median."""
    lines = [
        {"case": case, "seed": one.seed, "slots": slots, "best": best, "gained": gained}
        for case, group in runs.items()
        for one in group
        for slots, best, gained in [zip(*_rounded(one.steps), strict=True)]
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    parts = [part for number, (case, group) in enumerate(runs.items()) for part in _panel(case, group, number)]
    path.with_suffix(".svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{PANEL_HEIGHT * len(runs)}"'
        f' font-family="sans-serif" font-size="13">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n",
        encoding="utf-8",
    )


def _rounded(steps: Sequence[tuple[int, tuple[float, ...], float]]) -> list[tuple[int, tuple[float, ...], float]]:
    return [(slot, tuple(round(one, 4) for one in best), round(gained, 4)) for slot, best, gained in steps]


def _panel(case: str, group: Sequence[Steps], number: int) -> list[str]:
    top, last = number * PANEL_HEIGHT + 30, max(one.steps[-1][0] for one in group)
    shares = [[_share_at(one.steps, slot) for slot in range(last + 1)] for one in group]
    median = [sorted(column)[len(column) // 2] for column in zip(*shares, strict=True)]
    bottom = top + PLOT_HEIGHT
    return [
        f'<text x="8" y="{top - 10}" font-weight="bold">{escape(case)}: share of the gain, {len(group)} seeds and'
        f" their median</text>",
        f'<path d="M{LEFT},{top}V{bottom}H{LEFT + PLOT_WIDTH}" fill="none" stroke="black"/>',
        *(f'<text x="{LEFT - 6}" y="{_y(at, top) + 4}" text-anchor="end">{at:g}</text>' for at in (0, 0.5, 1)),
        *(
            f'<text x="{_x(slot, last)}" y="{bottom + 18}" text-anchor="middle">{slot}</text>'
            for slot in range(0, last + 1, last // 4)
        ),
        *(_curve([(slot, gained) for slot, _, gained in one.steps], top, last, COLOUR, 0.6) for one in group),
        _curve(list(enumerate(median)), top, last, MEDIAN_COLOUR, 2.5),
    ]


def _curve(steps: Sequence[tuple[int, float]], top: int, last: int, colour: str, width: float) -> str:
    """A line that goes on level until the slot of the next step."""
    path, before = f"M{_x(0, last)},{_y(steps[0][1], top)}", _y(steps[0][1], top)
    for slot, share in steps[1:]:
        y = _y(share, top)
        if y != before or slot == last:
            path, before = f"{path}H{_x(slot, last)}V{y}", y
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'


def _x(slot: int, last: int) -> int:
    return LEFT + PLOT_WIDTH * slot // last


def _y(share: float, top: int) -> int:
    return top + round(PLOT_HEIGHT * (1 - max(_LOWEST, share)) / (1 - _LOWEST))


def _share_at(steps: Sequence[tuple[int, tuple[float, ...], float]], slot: int) -> float:
    return [gained for at, _, gained in steps if at <= slot][-1]
