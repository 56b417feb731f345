"""The benchmark's figures of groups that move as curves, as in Figures 10, 12 and 13 of the paper."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.panels import Panel, write_panels
from benchmarks.report import Comparison

from .moves.latency_figures import TIMELINE
from .moves.live_moves import TIMELINES
from .moves.moving_groups import COMPLETION, FIRST_PANE, WINDOWS

PANELS = (
    Panel("Delay of the first pane of keys that move (Fig. 10), by their number", (FIRST_PANE,), logarithmic=True),
    Panel("Delay of windows as keys move, by their number", tuple(WINDOWS.values()), logarithmic=True),
    Panel("Time for all windows, by the share of groups that move (Fig. 12)", (COMPLETION,)),
    Panel("Slowest window of each minute as owners become busy (Fig. 13), virtual time", (TIMELINE,), logarithmic=True),
    Panel("Windows of eight agents after their end and grace, by seconds after groups move", TIMELINES),
)


def write_chart(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draws the figures of a run, as far as it has them."""
    write_panels(PANELS, comparisons, path)
