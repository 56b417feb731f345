"""Canonical JSON text: one text a value, and a JSON reader gets the value back."""

import json
import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import canonical_json


def text(*values: object) -> list[str | None]:
    return canonical_json(pl.Series("x", values)).to_list()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e3, "1000"),
        (1e16, "10000000000000000"),
        (-(2.0**63), "-9223372036854775808"),
        (2.0**63, "9.223372036854776e+18"),
        (1e22, "1e+22"),
        (0.1, "0.1"),
        (1e-7, "1e-07"),
        (5e-324, "5e-324"),
        (123456789.125, "123456789.125"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (2**63 - 1, "9223372036854775807"),
        (True, "true"),
        (False, "false"),
        (None, None),
        ("", '""'),
        ("é\x7f\u2028", '"é\x7f\u2028"'),
        ('a"b\\c/\b\f\n\r\t\x00\x1f', '"a\\"b\\\\c/\\b\\f\\n\\r\\t\\u0000\\u001f"'),
    ],
)
def test_examples(value: object, expected: str | None) -> None:
    assert text(value) == [expected]


@given(st.lists(st.none() | st.text(), max_size=20))
def test_strings_are_the_json_that_python_writes(values: list[str | None]) -> None:
    expected = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    assert canonical_json(pl.Series(values, dtype=pl.String)).to_list() == expected


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_doubles_read_back_and_integral_ones_look_like_integers(values: list[float | None]) -> None:
    for value, written in zip(values, canonical_json(pl.Series(values, dtype=pl.Float64)), strict=True):
        if value is None:
            assert written is None
        elif value.is_integer() and -(2**63) <= value < 2**63:
            assert written == str(int(value))
        else:
            assert (json.loads(written), written) == (value, repr(value))


@given(st.integers(-(2**53), 2**53))
def test_an_integer_has_one_text_in_either_type(value: int) -> None:
    assert text(value) == text(float(value)) == [str(value)]


def test_the_name_is_kept_and_other_types_are_refused() -> None:
    assert canonical_json(pl.Series("price", [1.5, 2.0])).name == "price"
    assert canonical_json(pl.Series("none", [None])).dtype == pl.String
    with pytest.raises(ValueError, match="'when' of type Date"):
        canonical_json(pl.Series("when", [None], dtype=pl.Date))
