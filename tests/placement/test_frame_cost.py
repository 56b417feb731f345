"""Costs of frames, fitted to what was measured."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.placement import FrameCost
from agent.placement.frame_cost import FRAME_ROWS

COSTS = st.builds(FrameCost, st.floats(1e-6, 1e-2), st.floats(1e-9, 1e-5))


@given(COSTS, st.lists(st.tuples(st.integers(1, 8), st.integers(0, 100_000)), min_size=1, max_size=20))
def test_what_is_fitted_tells_what_was_measured(cost: FrameCost, steps: list[tuple[int, int]]) -> None:
    """Few steps do not tell the parts apart, and the fit leans to FRAME_ROWS; their sum it knows."""
    frames, rows = np.array(steps, float).T
    fitted = FrameCost.fitted(frames, rows, [cost.of(*step) for step in steps])
    assert fitted.fixed_s >= 0
    assert fitted.row_s >= 0
    if len(set(steps)) == 1:
        assert fitted.of(*steps[0]) == pytest.approx(cost.of(*steps[0]), rel=0.05)


@given(COSTS)
def test_frames_of_many_sizes_tell_the_parts_apart(cost: FrameCost) -> None:
    rows = [0, 0, 50, 500, 4_000, 4_000]
    fitted = FrameCost.fitted([1] * 6, rows, [cost.of(1, one) for one in rows])
    for one in rows:
        assert fitted.of(1, one) == pytest.approx(cost.of(1, one), abs=0.05 * cost.of(1, max(rows)))


@given(COSTS, st.integers(0, 2**32))
def test_chance_in_measurements_does_not_turn_costs_round(cost: FrameCost, seed: int) -> None:
    chance = np.random.default_rng(seed)
    frames, rows = np.ones(200), chance.uniform(0, 5_000, 200)
    fitted = FrameCost.fitted(frames, rows, cost.of(1, 0) * frames * chance.uniform(0.5, 1.5, 200) + cost.row_s * rows)
    assert fitted.fixed_s == pytest.approx(cost.fixed_s, rel=0.5, abs=cost.row_s * 500)


def test_frames_that_are_all_alike_are_divided_by_rule() -> None:
    fitted = FrameCost.fitted([1] * 9, [FRAME_ROWS] * 9, [1.0] * 9)
    assert fitted.fixed_s == pytest.approx(0.5, rel=0.01)
    assert fitted.row_s * FRAME_ROWS == pytest.approx(0.5, rel=0.01)


def test_nothing_measured_costs_nothing() -> None:
    assert FrameCost.fitted([], [], []) == FrameCost(0, 0)
    assert FrameCost.fitted([0], [0], [1]) == FrameCost(0, 0)


@given(
    st.lists(st.tuples(*[st.floats(0, 1e6)] * 3), max_size=10),
)
def test_whatever_was_measured_parts_are_amounts(steps: list[tuple[float, float, float]]) -> None:
    columns = np.array(steps).reshape(-1, 3).T
    fitted = FrameCost.fitted(*columns)
    assert 0 <= fitted.fixed_s < inf
    assert 0 <= fitted.row_s < inf


@pytest.mark.parametrize("field", ["frames", "rows", "seconds"])
@pytest.mark.parametrize("value", [-1.0, nan, inf])
def test_bad_numbers_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{field}\[1\] is "):
        FrameCost.fitted(**({"frames": [1, 1], "rows": [1, 1], "seconds": [1, 1]} | {field: [1, value]}))


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^seconds has the shape"):
        FrameCost.fitted([1], [1], [])
