"""Helpers of the tests of single PAOs: states by pane, lifted, merged, subtracted and lowered as a layout does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from cbt.algebra.pao import LESS, Pao

KINDS = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64, str: pl.String, type(None): pl.Null}
State = pl.DataFrame


def lift(pao: Pao, argument: Sequence[Any] | pl.Series, **columns: Sequence[Any]) -> State:
    """The states of one block, whose values have one type; of pane 0 if there is no column `pane`."""
    values = argument if isinstance(argument, pl.Series) else pl.Series(argument, dtype=_kind(argument))
    panes = columns.pop("pane", [0] * len(values))
    block = pl.DataFrame({"x": values.alias("x"), **columns}).with_columns(pane=pl.Series(panes, dtype=pl.Int64))
    lifted = pao.lift(block["x"])
    grouped = block.with_columns(lifted.rows).group_by("pane").agg(lifted.groups)
    states = grouped.select("pane", *lifted.states).select("pane", *pao.state).sort("pane")
    assert states.schema == pl.Schema({"pane": pl.Int64(), **pao.state})
    return states


def combine(pao: Pao, states: Sequence[State]) -> State:
    merged = pl.concat(states).group_by("pane").agg(pao.combine()).sort("pane")
    assert merged.schema == states[0].schema
    return merged


def subtract(pao: Pao, whole: State, part: State) -> State:
    differences = pao.subtract()
    assert differences is not None
    left = whole.join(part, on="pane", suffix=LESS).select("pane", *differences)
    assert left.schema == whole.schema
    return left


def lower(pao: Pao, states: State) -> list[Any]:
    return pao.lower(states).to_list()


def same(left: State, right: State) -> bool:
    return left.schema == right.schema and left.equals(right, null_equal=True)


def lift_each(pao: Pao, values: Sequence[Any], **columns: Sequence[Any]) -> State:
    """Values of any types, each in a block of its own."""
    blocks = [
        lift(pao, [value], **{name: [column[n]] for name, column in columns.items()}) for n, value in enumerate(values)
    ]
    return combine(pao, blocks)


def _kind(values: Sequence[Any]) -> type[pl.DataType]:
    return next((KINDS[type(value)] for value in values if value is not None), pl.Null)
