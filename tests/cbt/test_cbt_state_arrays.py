"""States in arrays are what Python's own integers and comparisons make of them, of any size and in any order."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt.layout.state_arrays import ArrayColumn, Arrays, ExtremeColumn, SumColumn

Value = int | float | None

WIDE = st.integers(-(2**126), 2**126) | st.integers(-300, 300) | st.sampled_from([2**56, -(2**56), 2**112, 2**63 - 1])
NARROW = st.integers(-(2**40), 2**40) | st.integers(-130, 130) | st.just(2**55)
INTEGERS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1])
DOUBLES = st.none() | st.floats().map(lambda x: x + 0.0)
EXTREMES: dict[str, tuple[pl.DataType, st.SearchStrategy[Value]]] = {
    "integer": (pl.Int64(), INTEGERS),
    "double": (pl.Float64(), DOUBLES),
    "boolean": (pl.Boolean(), st.none() | st.booleans()),
}
STEPS = 6


def column_and_values(draw: st.DrawFn) -> tuple[ArrayColumn, st.SearchStrategy[Value], Callable[[list[Value]], Value]]:
    kind = draw(st.sampled_from(["wide", "narrow", *EXTREMES]))
    if kind == "wide":
        return SumColumn("x", pl.Int128()), WIDE.map(lambda x: x // STEPS**2), lambda values: sum(values)
    if kind == "narrow":
        return SumColumn("x", pl.Int64()), NARROW, lambda values: sum(values)
    greatest = draw(st.booleans())
    dtype, values = EXTREMES[kind]

    def extreme(values: list[Value]) -> Value:
        order = sorted((x for x in values if x is not None), key=lambda x: (math.isnan(x), 0 if math.isnan(x) else x))
        return (order[-1] if greatest else order[0]) if order else None

    return ExtremeColumn("x", dtype, greatest=greatest), values, extreme


@given(st.data())
def test_a_store_merges_as_python_does(data: st.DataObject) -> None:
    column, values, merged = data.draw(st.composite(column_and_values)())
    store, model = column.store(), []
    for _ in range(data.draw(st.integers(1, STEPS))):
        if model and data.draw(st.booleans()):
            slots = np.flatnonzero([data.draw(st.booleans()) for _ in model])
            new = [data.draw(values) for _ in slots]
            store.add(len(model), slots, column.split(pl.Series(new, dtype=column.dtype)), np.arange(len(new)))
            for slot, value in zip(slots, new, strict=True):
                model[slot].append(value)
        else:
            new = data.draw(st.lists(values, max_size=4))
            store.append(len(model), len(new), column.split(pl.Series(new, dtype=column.dtype)))
            model += [[value] for value in new]
    order = np.array(data.draw(st.permutations(range(len(model)))), dtype=np.intp)
    found = column.series(store.of(order), len(order))
    assert found.dtype == column.dtype
    assert list(map(repr, found)) == [repr(merged(model[slot])) for slot in order]


@given(st.data())
def test_runs_are_merged_as_python_does(data: st.DataObject) -> None:
    column, values, merged = data.draw(st.composite(column_and_values)())
    runs = data.draw(st.lists(st.lists(values, min_size=1, max_size=STEPS), min_size=1, max_size=5))
    starts = np.cumsum([0, *map(len, runs[:-1])])
    arrays = column.merge_runs(column.split(pl.Series([*chain(*runs)], dtype=column.dtype)), starts)
    assert list(map(repr, column.series(arrays, len(runs)))) == [repr(merged(run)) for run in runs]


@pytest.mark.parametrize("rows", [2, 1000])
def test_large_sums_of_long_runs_are_carried(rows: int) -> None:
    column = SumColumn("x", pl.Int128())
    for value in (2**55, -(2**55), 2**62, 2**100 + 2**55, -(2**105) + 1):
        arrays = column.merge_runs(column.split(pl.Series([value] * rows, dtype=pl.Int128)), np.array([0]))
        store = column.store()
        store.append(0, 1, arrays)
        for _ in range(200):
            store.add(1, np.array([0]), arrays, np.array([0]))
        assert column.series(store.of(np.array([0])), 1).to_list() == [value * rows * 201]


def test_what_is_nothing_takes_no_room() -> None:
    for column, nothing in ((SumColumn("x", pl.Int128()), 0), (ExtremeColumn("x", pl.Int64(), greatest=True), None)):
        arrays: Arrays = column.split(pl.Series([nothing] * 100, dtype=column.dtype))
        store = column.store()
        store.append(0, 100, arrays)
        assert (arrays, store.nbytes) == ({}, 0)
        assert column.series(store.of(np.arange(100)), 100).to_list() == [nothing] * 100
