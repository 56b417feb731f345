"""The rows of a window that are made of its state when somebody reads them: a reader on the same agent takes the state
instead, where its own aggregates are merged states of these (Enorm, figure 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import polars as pl

import cbt
import query
from agent.parsing import SourceColumn


class StateFunction(Protocol):
    """A function whose states are taken for rows, or that takes them."""

    self_paced: bool

    @property
    def plan(self) -> query.Plan: ...
    @property
    def layout(self) -> cbt.Layout | None: ...
    @property
    def store_layout(self) -> cbt.Layout | None: ...
    @property
    def sessions(self) -> object | None: ...
    @property
    def lookup(self) -> object | None: ...
    @property
    def folds(self) -> bool: ...
    @property
    def range(self) -> tuple[int | None, int | None, int | None]: ...
    def columns_of(self, stream: str) -> list[SourceColumn]: ...
    def combine(self, states: Sequence[pl.DataFrame]) -> pl.DataFrame: ...


class StateRows(query.ResultRows):
    """Rows of all groups of a window, one for each: those from `start` on of a table that is made of a `state` of
    `function`, in which the window is `pane`; None: it is of no other window."""

    def __init__(
        self,
        table: query.ResultTable,
        start: int,
        length: int,
        function: StateFunction,
        state: pl.DataFrame,
        pane: int | None,
    ) -> None:
        super().__init__(table, start, length)
        self.function = function
        self._state, self._pane = state, pane

    @property
    def json_bytes_min(self) -> int:
        """Lower bound on their size as JSON: of each row the names, and a character for each value."""
        return len(self) * (1 + sum(len(name) + len('"":0,') - 1 for name in self.names))

    @property
    def state(self) -> pl.DataFrame:
        """The state of the window. O(n) of all that it was made with."""
        return self._state if self._pane is None else self._state.filter(pl.col("pane") == self._pane)
