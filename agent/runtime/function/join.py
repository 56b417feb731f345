"""Holds the rows that a job's version joins events with: another job's latest result, or a table of this agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

import query
from agent.parsing import SourceColumn
from agent.runtime.function.upstream_rows import ResultError, read_result


class JoinTable:
    """The joined rows of one version. `app` is the name of the job that is joined, or `table` that of the table.

    `is_settled`: events can be joined; before, their rows may be on the way. `lacks`: its rows are not the latest
    result, or not complete; `is_refused`: the latest result cannot be joined with.
    """

    def __init__(self, plan: query.Plan, join: query.PlanJoin) -> None:
        self.app = join.app
        self.table = join.table
        self.is_settled = False
        self.lacks = True
        self.is_refused = False
        self.revision = 0
        """Revision of the rows it was given last."""
        self.columns = [SourceColumn(column.name, column.path, column.type) for column in join.columns]
        self._stage = query.JoinStage(plan, join)

    def joined(self, events: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """See `query.JoinStage`."""
        return self._stage.apply(events)

    def hold(self, json: bytes | None) -> None:
        """Takes a result; None: the job has none so far. Raises ResultError, and keeps the one before."""
        self.is_refused = self.lacks = True
        result = None if json is None else read_result(json)
        try:
            self.hold_rows([] if result is None else result.table(self.columns))
        except query.TableError as error:
            raise ResultError(str(error)) from None
        self.is_refused, self.lacks = False, result is not None and not result.is_whole

    def hold_rows(self, frames: Sequence[pl.DataFrame]) -> None:
        """Takes rows, see `query.JoinStage`. Raises `query.TableError`, and keeps those before."""
        self._stage.hold(frames)
