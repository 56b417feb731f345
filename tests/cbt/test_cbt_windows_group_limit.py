"""A limit of groups keeps the same groups however events were dealt, and holds exactly the rest in OTHER."""

from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cbt.layout.group_limit
import cbt.layout.layout
from cbt import Aggregate, Key, Layout
from cbt.layout.group_limit import FoldedGroups, GroupLimit, GroupLimitError, is_other
from cbt.windows import Consolidator, WindowSize

LAYOUT = Layout(
    [Key("rank", "integer"), Key("groups", "string")],
    [
        Aggregate("n", "count", None, "any"),
        Aggregate("total", "sum", "x", "integer"),
        Aggregate("top", "max", "x", "integer"),
    ],
)
Event = tuple[int, int | None, str | None, int | None]
EVENTS = st.lists(
    st.tuples(st.integers(0, 1), st.none() | st.integers(0, 9), st.sampled_from([None, "", "a"]), st.integers(-9, 9)),
    max_size=40,
)


def lift(events: list[Event], layout: Layout = LAYOUT) -> pl.DataFrame:
    schema = {"pane": pl.Int64, "rank": pl.Int64, "groups": pl.String, "x": pl.Int64}
    return layout.lift(pl.DataFrame(events, schema=schema, orient="row"))


def groups_of(frame: pl.DataFrame) -> dict[tuple[int, bool, int | None, str | None], tuple[int, int, int]]:
    others = frame.select(is_other(LAYOUT)).to_series()
    rows = zip(LAYOUT.lower(frame).rows(), others, strict=True)
    return {(pane, other, a, b): tuple(results) for (pane, a, b, *results), other in rows}


@given(dealt=st.lists(EVENTS, min_size=1, max_size=4), max_groups=st.integers(1, 12), order=st.randoms())
def test_limits_anywhere_give_what_one_limit_gives(dealt: list[list[Event]], max_groups: int, order: Random) -> None:
    limit = GroupLimit(max_groups, "other")
    at_once = limit.apply(LAYOUT, lift([event for events in dealt for event in events]))
    frames = [limit.apply(LAYOUT, lift(events)) for events in dealt]
    while len(frames) > 1:
        order.shuffle(frames)
        merged = LAYOUT.combine([frames.pop(), frames.pop()])
        frames.append(limit.apply(LAYOUT, merged) if order.random() < 0.5 else merged)
    limited = limit.apply(LAYOUT, frames[0])
    assert limited.equals(at_once, null_equal=True)
    assert limit.apply(LAYOUT, limited).equals(limited, null_equal=True)


@given(events=EVENTS, max_groups=st.integers(1, 12))
def test_kept_groups_are_exact_and_other_is_the_rest(events: list[Event], max_groups: int) -> None:
    whole = groups_of(lift(events))
    limited = groups_of(GroupLimit(max_groups, "other").apply(LAYOUT, lift(events)))
    for pane in (0, 1):
        kept = {key: states for key, states in limited.items() if key[0] == pane and not key[1]}
        folded = [states for key, states in whole.items() if key[0] == pane and key not in kept]
        assert len(kept) == min(max_groups, sum(key[0] == pane for key in whole))
        assert all(whole[key] == states for key, states in kept.items())
        assert ((pane, True, None, None) in limited) == bool(folded)
        if folded:
            counts, totals, tops = zip(*folded, strict=True)
            assert limited[pane, True, None, None] == (sum(counts), sum(totals), max(tops))


@given(panes=st.lists(EVENTS, min_size=1, max_size=8), max_groups=st.integers(1, 12))
def test_limited_panes_make_exact_windows(panes: list[list[Event]], max_groups: int) -> None:
    layout = Layout(LAYOUT.keys, LAYOUT.aggregates[:2])
    limit, size = GroupLimit(max_groups, "other"), WindowSize(50, 10)
    limited, unlimited = Consolidator(layout, [size]), Consolidator(layout, [size])
    for number, events in enumerate(panes):
        pane = number * 10
        frame = lift([(pane, *event[1:]) for event in events], layout)
        for left, right in zip(limited.add(pane, limit.apply(layout, frame)), unlimited.add(pane, frame), strict=True):
            expected = limit.apply(layout, right.frame)
            assert limit.apply(layout, left.frame).equals(expected, null_equal=True)


def test_equal_hashes_are_limited_by_their_keys_and_kept_apart_from_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def collide(columns: list[pl.Series], seed: int) -> pl.Series:  # noqa: ARG001
        return pl.Series("hash", [2**64 - 1] * len(columns[0]), dtype=pl.UInt64)

    monkeypatch.setattr(cbt.layout.layout, "key_hash", collide)
    monkeypatch.setattr(cbt.layout.group_limit, "key_hash", collide)
    events: list[Event] = [(0, key, None, 1) for key in (3, 1, None, 2, 4)]
    limited = GroupLimit(2, "other").apply(LAYOUT, lift(events))
    assert groups_of(limited) == {
        (0, False, 1, None): (1, 1, 1),
        (0, False, 2, None): (1, 1, 1),
        (0, True, None, None): (3, 3, 1),
    }
    nulls = GroupLimit(5, "other").apply(LAYOUT, LAYOUT.combine([limited, lift([(0, None, None, 7)])]))
    assert groups_of(nulls)[0, False, None, None] == (1, 7, 7)
    assert groups_of(nulls)[0, True, None, None] == (3, 3, 1)


def test_too_many_groups_are_an_error_that_says_what_to_do() -> None:
    limit = GroupLimit(3)
    within = lift([(pane, key, None, 1) for pane in (0, 60_000) for key in range(3)])
    assert limit.apply(LAYOUT, within).equals(within)
    with pytest.raises(GroupLimitError, match="4 groups in the pane or window at 60000, and the job may have 3: raise"):
        limit.apply(LAYOUT, lift([(60_000, key, None, 1) for key in range(4)]))


def test_without_keys_there_is_nothing_to_limit() -> None:
    layout = Layout([], [Aggregate("n", "count", None, "any")])
    frame = layout.lift(pl.DataFrame({"pane": [0, 10, 20]}))
    assert GroupLimit(1).apply(layout, frame).equals(frame)
    assert frame.select(is_other(layout)).to_series().to_list() == [False]


@pytest.mark.parametrize(("max_groups", "policy"), [(0, "other"), (5, "drop")])
def test_wrong_limits_are_refused(max_groups: int, policy: str) -> None:
    with pytest.raises(ValueError, match="groups are limited"):
        GroupLimit(max_groups, policy)


@pytest.mark.slow
def test_how_many_groups_were_folded_is_known_within_the_error() -> None:
    layout = Layout([Key("k", "integer")], [])
    limit, outside, trials = GroupLimit(200, "other"), 0, 200
    for trial in range(trials):
        keys = range(trial * 1000, trial * 1000 + 1000)
        limited = limit.apply(layout, layout.lift(pl.DataFrame({"pane": [0] * 1000, "k": keys})))
        folded = limit.folded(layout, limited)
        assert folded.error == pytest.approx(0.2132, abs=1e-4)
        outside += abs(folded.groups + 200 - 1000) > folded.error * 1000
    assert outside <= trials // 100


def test_few_kept_groups_tell_nothing_of_the_others() -> None:
    limit = GroupLimit(2, "other")
    frame = lift([(0, key, None, 1) for key in range(9)])
    assert limit.folded(LAYOUT, limit.apply(LAYOUT, frame)) == FoldedGroups(1, None)
    assert limit.folded(LAYOUT, frame) == FoldedGroups(0, 0.0)
