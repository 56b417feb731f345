"""Latency constraints (Li et al., VLDB 2015): how well latency is predicted and settings are chosen by that (section
5.1), and what is done in time where not everything can be (5.2).

`python -m benchmarks.latency [--quick] [--json FILE] [FIGURE ...]`
"""

from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.jobs.figures import in_turn
from benchmarks.overlay.pool import Figure
from benchmarks.report import Comparison

from .charts import write_chart
from .due_looks import due_looks
from .explain import explain
from .model.real import model_real
from .model.rules import rules
from .model.search import search
from .model.simulated import model_simulated
from .overhead import overhead
from .overload import overload
from .schedulers import schedulers
from .spark import spark

NAME = "latency"
_MEASURES: dict[str, Callable[[bool], list[Comparison]]] = {
    "schedulers": lambda quick: schedulers(quick=quick),
    "due-looks": lambda quick: due_looks(quick=quick),
    "model-real": lambda quick: model_real(quick=quick),
    "model-simulated": lambda quick: model_simulated(quick=quick),
    "search": lambda quick: search(quick=quick),
    "rules": lambda quick: rules(quick=quick),
    "explain": lambda quick: explain(quick=quick),
    "overhead": lambda quick: overhead(quick=quick),
    "spark": lambda quick: spark(quick=quick),
    "overload": lambda quick: overload(quick=quick),
}
FIGURES = tuple(_MEASURES)
__all__ = ["FIGURES", "figures", "run", "write_chart"]


def figures(names: Sequence[str], *, quick: bool = False) -> list[Figure]:
    """The figures of these names."""
    return [Figure(name, partial(_measured, name, quick), benchmark=NAME) for name in names]


def _measured(name: str, quick: bool) -> list[Comparison]:
    return _MEASURES[name](quick)


def run(quick: bool, *names: str) -> list[Comparison]:
    """All figures, or those of these names, each in a process of its own. What cannot be measured stays in the table,
    as missed."""
    *_, report = in_turn(figures(names or FIGURES, quick=quick))
    return report
