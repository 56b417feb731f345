"""The offline half: queries over an archive beside PySpark by hand, how little a narrow range reads, what archiving
costs an agent, and loading logs a task.

`python -m benchmarks.batch [--quick] [--json FILE] [FIGURE ...]`
"""

from collections.abc import Callable, Mapping

from benchmarks.chart import write_chart
from benchmarks.report import Comparison

from . import archiving, loading, running, scanning

__all__ = ["FIGURES", "run", "write_chart"]

FIGURES: Mapping[str, Callable[[bool], list[Comparison]]] = {
    "running": running.run,
    "scanning": scanning.run,
    "archiving": archiving.run,
    "loading": loading.run,
}
"""Each by its name; called with whether it is to be quick. Raises BenchmarkError."""


def run(quick: bool, *names: str) -> list[Comparison]:
    """All figures, or those of these names, in turn."""
    return [line for name, measure in FIGURES.items() if not names or name in names for line in measure(quick)]
