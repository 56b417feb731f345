"""VARIANCE and STDDEV are those of exact arithmetic, rounded a few times at most, however values were grouped."""

import math
import statistics
from collections.abc import Sequence
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pao_states import combine, lift, lift_each, lower, same

from cbt.aggregates.moments import IntegerVariance, NumberVariance, Variance

INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-1000, 1000)
FINITE = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-100_000, 100_000).map(lambda n: n / 100)
NUMBERS: dict[type[Variance], st.SearchStrategy[float]] = {IntegerVariance: INTEGERS, NumberVariance: INTEGERS | FINITE}
DIGITS_15 = 1e-15


def variance(values: Sequence[float], *, sample: bool) -> float | None:
    numbers = [Fraction(value) for value in values]
    n = len(numbers)
    if n <= sample:
        return None
    spread = n * sum(number * number for number in numbers) - sum(numbers) ** 2
    try:
        return float(spread / (n * (n - sample)))
    except OverflowError:
        return math.inf


def result(
    kind: type[Variance], values: Sequence[float | None], *, sample: bool = True, deviation: bool = False
) -> object:
    pao = kind("v", sample=sample, deviation=deviation)
    return lower(pao, lift_each(pao, values))[0]


@pytest.mark.parametrize("kind", [IntegerVariance, NumberVariance])
@settings(max_examples=settings.default.max_examples // 2)
@given(st.data(), st.booleans())
def test_equals_exact_arithmetic(kind: type[Variance], data: st.DataObject, sample: bool) -> None:
    values = data.draw(st.lists(NUMBERS[kind], min_size=1, max_size=12))
    expected = variance(values, sample=sample)
    lowered = result(kind, values, sample=sample)
    assert lowered == (expected if expected is None else pytest.approx(expected, rel=DIGITS_15, abs=0))
    deviation = result(kind, values, sample=sample, deviation=True)
    if expected is not None and 1e-300 < expected < math.inf:
        assert deviation == pytest.approx(math.sqrt(expected), rel=DIGITS_15, abs=0)


@pytest.mark.parametrize("kind", [IntegerVariance, NumberVariance])
@settings(max_examples=settings.default.max_examples // 3)
@given(st.data(), st.integers(1, 17), st.randoms())
def test_grouping_changes_no_bit(kind: type[Variance], data: st.DataObject, parts: int, random: object) -> None:
    values = data.draw(st.lists(NUMBERS[kind], min_size=2, max_size=40))
    pao = kind("v", sample=True, deviation=False)
    random.shuffle(values)  # type: ignore[attr-defined]
    dealt = combine(pao, [lift_each(pao, values[part::parts]) for part in range(min(parts, len(values)))])
    assert lower(pao, dealt) == lower(pao, lift_each(pao, sorted(values)))


@given(st.lists(FINITE, min_size=1, max_size=40), st.integers(1, 40))
def test_states_do_not_depend_on_blocks(values: list[float], size: int) -> None:
    pao = NumberVariance("v", sample=True, deviation=False)
    blocks = [lift(pao, values[start : start + size]) for start in range(0, len(values), size)]
    assert same(combine(pao, blocks), lift(pao, values))
    assert same(combine(pao, blocks[::-1]), lift(pao, values[::-1]))


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9, 1e12, 2.0**52, -1e15])
def test_values_that_nearly_cancel(offset: float) -> None:
    values = [offset + noise for noise in (0.25, 0.5, 0.75, 1.0, 1.25) * 1000]
    pao = NumberVariance("v", sample=False, deviation=True)
    states = combine(pao, [lift(pao, values[start::7]) for start in range(7)])
    assert lower(pao, states) == [pytest.approx(statistics.pstdev(map(Fraction, values)), rel=1e-14)]


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1e-30, 1e18, 1e19, 1e30, 1e100, 1e200])
def test_deviations_of_any_magnitude(scale: float) -> None:
    values = [scale, 2 * scale, 3 * scale, 4 * scale]
    assert result(NumberVariance, values, deviation=True) == pytest.approx(scale * math.sqrt(5 / 3), rel=1e-15)


def test_a_variance_beyond_all_doubles_is_infinite_but_its_deviation_is_not() -> None:
    assert result(NumberVariance, [1e200, 3e200], sample=False) == math.inf
    assert result(NumberVariance, [1e200, 3e200], sample=False, deviation=True) == pytest.approx(1e200, rel=1e-15)


@pytest.mark.parametrize("kind", [IntegerVariance, NumberVariance])
def test_of_too_few_values_there_is_no_variance(kind: type[Variance]) -> None:
    assert result(kind, [None]) is None
    assert result(kind, [None], sample=False) is None
    assert result(kind, [7, None]) is None
    assert result(kind, [7, None], sample=False) == 0
    assert (
        lower(kind("v", sample=True, deviation=False), lift(kind("v", sample=True, deviation=False), []).clear()) == []
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_has_no_variance(value: float) -> None:
    assert math.isnan(result(NumberVariance, [value, 1.0]))  # type: ignore[arg-type]
    assert math.isnan(result(NumberVariance, [value, 1e300, 3], deviation=True))  # type: ignore[arg-type]
    assert math.isnan(result(NumberVariance, [value], sample=False))  # type: ignore[arg-type]
    assert result(NumberVariance, [value]) is None


def test_equal_values_have_none() -> None:
    for value in (0.0, -0.0, 0.1, 1e-300, 1e300, -(2.0**63), 2**63 - 1, 5e-324):
        assert result(NumberVariance, [value] * 3) == 0
        assert result(NumberVariance, [value] * 3, deviation=True) == 0


def test_many_extreme_integers() -> None:
    extremes = pl.Series([2**63 - 1, -(2**63)] * 50_000)
    for kind in (IntegerVariance, NumberVariance):
        pao = kind("v", sample=False, deviation=True)
        states = combine(pao, [lift(pao, extremes)] * 10)
        assert lower(pao, states) == [2.0**63]


@given(st.lists(st.tuples(st.integers(0, 3), FINITE | st.none()), min_size=1, max_size=60))
@example([(0, 1e300), (1, 1.0), (0, 2.0), (1, None)])
def test_panes_do_not_mix(rows: list[tuple[int, float | None]]) -> None:
    pao = NumberVariance("v", sample=False, deviation=False)
    panes = sorted({pane for pane, _ in rows})
    values = pl.Series([value for _, value in rows], dtype=pl.Float64)
    states = lift(pao, values, pane=[pane for pane, _ in rows])
    alone = [result(NumberVariance, [v for p, v in rows if p == pane], sample=False) for pane in panes]
    assert lower(pao, states) == alone


@pytest.mark.slow
def test_many_groups() -> None:
    rows = 20_000
    values = pl.Series([(n * 7919 % 1009) / 8 + 1e9 for n in range(rows)])
    pao = NumberVariance("v", sample=True, deviation=False)
    lowered = lower(pao, lift(pao, values, pane=[n % 5000 for n in range(rows)]))
    expected = [variance(values[pane::5000].to_list(), sample=True) for pane in range(5000)]
    assert lowered == pytest.approx(expected, rel=DIGITS_15, abs=0)
