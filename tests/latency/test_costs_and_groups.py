"""Costs of work, numbers of groups, and the paper's own model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.latency import Amount, HeapsLaw, LinearCost, MeanVariance, papers_model, share_of_processor


@given(st.integers(0, 1 << 32))
def test_costs_are_told_by_pieces_of_work(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = LinearCost(*(10 ** rng.uniform(-4, -2, 1)), *(10 ** rng.uniform(-7, -5, 2)), 0.0)
    pieces = []
    for rows, groups, noise in zip(
        rng.uniform(0, 10_000, 400), rng.uniform(0, 5_000, 400), rng.gamma(25, 1 / 25, 400), strict=True
    ):
        amount = Amount(rows, groups)
        pieces.append((amount, true.seconds(amount) * noise))
    found = LinearCost.fitted(pieces)
    for amount in (Amount(1_000, 4_000), Amount(9_000, 100), Amount(5_000, 2_500)):
        assert found.seconds(amount) == pytest.approx(true.seconds(amount), rel=0.25)
    assert found.spread == pytest.approx(0.2, abs=0.06)
    assert min(found) >= 0


@given(
    st.lists(
        st.tuples(st.builds(Amount, *(st.floats(0, 1e9) for _ in range(3))), st.floats(0, 100)), min_size=1, max_size=20
    )
)
def test_no_part_of_a_cost_is_negative_or_endless(pieces: list[tuple[Amount, float]]) -> None:
    found = LinearCost.fitted(pieces)
    assert all(0 <= part < math.inf for part in found)


def test_pieces_of_one_size_are_divided_as_expected() -> None:
    pieces = [(Amount(rows=1_000), 0.004)] * 50
    like = LinearCost(1e-3, row=1e-6)
    assert LinearCost.fitted(pieces, like).seconds(Amount(rows=2_000)) == pytest.approx(0.006, rel=0.01)
    with pytest.raises(ValueError, match="at least one"):
        LinearCost.fitted([])
    with pytest.raises(ValueError, match="0 or more"):
        LinearCost.fitted([(Amount(1), -1.0)])


def test_half_a_processor_takes_twice_as_long() -> None:
    cost = LinearCost(0.01, spread=0.2)
    assert cost.duration(Amount(), 0.5).mean == pytest.approx(0.02, rel=0.01)
    assert [share_of_processor(*told) for told in ((1.0, 2.0), (3.0, 2.0), (0.0, 0.0), (math.nan, 1.0))] == [
        0.5,
        1,
        1,
        1,
    ]
    assert cost.duration(Amount(), 0.0).mean < math.inf


@given(st.floats(1, 50), st.floats(0.2, 1.0), st.integers(2, 10))
def test_heaps_law_is_told_by_points(factor: float, exponent: float, points: int) -> None:
    rows = np.geomspace(1e4, 1e6, points)
    found = HeapsLaw.fitted((row, factor * row**exponent) for row in rows)
    assert found.exponent == pytest.approx(exponent, abs=1e-6)
    assert found.groups(1e5) == pytest.approx(min(factor * 1e5**exponent, 1e5), rel=1e-6)
    assert found.growth(4) == pytest.approx(4 ** (1 - exponent), rel=1e-5)


def test_few_points_or_odd_ones_leave_a_law_that_bounds() -> None:
    assert HeapsLaw.fitted([]).groups(100) == 100
    assert HeapsLaw.fitted([(math.nan, 5), (0, 5), (10, -1)]).groups(100) == 100
    one = HeapsLaw.fitted([(1_000, 100)])
    assert one.groups(1_000) == pytest.approx(100)
    assert one.groups(0) == 0
    assert HeapsLaw.fitted([(10, 100), (1_000, 50)]).exponent == 0


def test_cut_panes_cost_more_and_seal_less() -> None:
    law = HeapsLaw(10.0, 0.6, 2)
    whole = law.groups(100_000)
    assert law.groups(100_000 / 8) < whole < 8 * law.groups(100_000 / 8)
    assert 8 * law.groups(100_000 / 8) == pytest.approx(whole * law.growth(8))


@pytest.mark.parametrize("mappers", [1, 2, 16, 128])
def test_the_papers_model_is_that_of_normal_tuples(mappers: int) -> None:
    rng = np.random.default_rng(1)
    finish, keys = 0.4, 10
    longest = rng.normal(2.0, 0.3, (40_000, mappers)).max(axis=1)
    lived = longest + rng.integers(1, keys + 1, 40_000) * finish / keys
    told = papers_model(MeanVariance(2.0, 0.09), mappers, finish, keys)
    assert told.mean == pytest.approx(lived.mean(), rel=0.01)
    assert told.variance == pytest.approx(lived.var(), rel=0.03)
    assert told.normal_quantile(0.99) == pytest.approx(np.quantile(lived, 0.99), rel=0.05)
    assert told.cantelli_quantile(0.99) > np.quantile(lived, 0.99)


def test_cantelli_bounds_any_distribution() -> None:
    told = MeanVariance(1.0, 0.25)
    assert told.cantelli_quantile(0.99) == pytest.approx(1 + 0.5 * math.sqrt(99))
    with pytest.raises(ValueError, match="between 0 and 1"):
        told.cantelli_quantile(1.0)
    with pytest.raises(ValueError, match="at least"):
        papers_model(told, 0, 0.1, 1)
