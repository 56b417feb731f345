"""The part of a plan that can be said of OTHER, the groups together that are beyond a job's limit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.expression import references
from query.results import ResultStage

if TYPE_CHECKING:
    import polars as pl

    from query.plan import Plan
    from query.plan_parts import Output
    from query.rows import Row


class OtherStage:
    """Turns the lowered OTHER rows of finished windows into what people see of them: the columns of the result that
    are made of aggregates. OTHER has no keys.
    """

    def __init__(self, plan: Plan) -> None:
        output = tuple(column for column in plan.output if _is_of_aggregates(column, plan))
        self._results = (
            ResultStage(replace(plan, keys=(), output=output, having=None, order=(), limit=None)) if output else None
        )

    def values(self, frame: pl.DataFrame) -> dict[int, Row]:
        """The columns' values by window. `frame` has a row for each, with its start as `pane` and a column for each
        aggregate.
        """
        panes = frame["pane"].to_list()
        if self._results is None:
            return {pane: {} for pane in panes}
        return {pane: rows[0] for pane, rows in self._results.windows(frame, panes).items()}


def _is_of_aggregates(column: Output, plan: Plan) -> bool:
    names = {reference.name for reference in references(column.expression)}
    return not names.isdisjoint(one.name for one in plan.aggregates) and names.isdisjoint(key.name for key in plan.keys)
