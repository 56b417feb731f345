"""The rows of a window that are made of its state when somebody reads them: a reader on the same agent takes the state
instead, where its own aggregates are merged states of these (Enorm, figure 5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import query

if TYPE_CHECKING:
    import polars as pl

    from agent.runtime.function.job_function import JobFunction


class StateRows(query.ResultRows):
    """Rows of all groups of a window: one for each group of `state`, which is that of `function` over the window."""

    def __init__(self, table: query.ResultTable, length: int, function: JobFunction, state: pl.DataFrame) -> None:
        super().__init__(table, 0, length)
        self.function = function
        self.state = state
