"""Panes are aligned to the Unix epoch, before and after it, and every window is a run of them."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import pane_of
from cbt.windows import PanePlan, WindowSize

SIZES = st.lists(st.builds(WindowSize, st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=3)


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
    with pytest.raises(ValueError, match="no length"):
        WindowSize(size_ms, 1)
    with pytest.raises(ValueError, match="no length"):
        WindowSize(1, size_ms)


@given(SIZES, st.integers(-500, 500))
def test_a_window_is_a_run_of_panes(sizes: list[WindowSize], time_ms: int) -> None:
    plan = PanePlan(sizes)
    of_time = time_ms // plan.pane_ms * plan.pane_ms
    for size in sizes:
        starts = [
            start
            for start in range(-1200, 600)
            if start % size.slide_ms == 0 and start <= time_ms < start + size.size_ms
        ]
        assert list(size.containing(time_ms)) == starts
        assert all(of_time in plan.panes_of(size, start) for start in starts)
        assert all(len(plan.panes_of(size, start)) <= plan.panes_max for start in starts)
    assert set(plan.windows_with(of_time)) == {(size, s) for size in sizes for s in size.containing(time_ms)}


@given(SIZES, st.integers(-20, 20))
def test_a_pane_completes_the_windows_that_it_is_the_last_of(sizes: list[WindowSize], number: int) -> None:
    plan = PanePlan(sizes)
    last = number * plan.pane_ms
    expected = {(size, start) for size, start in plan.windows_with(last) if plan.panes_of(size, start)[-1] == last}
    assert set(plan.completed_by(last)) == expected


def test_the_pane_is_what_all_sizes_and_slides_have_in_common() -> None:
    plan = PanePlan([WindowSize.tumbling(300_000), WindowSize(900_000, 60_000), WindowSize.tumbling(90_000)])
    assert plan.pane_ms == 30_000
    assert plan.panes_max == 30


def test_panes_that_are_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="only panes of 1 ms in common"):
        PanePlan([WindowSize(3_600_000, 1_000), WindowSize.tumbling(7)])
    with pytest.raises(ValueError, match="without a size"):
        PanePlan([])
    for pane_ms in (0, -1, 400):
        with pytest.raises(ValueError, match=f"{pane_ms} ms are no parts of the 1000 ms"):
            PanePlan([WindowSize.tumbling(1_000)], pane_ms)
