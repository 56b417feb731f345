"""FIRST and LAST are the values of the earliest and the latest event, against a search written in Python."""

import math
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pao_states import combine, lift, lift_each, lower, same

from cbt import canonical_json
from cbt.aggregates.extremes import Occurrence

NUMBERS = (
    st.integers(-(2**63), 2**63 - 1) | st.floats() | st.sampled_from([2.0**53, 2**53 + 1, 2.0**63, 0.0, -0.0, 1, 1.5])
)
VALUES = {
    "any": st.booleans() | NUMBERS | st.text(max_size=2),
    "number": NUMBERS,
    "integer": st.integers(-(2**63), 2**63 - 1),
    "string": st.text(max_size=2),
    "boolean": st.booleans(),
}
TIMES = st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1])
Event = tuple[int, object]


def events(type_: str) -> st.SearchStrategy[list[Event]]:
    return st.lists(st.tuples(TIMES, st.none() | VALUES[type_]), min_size=1, max_size=10)


def order(value: object) -> tuple[object, ...]:
    """Boolean < number < string; NaN is the greatest number; no rounding between integers and doubles."""
    if isinstance(value, bool):
        return (0, value)
    if isinstance(value, str):
        return (2, value.encode())
    assert isinstance(value, int | float)
    if isinstance(value, float) and not math.isfinite(value):
        return (1, 1 if not value < 0 else -1, math.isnan(value))
    return (1, 0, Fraction(value))


def model(rows: list[Event], *, latest: bool) -> object:
    present = [(time, order(value), value) for time, value in rows if value is not None]
    if not present:
        return None
    return (max if latest else min)(present, key=lambda row: row[:2])[2]


def text(value: object) -> object:
    return canonical_json(pl.Series([value])).item()


def states(pao: Occurrence, rows: list[Event]) -> pl.DataFrame:
    return lift_each(pao, [value for _, value in rows], time=[time for time, _ in rows])


@pytest.mark.parametrize("latest", [False, True])
@pytest.mark.parametrize("type_", VALUES)
@settings(max_examples=settings.default.max_examples // 2)
@given(st.data(), st.integers(1, 3))
def test_it_is_the_value_of_that_event(type_: str, latest: bool, data: st.DataObject, parts: int) -> None:
    rows = data.draw(events(type_))
    pao = Occurrence("v", type_, latest=latest)
    merged = states(pao, rows)
    dealt = combine(pao, [states(pao, rows[::-1][part::parts]) for part in range(min(parts, len(rows)))])
    assert same(dealt, merged)
    (result,) = lower(pao, merged)
    expected = model(rows, latest=latest)
    assert (result if type_ == "any" else text(result)) == text(
        float(expected) if isinstance(result, float) else expected
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("latest", [False, True])
@given(st.lists(st.tuples(st.integers(0, 2), TIMES, st.none() | st.floats()), max_size=20))
def test_blocks_of_many_groups(latest: bool, rows: list[tuple[int, int, float | None]]) -> None:
    pao = Occurrence("v", "number", latest=latest)
    values = pl.Series([value for *_, value in rows], dtype=pl.Float64)
    columns = {"pane": [pane for pane, *_ in rows], "time": [time for _, time, _ in rows]}
    lowered = lower(pao, lift(pao, values, **columns)) if rows else []
    alone = [[(time, value) for p, time, value in rows if p == pane] for pane in sorted({pane for pane, *_ in rows})]
    assert list(map(text, lowered)) == [text(model(group, latest=latest)) for group in alone]


def test_the_column_of_times_has_any_name() -> None:
    pao = Occurrence("v", "string", latest=True, time="received")
    assert pao.inputs == ("received",)
    assert lower(pao, lift(pao, ["a", "b", None], received=[2, 1, 3])) == ["a"]


def test_of_events_at_one_time_the_least_is_first_and_the_greatest_last() -> None:
    rows: list[Event] = [(5, "b"), (5, 1.5), (5, 2), (5, "a"), (5, None)]
    assert lower(*_of(rows, latest=False)) == ["1.5"]
    assert lower(*_of(rows, latest=True)) == ['"b"']


def test_it_cannot_be_taken_off() -> None:
    assert Occurrence("v", "any", latest=False).subtract() is None


def _of(rows: list[Event], *, latest: bool) -> tuple[Occurrence, pl.DataFrame]:
    pao = Occurrence("v", "any", latest=latest)
    return pao, states(pao, rows)
