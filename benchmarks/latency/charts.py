"""The figures of the model as curves, as in Figure 6 of the paper: predicted beside measured, setting by setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.panels import Panel, write_panels
from benchmarks.report import Comparison

from .model.accuracy import BESIDE
from .model.real import FLEET as AGENTS
from .model.rules import SUSTAINED
from .model.simulated import FLEET as SIMULATED

CURVES = {f"{fleet}, {what} {BESIDE}": f"{fleet}: {what} of windows (Fig. 6{figure}), by setting"
          for fleet in (SIMULATED, AGENTS) for what, figure in (("mean", "a"), ("p99", "d"))}  # fmt: skip
PANELS = (
    *(Panel(title, (label,), logarithmic=True) for label, title in CURVES.items()),
    Panel("Rate within the limit, by the model and by rules of thumb (Fig. 6i)", (SUSTAINED,), logarithmic=True),
)
RULES_SHOWN = 5
"""Rules in the chart: those with the largest rates."""


def write_chart(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draws the figures of a run, as far as it has them."""
    write_panels(PANELS, [*_numbered(_best_rules(comparisons))], path)


def _numbered(lines: Iterable[Comparison]) -> Iterator[Comparison]:
    """Settings by their numbers, as there is no room for their names."""
    seen = Counter[str]()
    for line in lines:
        label = line.case.partition(": ")[0]
        seen[label] += 1
        yield replace(line, case=f"{label}: {seen[label]}") if label in CURVES else line


def _best_rules(lines: Sequence[Comparison]) -> list[Comparison]:
    rules = [line for line in lines if line.case.startswith(f"{SUSTAINED}: ")]
    rates: dict[str, float] = {}
    for line in rules:
        rates[line.rival or ""] = rates.get(line.rival or "", 1.0) * (line.rival_value or 0.0)
    best = sorted(rates, key=lambda rule: -rates[rule])[:RULES_SHOWN]
    return [line for line in lines if line not in rules or line.rival in best]
