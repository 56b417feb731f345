"""BOOL_AND and BOOL_OR are Python's `all` and `any` of what is not NULL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pao_states import combine, lift, lift_each, lower, same

from cbt.aggregates.extremes import BoolAnd, BoolOr

VALUES = st.lists(st.none() | st.booleans(), min_size=1, max_size=10)


@pytest.mark.parametrize(("kind", "model"), [(BoolAnd, all), (BoolOr, any)])
@given(VALUES, st.integers(1, 4))
def test_equals_the_model(kind: type[BoolAnd | BoolOr], model: object, values: list[bool | None], size: int) -> None:
    pao = kind("b")
    present = [value for value in values if value is not None]
    merged = combine(pao, [lift(pao, values[start : start + size]) for start in range(0, len(values), size)])
    assert lower(pao, merged) == [model(present) if present else None]  # type: ignore[operator]
    assert same(merged, lift_each(pao, values[::-1]))


def test_it_cannot_be_taken_off() -> None:
    assert BoolAnd("b").subtract() is None
