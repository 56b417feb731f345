"""Counts of panes, slices and windows, next to a model that goes through a cycle pane by pane."""

from math import gcd, lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.placement import Intervals, WindowCounts
from agent.placement.window_counts import copies
from cbt.windows import WindowSize

SIZES = st.lists(st.builds(WindowSize, st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=3, unique=True)


def slices_of(sizes: list[WindowSize], pane: int, cycle: int) -> list[int]:
    """The panes of each slice of a cycle, ascending: one ends where any window begins or ends."""
    lengths: list[int] = []
    for time in range(cycle, 2 * cycle, pane):
        is_edge = any(after % size.slide_ms == 0 for size in sizes for after in (time, time - size.size_ms))
        is_in_a_window = any(size.containing(time) for size in sizes)
        if is_in_a_window and is_edge:
            lengths.append(1)
        elif is_in_a_window:
            lengths[-1] += 1
    return sorted(lengths)


@given(SIZES)
def test_counts_are_those_of_a_model(sizes: list[WindowSize]) -> None:
    pane = gcd(*(one for size in sizes for one in (size.size_ms, size.slide_ms)))
    cycle = lcm(*(size.slide_ms for size in sizes))
    counts = WindowCounts.of(sizes, cycle)
    lengths = slices_of(sizes, pane, cycle)
    assert counts.panes == sum(lengths)
    assert [one.panes for one in counts.slices for _ in range(round(one.number))] == lengths
    in_windows = sum(len(size.containing(time)) for size in sizes for time in range(cycle, 2 * cycle, pane))
    assert counts.overlap == pytest.approx(in_windows / counts.panes)


def test_counts_are_for_the_period_that_is_asked_for() -> None:
    hour = WindowCounts.of([WindowSize.tumbling(600), WindowSize(600, 200)], 3_600)
    two = WindowCounts.of([WindowSize.tumbling(600), WindowSize(600, 200)], 7_200)
    assert (two.panes, two.overlap) == (2 * hour.panes, hour.overlap)
    assert [one.number for one in two.windows] == [2 * one.number for one in hour.windows]
    assert two.open == hour.open


def test_windows_of_7_and_10_minutes_have_16_slices_and_70_panes() -> None:
    counts = WindowCounts.of([WindowSize.tumbling(7), WindowSize.tumbling(10)], 70)
    assert (counts.panes, sum(one.number for one in counts.slices)) == (70, 16)
    assert counts.slice_inputs < counts.pane_inputs


def test_merges_are_those_of_the_shared_plan() -> None:
    minutes = [WindowSize.tumbling(one) for one in (1, 5, 10, 15, 20)]
    assert WindowCounts.of(minutes, 60).pane_inputs == 86


def test_panes_that_are_cut_are_counted_and_merged_one_by_one() -> None:
    tumbling = WindowCounts.of([WindowSize.tumbling(1_000)], 60_000, pane_ms=250)
    assert (tumbling.panes, tumbling.pane_inputs) == (240, 240)
    assert (tumbling.windows, tumbling.open) == ((Intervals(60, 4),), (Intervals(0.75, 2),))
    whole, cut = (WindowCounts.of([WindowSize(3_000, 1_000)], 60_000, pane_ms=pane_ms) for pane_ms in (None, 250))
    assert (cut.panes, cut.overlap) == (4 * whole.panes, whole.overlap)


def test_sizes_that_have_little_in_common_are_counted_in_part() -> None:
    counts = WindowCounts.of([WindowSize(59, 1), WindowSize.tumbling(61), WindowSize.tumbling(67)], 1_000)
    assert counts.panes == pytest.approx(1_000)
    assert counts.overlap == pytest.approx(61)
    assert 0 < counts.pane_inputs < 1_000 * 61


@pytest.mark.parametrize(("span", "overlap"), [(10, 9), (1, 0)])
def test_a_move_makes_a_state_of_each_open_window_extra(span: int, overlap: int) -> None:
    counts = WindowCounts.of([WindowSize(span, 1)], 60)
    assert counts.extra_copies(0) == overlap


def test_states_grow_with_their_panes() -> None:
    assert copies([Intervals(3, 16)], 0) == 3
    assert copies([Intervals(3, 16)], 0.5) == 12
    assert copies([Intervals(3, 16)], 1) == 48


def test_no_period_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^period_ms is 0"):
        WindowCounts.of([WindowSize.tumbling(1)], 0)
