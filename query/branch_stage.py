"""The branches of a union at work: frames of one stream's events to frames of the union's columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from query.streams import selects
from query.to_polars import window_bounds
from query.translation import Translator
from query.values import column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from query.plan import Plan
    from query.plan_sources import Column, PlanBranch

_COMPILED_MAX = 64


class BranchesStage:
    """All branches of a plan. A stream that several of them read has its events in each of these."""

    def __init__(self, plan: Plan) -> None:
        self._branches = [_BranchStage(plan, branch, number) for number, branch in enumerate(plan.branches)]

    def columns(self, stream: str) -> list[Column]:
        """What has to be read of a stream, under names that are unique among branches."""
        return [column for branch in self._branches if selects(branch.stream, stream) for column in branch.columns]

    def apply(self, stream: str, events: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """The events of a stream as its branches give them; O(n) for each branch."""
        for branch in self._branches:
            if selects(branch.stream, stream):
                yield branch.apply(events)


class _BranchStage:
    def __init__(self, plan: Plan, branch: PlanBranch, number: int) -> None:
        self.stream = branch.stream
        self.columns = [replace(one, name=f"{number}.{one.name}") for one in branch.columns]
        self._plan = plan
        self._branch = branch
        self._compiled: dict[tuple[pl.DataType, ...], tuple[Translator, pl.Expr | None, Translator, list[pl.Expr]]] = {}

    def apply(self, events: pl.DataFrame) -> pl.DataFrame:
        dtypes = tuple(events.schema[one.name] for one in self.columns)
        if dtypes not in self._compiled:
            if len(self._compiled) >= _COMPILED_MAX:
                self._compiled.clear()
            self._compiled[dtypes] = self._compile(dtypes)
        condition, where, selection, outputs = self._compiled[dtypes]
        kept = events.lazy()
        if where is not None:
            kept = condition.prepare(kept).filter(where)
        coerced = [name for name in ("@coerced",) if name in events.columns]
        return selection.prepare(kept).select("@time", *coerced, *outputs).collect()

    def _compile(self, dtypes: tuple[pl.DataType, ...]) -> tuple[Translator, pl.Expr | None, Translator, list[pl.Expr]]:
        values = window_bounds(self._plan.window_ms)
        for read, known, dtype in zip(self.columns, self._branch.columns, dtypes, strict=True):
            values[known.name] = column(read.name, dtype, known.type)
        condition, selection = Translator(values), Translator(values)
        where = self._branch.where
        filtering = None if where is None else condition.translate(where).as_boolean()
        named = zip(self._plan.columns, self._branch.outputs, strict=True)
        outputs = [selection.translate(output).expression.alias(one.name) for one, output in named]
        return condition, filtering, selection, outputs
