"""SUM and AVG are exact, correctly rounded once, and do not depend on how values were grouped."""

import math
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cbt import Aggregate, Layout
from cbt.aggregates.sums import nearest_double

HI = st.integers(-(2**126), 2**126) | st.integers(-(2**64), 2**64) | st.integers(-3, 3)
LO = st.integers(-(2**120), 2**120) | st.integers(-(2**40), 2**40) | st.sampled_from([2**95, 2**96, -(2**95)])
NARROW_DOUBLES = st.integers(-100_000, 100_000).map(lambda cents: cents / 100)
FIXED_POINT = st.floats(-(2.0**63), 2.0**63, exclude_min=True, exclude_max=True).filter(
    lambda x: x == 0 or abs(x) >= 2.0**-75
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def layout(function: str, type_: str = "number") -> Layout:
    return Layout([], [Aggregate("a", function, "x", type_)])


def result(layout: Layout, *blocks: list[object] | pl.Series) -> object:
    lifted = [layout.lift(pl.DataFrame({"x": block}).with_columns(pane=pl.lit(0, pl.Int64))) for block in blocks]
    return layout.lower(layout.combine(lifted))["a"].item()


@given(st.lists(st.tuples(HI, LO), max_size=20))
@example([(2**52, 2**95), (2**53, 2**95 + 1), (-1, 2**96 - 1), (2**85, 1), (2**85 + 2**32, 0), (0, 1)])
def test_the_nearest_double_is_the_nearest(sums: list[tuple[int, int]]) -> None:
    hi = pl.Series([hi for hi, _ in sums], dtype=pl.Int128)
    lo = pl.Series([lo for _, lo in sums], dtype=pl.Int128)
    expected = [float(Fraction(hi, 2**32) + Fraction(lo, 2**128)) for hi, lo in sums]
    assert nearest_double(hi, lo).to_list() == expected


@given(st.lists(FIXED_POINT, min_size=1, max_size=30))
def test_a_sum_of_doubles_is_the_exact_sum_rounded_once(values: list[float]) -> None:
    exact = sum(map(Fraction, values))
    assert result(layout("sum"), values) == exact if exact.denominator == 1 else float(exact)
    assert result(layout("sum"), values) == float(exact) or exact.denominator == 1
    assert result(layout("avg"), values) == float(exact) / len(values)


@given(st.lists(INTEGERS, min_size=1, max_size=30), st.sampled_from(["number", "integer"]))
def test_a_sum_of_integers_never_wraps(values: list[int], type_: str) -> None:
    assert result(layout("sum", type_), values) == sum(values)
    assert result(layout("avg", type_), values) == float(sum(values)) / len(values)


def test_sums_beyond_64_bits() -> None:
    extreme = [2**63 - 1] * 100_000
    assert result(layout("sum"), extreme, extreme) == 200_000 * (2**63 - 1)
    assert result(layout("sum"), [-(2**63)] * 3, [0.5]) == float(-3 * 2**63)


@given(st.lists(NARROW_DOUBLES | FINITE, max_size=34), st.lists(INTEGERS, max_size=8), st.randoms())
def test_grouping_cannot_change_a_bit(doubles: list[float], integers: list[int], random: object) -> None:
    def dealt(parts: int) -> object:
        shuffled = random.sample(doubles, len(doubles))  # type: ignore[attr-defined]
        blocks: list[object] = [shuffled[n::parts] for n in range(parts)] + [integers[n::parts] for n in range(parts)]
        return result(
            layout("sum"),
            *[pl.Series("x", b, dtype=pl.Float64) for b in blocks[:parts] if b],
            *[pl.Series("x", b, dtype=pl.Int64) for b in blocks[parts:] if b],
            [None],
        )

    results = {repr(dealt(parts)) for parts in (1, 3, 17)}
    assert len(results) == 1


@given(st.lists(FINITE | FIXED_POINT, min_size=1, max_size=12))
@example([8.988465674311579e307, 8.98846567431158e307])
@example([-1.7e308, -1.7e308])
def test_huge_and_tiny_doubles_are_summed_exactly_as_well(values: list[float]) -> None:
    exact = sum(map(Fraction, values))
    total = result(layout("sum"), values)
    assert total == (exact if isinstance(total, int) else nearest(exact))
    assert result(layout("avg"), values) == pytest.approx(nearest(exact / len(values)), rel=1e-15, abs=5e-324)


def nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def test_huge_and_tiny_doubles() -> None:
    assert result(layout("sum"), [1e300, 1e300, 1.0]) == 2e300
    assert result(layout("sum"), [1e300], [0.5], [-1e300]) == 0.5
    assert result(layout("sum"), [1e-30, 2e-30]) == pytest.approx(3e-30, rel=1e-15)
    assert result(layout("sum"), [2.0**63, -(2.0**63), 0.5]) == 0.5
    assert result(layout("sum"), [1.7e308, 1.7e308], [-1.7e308]) == 1.7e308
    assert result(layout("sum"), [1.7e308, 1.7e308]) == math.inf
    assert result(layout("avg"), [1.7e308, 1.7e308]) == 1.7e308


def test_what_is_not_finite_shows() -> None:
    assert result(layout("sum"), [math.inf, 1.0]) == math.inf
    assert math.isnan(result(layout("sum"), [math.inf], [-math.inf]))  # type: ignore[arg-type]
    assert math.isnan(result(layout("avg"), [math.nan, 1.0]))  # type: ignore[arg-type]


@pytest.mark.parametrize("type_", ["number", "integer"])
@pytest.mark.parametrize("function", ["sum", "avg"])
def test_of_no_value_there_is_no_sum(function: str, type_: str) -> None:
    assert result(layout(function, type_), [None, None]) is None
    assert result(layout(function, type_), pl.Series("x", [None], dtype=pl.Int64)) is None
    assert result(layout(function, type_), [None], [3, None]) == 3


def test_a_frame_of_whole_sums_lowers_to_integers_and_any_other_to_doubles() -> None:
    whole = Layout([], [Aggregate("a", "sum", "x", "number")])
    halves = whole.lift(pl.DataFrame({"pane": [0, 0, 1], "x": [0.5, 1.5, 4.0]}))
    assert whole.lower(halves)["a"].dtype == pl.Int128
    assert whole.lower(whole.lift(pl.DataFrame({"pane": [0], "x": [0.5]})))["a"].dtype == pl.Float64
    assert layout("sum", "integer").lower(layout("sum", "integer").empty())["a"].dtype == pl.Int128
