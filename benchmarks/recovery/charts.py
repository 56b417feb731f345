"""The benchmark's figures as curves, as in Fig. 10c of the paper."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.panels import Panel, write_panels
from benchmarks.report import Comparison

from .lines import TARGETS_S

PANELS = (
    Panel(
        "Windows after silent crashes, by the number of simulated agents (s after their end and grace)",
        (
            *(f"simulated, {kind} killed, slowest window, p99" for kind in TARGETS_S if kind != "interior node"),
            "simulated, interior node killed, next complete window, p99",
        ),
    ),
    Panel(
        "Windows beside an agent that is behind, and after a network is healed, by the number of simulated agents (s)",
        (
            "simulated, one agent reads nothing, slowest window",
            "simulated, one agent stands still, slowest window",
            "simulated, healed, first window with everybody",
        ),
    ),
    Panel(
        "Windows after crashes of agents that share two cores (s after their end and grace)",
        tuple(f"{kind} killed, slowest window, p99" for kind in TARGETS_S),
    ),
)


def write_chart(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draws the figures of a run, as far as it has them."""
    write_panels(PANELS, comparisons, path)
