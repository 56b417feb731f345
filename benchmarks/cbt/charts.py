"""The benchmark's figures as pictures."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.panels import Panel, write_panels
from benchmarks.report import Comparison

from .inserts import ONE_CORE, TRACKED, TWO_CORES, ZIPF
from .windows import RESULT, WORK

PANELS = (
    Panel("Inserting keys and a final flush (more is better)", (ONE_CORE.name, TWO_CORES.name), (ZIPF,), True),
    Panel("State after the last insert (less is better)", (TRACKED,), (ZIPF,), True),
    Panel("From a window's last event to its result, by the window's length (less is better)", (RESULT,)),
    Panel("All work for one result, by the window's length (less is better)", (WORK,)),
)


def write_chart(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draw the figures of a whole run."""
    write_panels(PANELS, comparisons, path)
