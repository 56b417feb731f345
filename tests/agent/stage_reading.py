"""Gives simulated agents rows of their logs, and makes readers of other jobs take windows in one way or another."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl
import pytest
from memory_fleet import Fleet

from agent import Agent
from agent.parsing import Parsed
from agent.runtime.ingest.operator import Operator
from agent.runtime.master.results import outlet
from agent.runtime.master.results.outlet import ResultOutlet

FITTING = {
    "string": (pl.String,),
    "number": (pl.Int64, pl.Float64),
    "integer": (pl.Int64,),
    "boolean": (pl.Boolean,),
}
"""The columns whose values fit where their use fixes a type; any fits elsewhere."""


def feed(fleet: Fleet, agent: Agent, frame: pl.DataFrame, stream: str = "") -> None:
    """Gives an agent events, as parsers do it: of one stream, or of all that it reads."""
    for one in agent.ingest.feeds():
        if stream in ("", one.stream):
            columns = [
                fitting(frame[column.field], column.type).alias(column.name)
                for column in one.columns
                if column.field in frame.columns
            ]
            fleet.give(agent, one.key, Parsed((frame.select("@time", *columns),), malformed=0))
    fleet.settle()


def fitting(column: pl.Series, type_: str) -> pl.Series:
    """A column as parsers give it where its use fixes a type: values of others are NULL."""
    accepted = FITTING.get(type_)
    return column if accepted is None or column.dtype in accepted else pl.Series([None] * len(column), dtype=pl.Null)


@contextmanager
def reading(
    *, as_json: bool = False, are_late: bool = False, dice: random.Random | None = None, share: float = 0.6
) -> Iterator[None]:
    """Readers take all windows as followers elsewhere do, or, as the dice fall, this share of them as their states and
    others as rows. JSON that is late is made when somebody reads it."""
    takes_states = Operator.takes_states
    with pytest.MonkeyPatch.context() as patch:
        if as_json:
            patch.setattr(ResultOutlet, "take", lambda *_: None)
        if are_late:
            patch.setattr(outlet, "GIVEN_RESULT_BYTES_MAX", 0)
        if dice is not None:
            takes = lambda self, pane: takes_states(self, pane) and dice.random() < share  # noqa: E731
            patch.setattr(Operator, "takes_states", takes)
        yield
