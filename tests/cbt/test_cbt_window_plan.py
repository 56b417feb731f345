"""Windows are made of panes and of each other with as few merges as there can be, as planned and as done."""

from collections.abc import Iterator

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import Aggregate, Key, Layout
from cbt.windows import Consolidator, PanePlan, WindowSize
from cbt.windows.window_plan import Interval, PathGraph, plan_windows

MINUTE = 60_000
COUNT = Layout([Key("k", "any")], [Aggregate("n", "count", None, "any")])
MAX = Layout([Key("k", "any")], [Aggregate("n", "max", "x", "number")])


def minutes(*sizes: int | tuple[int, int]) -> list[WindowSize]:
    pairs = (size if isinstance(size, tuple) else (size, size) for size in sizes)
    return [WindowSize(size * MINUTE, slide * MINUTE) for size, slide in pairs]


CASES = [
    # what is asked for, in how many hours, inputs that are merged: by itself, with each other, and by differences
    (minutes(1, 5, 10, 15, 20), 1, 240, 86, 86),
    (minutes(5, 10, 15, 20), 1, 36, 26, 26),
    (minutes(10, 30, 60, 360, 1440), 24, 576, 220, 220),
    (minutes(1, 5, 10, 15, 20, 25, 30), 5, 1800, 478, 478),
    (minutes(1, 20, 30, 40), 2, 360, 146, 139),
    (minutes(1, (10, 1), (30, 1), (60, 5)), 1, 3120, 804, 384),
    (minutes(1, (60, 1)), 1, 3600, 3600, 180),
    (minutes(7, 10), 70, 8400, None, None),
]
"""Figures 7 and 8 of Enorm, its section 7.1, and beyond."""


@pytest.mark.parametrize(("sizes", "hours", "alone", "shared", "by_differences"), CASES)
def test_windows_merge_no_more_than_figures_say(
    sizes: list[WindowSize], hours: int, alone: int, shared: int | None, by_differences: int | None
) -> None:
    panes = PanePlan(sizes)
    for subtracts, most in ((False, shared), (True, by_differences)):
        plan = plan_windows(panes, subtracts=subtracts)
        inputs = plan.inputs * hours * 60 * MINUTE / plan.period_ms
        assert not plan.is_plain
        assert inputs <= (alone if most is None else most)
        if most is not None and not plan.stacks:
            assert inputs == most


@pytest.mark.parametrize(("sizes", "hours", "alone"), [case[:3] for case in CASES[:-1]])
@pytest.mark.parametrize("layout", [COUNT, MAX])
def test_what_is_merged_is_what_was_planned(layout: Layout, sizes: list[WindowSize], hours: int, alone: int) -> None:
    consolidator = Consolidator(layout, sizes)
    plan, pane_ms = consolidator.window_plan, consolidator.plan.pane_ms
    frame = layout.lift(pl.DataFrame({"pane": [0], "k": ["a"], "x": [1.0]}))
    period = hours * 60 * MINUTE // pane_ms
    before = (0, 0)
    for number in range(2 * period):
        for window in consolidator.add(number * pane_ms, frame):
            assert window.frame.height == 1
        if number + 1 == period:
            before = (consolidator.done.inputs, consolidator.done.panes)
    panes = consolidator.done.panes - before[1]
    assert panes == alone
    planned, inputs = plan.inputs * hours * 60 * MINUTE / plan.period_ms, consolidator.done.inputs - before[0]
    if plan.stacks:
        assert 0.9 * planned <= inputs <= 1.02 * planned
    else:
        assert inputs == planned


def inputs_of(layout: Layout, pane_ms: int) -> int:
    """The states that are merged in a minute, once windows of 8 s have all of their panes."""
    consolidator = Consolidator(layout, [WindowSize(8_000, 1_000)], pane_ms=pane_ms)
    frame = layout.lift(pl.DataFrame({"pane": [0], "k": ["a"], "x": [1.0]}))
    done = []
    for number in range(72_000 // pane_ms):
        done.append(consolidator.done.inputs)
        assert all(window.frame.height == 1 for window in consolidator.add(number * pane_ms, frame))
    return consolidator.done.inputs - done[12_000 // pane_ms]


@pytest.mark.parametrize("layout", [COUNT, MAX], ids=["made of panes", "made by stacks"])
def test_each_pane_that_is_cut_off_is_merged_once(layout: Layout) -> None:
    assert inputs_of(layout, 250) == inputs_of(layout, 1_000) + 60 * 3 * 2


def ways(begin: int, end: int, parts: list[Interval], limit: int) -> Iterator[float]:
    """The costs of all ways of making a stretch of parts that are added one after the other."""
    if begin == end:
        yield 0.0
    if limit:
        for start, stop, cost in parts:
            if start == begin and stop <= end:
                yield from (cost + rest for rest in ways(stop, end, parts, limit - 1))


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 5), st.integers(1, 9)), max_size=6),
    st.lists(st.integers(1, 5), min_size=8, max_size=8),
)
def test_the_cheapest_path_is_the_cheapest_of_all(drawn: list[tuple[int, int, int]], panes: list[int]) -> None:
    parts = [Interval(start, start + length, float(cost)) for start, length, cost in drawn if start + length <= 8]
    graph = PathGraph(0, 8, parts, lambda low, high: float(sum(panes[low:high])), subtracts=False)
    cost, path = graph.cheapest()
    runs = [Interval(number, number + 1, float(pane)) for number, pane in enumerate(panes)]
    assert cost == min(ways(0, 8, [*parts, *runs], 8))
    assert [step.start for step in path] == [0, *(step.end for step in path)][:-1]
    best, steps = graph.on_cheapest()
    assert best == cost
    assert set(path) <= set(steps)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)), max_size=6))
def test_a_path_adds_each_moment_of_a_window_once(drawn: list[tuple[int, int]]) -> None:
    parts = [Interval(start, start + length, 1.0) for start, length in drawn if start + length <= 12]
    _, path = PathGraph(4, 12, parts, lambda low, high: float(high - low), subtracts=True).cheapest()
    times = dict.fromkeys(range(12), 0)
    for step in path:
        for time in range(step.start, step.end):
            times[time] += -1 if step.is_back else 1
    assert times == {time: int(time >= 4) for time in range(12)}


def test_sizes_that_have_too_little_in_common_go_by_themselves() -> None:
    sizes = [WindowSize(59_000, 1000), *map(WindowSize.tumbling, (61_000, 67_000, 71_000))]
    plan = plan_windows(PanePlan(sizes), subtracts=True)
    assert plan.is_plain
    assert plan.stacks == set(sizes)
