"""The published costs of split and combined, and the decision between them."""

from dataclasses import replace
from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.placement import SplitInputs, combined_cost, split_cost, split_gain_s, split_pays

FIELDS = ("rows", "row_s", "overlap", "panes", "groups", "copy_s", "moves", "pause_s")
AMOUNTS = st.floats(0, 1e15, allow_subnormal=False)
CLOSE = 1e-9
"""Share of the larger side within which the two sides of the break-even may be told apart by rounding."""


def random_inputs(number: int) -> list[SplitInputs]:
    """Inputs of all orders of magnitude."""
    chance = np.random.default_rng(5)
    columns = [
        10 ** chance.uniform(0, 9, number),
        10 ** chance.uniform(-8, -3, number),
        10 ** chance.uniform(0, 2, number),
        np.ceil(10 ** chance.uniform(0, 4, number)),
        2.0 ** chance.integers(0, 11, number),
        10 ** chance.uniform(-6, 0, number),
        np.floor(10 ** chance.uniform(-1, 4, number)),
        10 ** chance.uniform(-3, 2, number),
    ]
    return [SplitInputs(*map(float, row)) for row in zip(*columns, strict=True)]


def exact_sides(inputs: SplitInputs) -> tuple[Fraction, Fraction]:
    """Both sides of the paper's inequality, exactly: what splitting saves, and what it costs."""
    rows, row_s, overlap, panes, groups, copy_s, moves, _ = (Fraction(getattr(inputs, field)) for field in FIELDS)
    return (overlap - 1) * rows * row_s + moves * copy_s * (panes - 1), panes * copy_s * groups


def test_ten_thousand_random_inputs_meet_the_break_even() -> None:
    split = 0
    for inputs in random_inputs(10_000):
        saved, paid = exact_sides(inputs)
        assert split_pays(inputs) == (saved > paid), inputs
        assert (split_cost(inputs).cpu_s < combined_cost(inputs).cpu_s) == (saved > paid), inputs
        split += saved > paid
    assert 1_000 < split < 9_000, "inputs lie on both sides"


@given(st.builds(SplitInputs, *[AMOUNTS] * len(FIELDS)))
def test_costs_are_amounts_and_their_difference_is_the_gain(inputs: SplitInputs) -> None:
    split, combined = split_cost(inputs), combined_cost(inputs)
    assert all(0 <= amount < inf for amount in (*split, *combined))
    assert split_gain_s(inputs) == pytest.approx(
        combined.cpu_s - split.cpu_s, abs=CLOSE * (split.cpu_s + combined.cpu_s)
    )
    saved, paid = exact_sides(inputs)
    if abs(saved - paid) > CLOSE * (abs(saved) + paid):
        assert split_pays(inputs) == (saved > paid)


def test_one_window_without_moves_is_never_split() -> None:
    inputs = SplitInputs(rows=1e6, row_s=1e-6, overlap=1, panes=10, groups=64, copy_s=1e-6)
    assert not split_pays(inputs)
    assert split_pays(replace(inputs, moves=1e6))


def test_a_pause_beyond_the_bound_splits_whatever_it_costs() -> None:
    inputs = SplitInputs(rows=1, row_s=1e-6, overlap=1, panes=10, groups=64, copy_s=1, moves=3, pause_s=0.5)
    assert combined_cost(inputs).latency_s == 1.5
    assert split_cost(inputs).latency_s == 0
    assert not split_pays(inputs, latency_max_s=1.5)
    assert split_pays(inputs, latency_max_s=1.4)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [-1.0, nan, inf, -inf, 1e16])
def test_bad_numbers_are_refused_by_name(field: str, value: float) -> None:
    inputs = SplitInputs(*[1.0] * len(FIELDS))
    with pytest.raises(ValueError, match=rf"^{field} is "):
        replace(inputs, **{field: value})
