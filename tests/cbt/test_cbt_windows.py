"""Panes are aligned to the Unix epoch, before and after it."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import pane_of


def pane(time_ms: int, size_ms: int | None) -> int:
    return int(pl.DataFrame({"time": [time_ms]}).select(pane_of(pl.col("time"), size_ms)).item())


@given(st.integers(-(2**53), 2**53), st.integers(1, 10**9))
def test_a_pane_starts_at_a_multiple_of_its_size_and_covers_the_time(time_ms: int, size_ms: int) -> None:
    start = pane(time_ms, size_ms)
    assert start % size_ms == 0
    assert start <= time_ms < start + size_ms


def test_without_a_size_there_is_one_pane() -> None:
    assert pane(-5, None) == pane(10**12, None) == 0


@pytest.mark.parametrize("size_ms", [0, -1])
def test_a_size_must_be_positive(size_ms: int) -> None:
    with pytest.raises(ValueError, match="no length"):
        pane_of(pl.col("time"), size_ms)
