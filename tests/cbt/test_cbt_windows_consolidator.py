"""Windows made of panes equal those of all their events at once, whatever the sizes and the panes."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import inf

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seeds import seeds

from cbt import Aggregate, ColumnFunction, Key, Layout, UserFunctions
from cbt.windows import CompleteWindow, Consolidator, WindowSize, pane_runs, subtract_frames

KEYS = [Key("k", "any")]
INVERTIBLE = [
    Aggregate("n", "count", None, "any"),
    Aggregate("values", "count", "x", "number"),
    Aggregate("total", "sum", "x", "number"),
]
LAYOUTS = {
    "invertible": Layout(KEYS, INVERTIBLE),
    "not invertible": Layout(KEYS, [*INVERTIBLE, Aggregate("top", "max", "x", "number")]),
}
PANE_MS = 10

Event = tuple[int | None, float | None]
Lowered = dict[str | None, tuple[float | None, ...]]


class OnlyCombines:
    """A layout of which nothing but its merging is known, so that windows have to go by two stacks."""

    def __init__(self, layout: Layout) -> None:
        self.empty, self.combine = layout.empty, layout.combine


def lift(layout: Layout, pane: int, events: list[Event]) -> pl.DataFrame:
    schema = {"pane": pl.Int64, "k": pl.Int64, "x": pl.Float64}
    return layout.lift(pl.DataFrame([(pane, k, x) for k, x in events], schema=schema, orient="row"))


class Model:
    """Keeps every event and computes every window from them."""

    def __init__(self, layout: Layout, sizes: list[WindowSize]) -> None:
        self.layout, self.sizes = layout, sorted(set(sizes))
        self.events: dict[int, list[Event]] = {}
        self.complete = -(10**9)

    def add(self, pane: int, events: list[Event], pane_ms: int) -> Iterator[tuple[WindowSize, int, Lowered]]:
        self.events[pane] = events
        yield from self.advance(pane + pane_ms)

    def advance(self, complete: int) -> Iterator[tuple[WindowSize, int, Lowered]]:
        candidates = {(size, start) for pane in self.events for size in self.sizes for start in size.containing(pane)}
        ended = [(s, start) for s, start in candidates if self.complete < start + s.size_ms <= complete]
        self.complete = complete
        for size, start in sorted(ended, key=lambda window: (window[1] + window[0].size_ms, window[0])):
            yield size, start, self.lowered(size, start)

    def lowered(self, size: WindowSize, start: int) -> Lowered:
        groups: dict[str | None, list[float | None]] = {}
        for pane, events in self.events.items():
            if start <= pane < start + size.size_ms:
                for k, x in events:
                    groups.setdefault(None if k is None else str(k), []).append(x)
        return {key: self._results(values) for key, values in groups.items()}

    def _results(self, all_values: list[float | None]) -> tuple[float | None, ...]:
        values = [value for value in all_values if value is not None]
        total = None
        if values:
            total = inf if inf in values else float(sum(map(Fraction, values)))
        results = (len(all_values), len(values), total, max(values, default=None))
        return results[: len(self.layout.aggregates)]


def taken(layout: Layout, windows: Iterable[CompleteWindow]) -> list[tuple[WindowSize, int, Lowered]]:
    found = []
    for window in windows:
        assert window.frame.schema == layout.schema
        assert set(window.frame["pane"]) <= {window.start_ms}
        assert window.frame["hash"].is_sorted()
        rows = layout.lower(window.frame).rows()
        lowered = {key: tuple(None if r is None else float(r) for r in results) for _, key, *results in rows}
        assert len(lowered) == len(rows), "one row a key"
        found.append((window.size, window.start_ms, lowered))
    return found


LONG_SIZES = st.lists(
    st.builds(lambda size, slide: WindowSize(size * PANE_MS, slide * PANE_MS), st.integers(1, 24), st.integers(1, 12)),
    min_size=1,
    max_size=4,
)
SIZES = st.lists(
    st.builds(lambda size, slide: WindowSize(size * PANE_MS, slide * PANE_MS), st.integers(1, 7), st.integers(1, 5)),
    min_size=1,
    max_size=3,
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, 2]), st.none() | st.integers(-999, 999).map(lambda c: c / 100) | st.just(inf)
    ),
    max_size=4,
)
STEPS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2, 5, 40]), EVENTS), max_size=10)
"""Panes that are passed over, and the events of the next one."""


@pytest.mark.parametrize("which", LAYOUTS)
@given(sizes=SIZES, first=st.integers(-9, 9), steps=STEPS)
def test_windows_equal_those_of_all_their_events(
    which: str, sizes: list[WindowSize], first: int, steps: list[tuple[int, list[Event]]]
) -> None:
    layout = LAYOUTS[which]
    model, consolidator = Model(layout, sizes), Consolidator(layout, sizes)
    pane_ms = consolidator.plan.pane_ms
    next_pane = first * pane_ms
    for distance, events in steps:
        pane = next_pane + distance * pane_ms
        next_pane = pane + pane_ms
        windows = consolidator.add(pane, lift(layout, pane, events))
        assert taken(layout, windows) == list(model.add(pane, events, pane_ms))
    assert taken(layout, consolidator.end()) == list(model.advance(10**9))


@pytest.mark.parametrize("which", LAYOUTS)
@given(sizes=LONG_SIZES, steps=st.lists(st.tuples(st.sampled_from([0] * 9 + [1, 3, 30]), EVENTS), max_size=40))
def test_windows_of_many_panes_are_made_of_each_other(
    which: str, sizes: list[WindowSize], steps: list[tuple[int, list[Event]]]
) -> None:
    layout = LAYOUTS[which]
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(pane_runs, "FOLDED_AT", 3)
        model, consolidator = Model(layout, sizes), Consolidator(layout, sizes)
        pane_ms, pane = consolidator.plan.pane_ms, 0
        for distance, events in steps:
            pane += distance * pane_ms
            windows = consolidator.add(pane, lift(layout, pane, events))
            assert taken(layout, windows) == list(model.add(pane, events, pane_ms))
            pane += pane_ms
        assert taken(layout, consolidator.end()) == list(model.advance(10**9))


@given(sizes=SIZES, panes=st.lists(EVENTS, max_size=9))
def test_both_ways_of_sliding_give_the_same_to_the_last_bit(sizes: list[WindowSize], panes: list[list[Event]]) -> None:
    layout = LAYOUTS["invertible"]
    by_differences, by_stacks = Consolidator(layout, sizes), Consolidator(OnlyCombines(layout), sizes)
    pane_ms = by_stacks.plan.pane_ms
    for number, events in enumerate(panes):
        frame = lift(layout, number * pane_ms, events)
        left = list(by_differences.add(number * pane_ms, frame))
        right = list(by_stacks.add(number * pane_ms, frame))
        assert [window.start_ms for window in left] == [window.start_ms for window in right]
        assert all(a.frame.equals(b.frame, null_equal=True) for a, b in zip(left, right, strict=True))


class DoubleSum(ColumnFunction):
    """A sum of doubles as a user may write it: what is added and taken off again leaves a trace."""

    argument_type, result_type = "number", "number"
    state: Mapping[str, pl.DataType] = {"sum": pl.Float64()}

    def lift(self, values: pl.Expr) -> Mapping[str, pl.Expr]:
        return {"sum": values.sum()}

    def combine(self, states: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr]:
        return {"sum": states["sum"].sum()}

    def lower(self, states: Mapping[str, pl.Expr]) -> pl.Expr:
        return states["sum"]

    def subtract(self, whole: Mapping[str, pl.Expr], part: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr]:
        return {"sum": whole["sum"] - part["sum"]}


def test_states_of_doubles_are_never_taken_off() -> None:
    functions = UserFunctions()
    functions.register("doubles", DoubleSum())
    layout = Layout([], [Aggregate("total", "doubles", "x", "number")], functions=functions)
    windows = Consolidator(layout, [WindowSize(40, 10)])
    totals = []
    for number, total in enumerate([0.0, 0.0, 1e300, 0.1, inf, 0.1, 0.0, 0.0, 0.2]):
        frame = pl.DataFrame([[number * 10], [0], [total]], schema=layout.schema)
        totals += [window.frame["total.sum"].item() for window in windows.add(number * 10, frame)]
    assert totals == [0.0, 0.0, 1e300, 1e300, inf, inf, inf, inf, 0.1 + 0.2]


@given(
    sizes=LONG_SIZES,
    zeros=st.integers(0, 40),
    totals=st.lists(st.integers(-9, 9), max_size=30),
)
def test_nothing_is_taken_off_from_the_first_pane_on_that_would_leave_a_trace(
    sizes: list[WindowSize], zeros: int, totals: list[int]
) -> None:
    functions = UserFunctions()
    functions.register("doubles", DoubleSum())
    layout = Layout([], [Aggregate("total", "doubles", "x", "number")], functions=functions)
    consolidator = Consolidator(layout, sizes)
    pane_ms, values = consolidator.plan.pane_ms, [0.0] * zeros + [float(one) for one in totals]
    for number, value in enumerate(values):
        frame = pl.DataFrame([[number * pane_ms], [0], [value]], schema=layout.schema)
        for window in consolidator.add(number * pane_ms, frame):
            first = max(0, window.start_ms // pane_ms)
            assert window.frame["total.sum"].to_list() == [sum(values[first : window.end_ms // pane_ms])]


def combines(layout: Layout, size: WindowSize, panes: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of combines for a number of panes of one event."""
    counts = 0
    combine = Layout.combine

    def counted(self: Layout, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
        nonlocal counts
        counts += 1
        return combine(self, frames)

    consolidator = Consolidator(layout, [size])
    pane_ms = consolidator.plan.pane_ms
    frames = [lift(layout, pane * pane_ms, [(1, 1.0)]) for pane in range(panes)]
    with monkeypatch.context() as patched:
        patched.setattr(Layout, "combine", counted)
        for pane, frame in enumerate(frames):
            assert len(list(consolidator.add(pane * pane_ms, frame))) == 1
    return counts


@pytest.mark.parametrize("slices", seeds(2, slow=[10, 60]))
def test_stacks_need_three_combines_a_slice_whatever_the_size(slices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = combines(LAYOUTS["not invertible"], WindowSize(slices * 10, 10), 120, monkeypatch)
    assert counts <= 3 * 120


@pytest.mark.parametrize("slices", seeds(10, 60, slow=[4]))
def test_differences_need_one_combine_a_slice(slices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert combines(LAYOUTS["invertible"], WindowSize(slices * 10, 10), 120, monkeypatch) < 120


@pytest.mark.parametrize("which", LAYOUTS)
def test_tumbling_windows_need_one_combine_a_window(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, counts = LAYOUTS[which], 0
    consolidator = Consolidator(layout, [WindowSize.tumbling(60), WindowSize.tumbling(10)])
    frames = [lift(layout, pane * 10, [(1, 1.0)]) for pane in range(60)]
    combine = Layout.combine

    def counted(self: Layout, parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
        nonlocal counts
        counts += 1
        return combine(self, parts)

    monkeypatch.setattr(Layout, "combine", counted)
    windows = [window for pane, frame in enumerate(frames) for window in consolidator.add(pane * 10, frame)]
    assert len(windows) == 60 + 10
    assert counts == 10, "one for each long window, none for a window of one pane"


@pytest.mark.parametrize("which", LAYOUTS)
def test_what_is_held_is_bounded(which: str) -> None:
    layout = LAYOUTS[which]
    consolidator = Consolidator(layout, [WindowSize(100, 10)])
    sizes = []
    for pane in range(100):
        list(consolidator.add(pane * 10, lift(layout, pane * 10, [(pane % 7, 1.0)])))
        sizes.append(consolidator.memory_bytes)
        assert consolidator.frames <= 10 + 3
    assert max(sizes[30:60]) == max(sizes[60:])
    for pane in range(100, 120):
        list(consolidator.add(pane * 10, layout.empty()))
    assert consolidator.memory_bytes < 500, "empty frames take a few bytes"


@pytest.mark.parametrize("which", LAYOUTS)
def test_panes_that_are_passed_over_cost_no_more_than_one_window(which: str) -> None:
    layout = LAYOUTS[which]
    consolidator = Consolidator(layout, [WindowSize(30, 10)])
    events: list[Event] = [(1, 1.0)]
    windows = taken(layout, consolidator.add(0, lift(layout, 0, events)))
    windows += taken(layout, consolidator.add(10**15, lift(layout, 10**15, events)))
    windows += taken(layout, consolidator.end())
    starts = [start for _, start, _ in windows]
    assert starts == [-20, -10, 0, 10**15 - 20, 10**15 - 10, 10**15]


def test_a_key_without_values_stays_as_long_as_it_is_in_the_window() -> None:
    layout = LAYOUTS["invertible"]
    consolidator = Consolidator(layout, [WindowSize(40, 10)])
    panes: list[list[Event]] = [[(1, None)], [(2, 1.0)], [], [], []]
    windows = [
        w for n, events in enumerate(panes) for w in taken(layout, consolidator.add(10 * n, lift(layout, 0, events)))
    ]
    assert [set(lowered) for *_, lowered in windows] == [{"1"}, *[{"1", "2"}] * 3, {"2"}]


def test_misuse_is_refused() -> None:
    layout = LAYOUTS["invertible"]
    consolidator = Consolidator(layout, [WindowSize(20, 10)])
    frame = lift(layout, 0, [(1, 1.0)])
    unfinished = consolidator.add(0, frame)
    with pytest.raises(RuntimeError, match="windows left to take"):
        consolidator.add(10, frame)
    list(unfinished)
    with pytest.raises(ValueError, match="5 is no pane: they start at multiples of 10 ms"):
        consolidator.add(5, frame)
    with pytest.raises(ValueError, match="pane 0 is before 10"):
        consolidator.add(0, frame)
    list(consolidator.end())
    with pytest.raises(RuntimeError, match="have ended"):
        consolidator.add(10, frame)


def test_only_what_was_added_can_be_subtracted() -> None:
    layout = LAYOUTS["invertible"]
    whole, part = lift(layout, 0, [(1, 1.0), (None, 2.0), (None, 2.0)]), lift(layout, 0, [(None, 2.0)])
    assert layout.lower(subtract_frames(layout, whole, part)).sort("k").rows() == [
        (0, None, 1, 1, 2),
        (0, "1", 1, 1, 1),
    ]
    with pytest.raises(ValueError, match="was never added"):
        subtract_frames(layout, part, whole)
    with pytest.raises(ValueError, match="Extreme cannot be subtracted"):
        subtract_frames(LAYOUTS["not invertible"], whole, part)
