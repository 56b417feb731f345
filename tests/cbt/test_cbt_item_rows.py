"""Layouts with sets and sketches: groups of many rows are limited, consolidated and subtracted like groups of one."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pytest
from every_function import COUNT, EVENTS, EVERY, Event, aggregates_of, blocks, check_results, layout_of, merged
from hypothesis import given, settings
from hypothesis import strategies as st

import cbt.layout.layout
from cbt import Aggregate, Key, Layout
from cbt.layout.group_limit import GroupLimit, GroupLimitError, is_other
from cbt.windows import Consolidator, SessionLayout, WindowSize, subtract_frames

SETS = ["count_distinct", "approx_count_distinct", "approx_percentile", "approx_top_k", "collect", "collect_set"]
SETS += ["of_program"]
LAYOUT = layout_of([COUNT, *(one for function in [*SETS, "histogram", "max"] for one in aggregates_of(function)[-1:])])
INVERTIBLE = layout_of([COUNT, *aggregates_of("histogram"), *aggregates_of("sum")])
FEW = settings(max_examples=max(1, settings.default.max_examples // 4))


def lift(layout: Layout, events: list[Event]) -> pl.DataFrame:
    return layout.combine(layout.lift(block) for block in blocks(events))


@FEW
@given(dealt=st.lists(EVENTS, min_size=1, max_size=4), max_groups=st.integers(1, 5), order=st.randoms())
def test_limits_anywhere_give_what_one_limit_gives(dealt: list[list[Event]], max_groups: int, order: Random) -> None:
    limit = GroupLimit(max_groups, "other")
    at_once = limit.apply(LAYOUT, lift(LAYOUT, [event for events in dealt for event in events]))
    frames = [limit.apply(LAYOUT, lift(LAYOUT, events)) for events in dealt]
    limited = limit.apply(LAYOUT, merged(LAYOUT, frames, order))
    assert limited.equals(at_once)
    assert limit.apply(LAYOUT, limited).equals(limited)


@FEW
@given(events=EVENTS, max_groups=st.integers(1, 5))
def test_the_groups_that_are_kept_are_those_without_sets_and_other_is_the_rest(
    events: list[Event], max_groups: int
) -> None:
    limit, plain = GroupLimit(max_groups, "other"), layout_of([COUNT])
    kept = limit.apply(plain, lift(plain, events))
    limited = limit.apply(LAYOUT, lift(LAYOUT, events))
    assert LAYOUT.lower(limited).select("pane", "k", "j", "n").rows() == plain.lower(kept).rows()
    assert limit.folded(LAYOUT, limited) == limit.folded(plain, kept)
    groups = {row[:3] for row in plain.lower(kept.filter(~is_other(plain))).rows()}
    rest = [event for event in events if (event.pane, plain_key(event), event.j) not in groups]
    alone = layout_of(LAYOUT.aggregates)
    as_one = [event._replace(k=None, j=None) for event in rest]
    others = LAYOUT.lower(limited.filter(is_other(LAYOUT)))
    assert others.rows() == LAYOUT.lower(lift(alone, as_one)).rows()


def plain_key(event: Event) -> str | None:
    return None if event.k is None else f'"{event.k}"'


def test_rows_of_items_are_no_groups() -> None:
    layout = Layout([Key("k", "integer")], [Aggregate("d", "count_distinct", "x", "integer")])
    frame = layout.lift(pl.DataFrame({"pane": [0] * 60, "k": [n % 3 for n in range(60)], "x": range(60)}))
    assert GroupLimit(3).apply(layout, frame).equals(frame)
    with pytest.raises(GroupLimitError, match="3 groups in the pane or window at 0, and the job may have 2"):
        GroupLimit(2).apply(layout, frame)
    limited = GroupLimit(1, "other").apply(layout, frame)
    assert layout.lower(limited)["d"].to_list() == [20, 40]


@FEW
@given(
    panes=st.lists(EVENTS, min_size=1, max_size=7),
    size=st.sampled_from([WindowSize(10, 10), WindowSize(20, 10), WindowSize(40, 10)]),
    layout=st.sampled_from([LAYOUT, INVERTIBLE]),
)
def test_windows_are_those_of_their_events_at_once(panes: list[list[Event]], size: WindowSize, layout: Layout) -> None:
    panes = [[event._replace(pane=0) for event in events] for events in panes]
    consolidator = Consolidator(layout, [size])
    for number, events in enumerate(panes):
        frame = lift(layout, [event._replace(pane=number * 10) for event in events])
        for window in consolidator.add(number * 10, frame):
            inside = panes[max(0, window.start_ms // 10) : window.end_ms // 10]
            expected = lift(layout, [event._replace(pane=window.start_ms) for events in inside for event in events])
            assert window.frame.equals(expected)


@FEW
@given(stays=EVENTS, goes=EVENTS)
def test_what_is_subtracted_has_never_been(stays: list[Event], goes: list[Event]) -> None:
    part = lift(INVERTIBLE, goes)
    left = subtract_frames(INVERTIBLE, lift(INVERTIBLE, [*stays, *goes]), part)
    results = {row[:3]: row[3:] for row in INVERTIBLE.lower(left).rows() if row[3]}
    assert results == {row[:3]: row[3:] for row in INVERTIBLE.lower(lift(INVERTIBLE, stays)).rows()}


def test_sets_cannot_be_subtracted() -> None:
    with pytest.raises(ValueError, match="DistinctCount cannot be subtracted"):
        subtract_frames(LAYOUT, LAYOUT.empty(), LAYOUT.empty())


def test_sessions_have_no_sets() -> None:
    distinct = Aggregate("users", "count_distinct", "u", "string")
    with pytest.raises(ValueError, match="sessions cannot have aggregates that are sets or sketches: users"):
        SessionLayout([], [COUNT, distinct], gap_ms=1, max_ms=10, pane_ms=10)


@pytest.mark.parametrize("hashing", ["all groups share the upper half", "all groups share the hash"])
@FEW
@given(events=EVENTS, order=st.randoms())
def test_groups_with_equal_hashes_are_told_apart(hashing: str, events: list[Event], order: Random) -> None:
    real = cbt.layout.layout.key_hash
    share = 2**32 if hashing.endswith("half") else 1

    def collide(keys: list[pl.Series], seed: int) -> pl.Series:
        return (real(keys, seed) % share).alias("hash")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cbt.layout.layout, "key_hash", collide)
        together = merged(LAYOUT, [lift(LAYOUT, events[part::3]) for part in range(3)], order)
        assert together.equals(lift(LAYOUT, events))
        check_results(LAYOUT, together, events)


@FEW
@given(events=EVENTS, order=st.randoms())
def test_rows_are_lowered_in_whatever_order_they_stand(events: list[Event], order: Random) -> None:
    frame = lift(LAYOUT, events)
    shuffled = list(range(frame.height))
    order.shuffle(shuffled)
    check_results(LAYOUT, frame[shuffled], events)


@pytest.mark.parametrize(
    ("function", "type_", "parameters", "complaint"),
    [
        ("histogram", "integer", (), "histogram has 0 parameters; it takes width or bounds"),
        ("histogram", "string", (1,), "there is no histogram of string"),
        ("histogram", "number", (True,), "width or bounds of histogram is True, not a number or a tuple of numbers"),
        ("histogram", "number", ((1, "b"),), "width or bounds of histogram is .*, not a number or a tuple of numbers"),
        ("histogram", "number", ((),), "the bounds of a histogram are finite and ascend"),
        ("histogram", "number", (float("nan"),), "width or bounds of histogram is nan, not a number"),
        ("approx_percentile", "number", (), r"approx_percentile has 0 parameters; it takes p, k\?"),
        ("approx_percentile", "number", (0.5, 200.0), "k of approx_percentile is 200.0, not a whole number"),
        ("approx_percentile", "number", (2,), "a percentile of 2, not between 0 and 1"),
        ("approx_top_k", "any", (1, 2, 3), r"approx_top_k has 3 parameters; it takes top\?, max_items_tracked\?"),
        ("approx_top_k", "any", (0,), "cannot find 0 items"),
        ("approx_count_distinct", "any", (3,), "lg_k is 3"),
        ("count_distinct", "any", (3, 4), r"count_distinct has 2 parameters; it takes most\?"),
        ("count_distinct", "any", (1,), "cannot count distinct values up to 1"),
        ("collect", "any", (), "collect has 0 parameters; it takes most"),
        ("collect_set", "any", (0,), "cannot collect 0 values"),
        ("histogram", "number", (1, 0), "a histogram that reaches 0 buckets"),
    ],
)
def test_parameters_that_cannot_be(function: str, type_: str, parameters: tuple[Any, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"aggregate 'a': {complaint}"):
        Layout([], [Aggregate("a", function, "x", type_, parameters)])


def test_there_are_at_most_127_sets() -> None:
    with pytest.raises(ValueError, match="128 aggregates that are sets or sketches; 127 are allowed"):
        Layout([], [Aggregate(f"a{n}", "count_distinct", "x", "integer") for n in range(128)])


CELLS: dict[Any, st.SearchStrategy[Any]] = {
    pl.String: st.text(max_size=3),
    pl.Boolean: st.booleans(),
    pl.Float64: st.floats(),
    pl.Int8: st.integers(-128, 127),
    pl.Int64: st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    pl.UInt64: st.sampled_from([0, 2**32, 2**64 - 1]),
    pl.Int128: st.integers(-(2**127), 2**127 - 1),
}


@pytest.mark.parametrize("function", [*SETS, "histogram"])
@settings(max_examples=settings.default.max_examples // 4)
@given(data=st.data())
def test_false_rows_give_false_results_and_no_error(function: str, data: st.DataObject) -> None:
    layout = layout_of([COUNT, *aggregates_of(function)])
    cells = {name: CELLS[dtype.base_type()] for name, dtype in layout.schema.items()}
    cells |= {"pane": st.integers(0, 1), ":part": st.none() | st.integers(0, 5) | st.integers(-128, 127)}
    rows = st.lists(
        st.fixed_dictionaries(
            {name: cell if name in ("pane", "hash") else st.none() | cell for name, cell in cells.items()}
        ),
        max_size=12,
    )
    frames = [pl.DataFrame(data.draw(rows), schema=layout.schema) for _ in range(2)]
    combined = layout.combine(frames)
    layout.lower(combined)
    layout.limited(combined)
    layout.lower(GroupLimit(1, "other").apply(layout, combined))


def test_every_set_is_tried() -> None:
    assert {*SETS, "histogram"} == {function for function in EVERY if layout_of(aggregates_of(function)).has_items}
