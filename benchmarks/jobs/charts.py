"""The benchmark's figures as curves."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.panels import Panel, write_panels
from benchmarks.report import Comparison

from . import changes, changes_simulated, shuffling_simulated

PANELS = (
    Panel(
        "A change, by the number of simulated agents (less is better)",
        tuple(changes_simulated.CURVES),
        logarithmic=True,
    ),
    *(
        Panel(f"Shuffling, {how}, by the number of simulated agents (less is better)", tuple(curves))
        for how, curves in shuffling_simulated.CURVES.items()
    ),
    Panel(
        "A change among agents that share two cores (less is better)",
        tuple(f"{label}, p50" for label in (changes.NOTICE, changes.FILTER, changes.CODE)),
        logarithmic=True,
    ),
)


def write_chart(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draw the figures of a run, as far as it has them."""
    write_panels(PANELS, comparisons, path)
