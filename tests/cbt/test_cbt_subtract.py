"""Any merged state can be subtracted again, to the last bit."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from built_in_paos import INVERTIBLE, PAOS, events
from hypothesis import given, settings
from hypothesis import strategies as st
from pao_states import combine, lift, lift_each, lower, same, subtract

from cbt.aggregates.moments import IntegerVariance, NumberVariance
from cbt.aggregates.sums import IntegerAverage, IntegerSum, NumberAverage, NumberSum
from cbt.algebra.pao import LESS

NUMBERS_ALIKE = (NumberSum("a"), NumberAverage("a"), NumberVariance("a", sample=False, deviation=False))
INTEGERS_ALIKE = (IntegerSum("a"), IntegerAverage("a"), IntegerVariance("a", sample=False, deviation=False))


def test_what_can_be_subtracted() -> None:
    assert set(INVERTIBLE) == {name for name in PAOS if name.startswith(("COUNT", "SUM", "AVG", "VARIANCE", "STDDEV"))}


@pytest.mark.parametrize("name", INVERTIBLE)
@settings(max_examples=settings.default.max_examples // 3)
@given(st.data())
def test_subtract_undoes_combine(name: str, data: st.DataObject) -> None:
    make, type_ = PAOS[name]
    pao = make()
    left, right = ([value for value, _ in data.draw(events(type_))] for _ in range(2))
    stays, leaves = lift_each(pao, left), lift_each(pao, right)
    both = combine(pao, [stays, leaves])
    assert same(subtract(pao, both, leaves), stays)
    assert same(subtract(pao, both, stays), leaves)


@pytest.mark.parametrize("name", INVERTIBLE)
def test_nothing_is_left_of_a_state_without_itself(name: str) -> None:
    make, type_ = PAOS[name]
    pao = make()
    states = lift(pao, ["a", "b"] if type_ == "any" else [3, 5])
    left = subtract(pao, states, states)
    assert left["a.n"].to_list() == [0]
    assert lower(pao, left) == [0 if name.startswith("COUNT") else None]


@pytest.mark.parametrize("leaving", [math.nan, math.inf, -math.inf, 1e300, -1.7e308, 5e-324, 2.0**63])
def test_values_beyond_fixed_point_leave_without_a_trace(leaving: float) -> None:
    for pao in NUMBERS_ALIKE:
        stays = lift_each(pao, [0.1, 7, 0.2])
        leaves = lift_each(pao, [leaving, 0.5])
        assert same(subtract(pao, combine(pao, [stays, leaves]), leaves), stays)


def test_the_greatest_integers() -> None:
    extremes = pl.Series([2**63 - 1, -(2**63)] * 1000)
    for pao in (*INTEGERS_ALIKE, *NUMBERS_ALIKE):
        stays, leaves = lift(pao, extremes), lift(pao, [2**63 - 1] * 1000)
        assert same(subtract(pao, combine(pao, [stays, leaves]), leaves), stays)


def test_many_keys_of_which_some_lose_nothing() -> None:
    for pao in NUMBERS_ALIKE:
        whole = lift(pao, [1.5, 1e300, math.nan, 2.5, 4.0], pane=[0, 1, 1, 2, 2])
        part = lift(pao, [math.nan, 2.5], pane=[1, 2])
        missing = whole.join(part, on="pane", how="left", suffix=LESS)
        left = missing.select("pane", *(pao.subtract() or []))
        rest = lift(pao, [1e300, 4.0], pane=[1, 2])
        assert same(left.filter(pl.col("pane") > 0), rest)


@settings(max_examples=settings.default.max_examples // 3)
@given(st.lists(st.lists(st.floats(-1e6, 1e6) | st.integers(-(2**63), 2**63 - 1), max_size=4), min_size=1, max_size=8))
def test_a_sliding_window_is_the_sum_of_its_panes(panes: list[list[Any]]) -> None:
    for pao in NUMBERS_ALIKE:
        states = [lift_each(pao, [None, *pane]) for pane in panes]
        running = states[0]
        for newest, oldest in zip(range(1, len(panes)), range(-2, len(panes) - 3), strict=True):
            running = combine(pao, [running, states[newest]])
            if oldest >= 0:
                running = subtract(pao, running, states[oldest])
            assert same(running, combine(pao, states[max(0, oldest + 1) : newest + 1]))
