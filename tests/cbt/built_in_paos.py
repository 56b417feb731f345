"""Every built-in PAO of one row a key, with values of its type to try it on, the awkward ones among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from cbt.aggregates.extremes import BoolAnd, BoolOr, Extreme, Occurrence
from cbt.aggregates.moments import IntegerVariance, NumberVariance
from cbt.aggregates.sums import IntegerAverage, IntegerSum, NumberAverage, NumberSum
from cbt.algebra.pao import CountRows, CountValues, Pao

INTEGERS = (
    st.integers(-(2**63), 2**63 - 1) | st.integers(-1000, 1000) | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1])
)
AWKWARD = st.sampled_from(
    [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324, 1e308, -1e308, 2.0**63, 2.0**-75]
)
NUMBERS = INTEGERS | st.floats() | AWKWARD | st.integers(-100_000, 100_000).map(lambda cents: cents / 100)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "integer": INTEGERS,
    "number": NUMBERS,
    "string": st.text(max_size=3),
    "boolean": st.booleans(),
    "any": st.booleans() | NUMBERS | st.text(max_size=3),
}

PAOS: dict[str, tuple[Callable[[], Pao], str]] = {
    "COUNT(*)": (lambda: CountRows("a"), "any"),
    "COUNT": (lambda: CountValues("a"), "any"),
    "SUM of integers": (lambda: IntegerSum("a"), "integer"),
    "AVG of integers": (lambda: IntegerAverage("a"), "integer"),
    "SUM": (lambda: NumberSum("a"), "number"),
    "AVG": (lambda: NumberAverage("a"), "number"),
    "VARIANCE of integers": (lambda: IntegerVariance("a", sample=True, deviation=False), "integer"),
    "STDDEV_POP of integers": (lambda: IntegerVariance("a", sample=False, deviation=True), "integer"),
    "VARIANCE": (lambda: NumberVariance("a", sample=True, deviation=False), "number"),
    "STDDEV_POP": (lambda: NumberVariance("a", sample=False, deviation=True), "number"),
    "BOOL_AND": (lambda: BoolAnd("a"), "boolean"),
    "BOOL_OR": (lambda: BoolOr("a"), "boolean"),
}
for _type in VALUES:
    PAOS[f"MIN of {_type}"] = (lambda type_=_type: Extreme("a", type_, greatest=False), _type)  # type: ignore[misc]
    PAOS[f"MAX of {_type}"] = (lambda type_=_type: Extreme("a", type_, greatest=True), _type)  # type: ignore[misc]
    PAOS[f"FIRST of {_type}"] = (lambda type_=_type: Occurrence("a", type_, latest=False), _type)  # type: ignore[misc]
    PAOS[f"LAST of {_type}"] = (lambda type_=_type: Occurrence("a", type_, latest=True), _type)  # type: ignore[misc]

INVERTIBLE = [name for name, (make, _) in PAOS.items() if make().subtract() is not None]

Event = tuple[Any, int]


def events(type_: str) -> st.SearchStrategy[list[Event]]:
    """Values, NULL among them, with times of which many are the same."""
    return st.lists(st.tuples(st.none() | VALUES[type_], st.integers(0, 3)), min_size=1, max_size=12)
