"""Windows made of panes equal those of all their events at once, whatever the sizes, the panes and what comes late."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import inf

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import Aggregate, Key, Layout
from cbt.windows import Consolidator, Window, WindowSize

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
    frames = [pl.DataFrame({"pane": [pane], "k": [k], "x": [x]}) for k, x in events]
    return layout.combine(layout.lift(frame) for frame in frames)


class Model:
    """Keeps every event and computes every window from them."""

    def __init__(self, layout: Layout, sizes: list[WindowSize], retain_ms: int) -> None:
        self.layout, self.sizes, self.retain_ms = layout, sorted(set(sizes)), retain_ms
        self.events: dict[int, list[Event]] = {}
        self.complete = -(10**9)
        self.revisions: dict[tuple[WindowSize, int], int] = {}
        self.missed = 0

    def add(self, pane: int, events: list[Event], pane_ms: int) -> Iterator[tuple[WindowSize, int, int, Lowered]]:
        self.events[pane] = events
        yield from self.advance(pane + pane_ms)

    def advance(self, complete: int) -> Iterator[tuple[WindowSize, int, int, Lowered]]:
        candidates = {(size, start) for pane in self.events for size in self.sizes for start in size.containing(pane)}
        ended = [(s, start) for s, start in candidates if self.complete < start + s.size_ms <= complete]
        self.complete = complete
        for size, start in sorted(ended, key=lambda window: (window[1] + window[0].size_ms, window[0])):
            self.revisions[size, start] = 0
            yield size, start, 0, self.lowered(size, start)

    def revise(self, pane: int, events: list[Event]) -> Iterator[tuple[WindowSize, int, int, Lowered]]:
        self.events[pane] = self.events.get(pane, []) + events
        for size in self.sizes:
            for start in size.containing(pane):
                end = start + size.size_ms
                if end > self.complete:
                    continue
                if end + self.retain_ms <= self.complete:
                    self.missed += 1
                    continue
                self.revisions[size, start] = self.revisions.get((size, start), -1) + 1
                yield size, start, self.revisions[size, start], self.lowered(size, start)

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


def taken(layout: Layout, windows: Iterable[Window]) -> list[tuple[WindowSize, int, int, Lowered]]:
    found = []
    for window in windows:
        assert window.frame.schema == layout.schema
        assert set(window.frame["pane"]) <= {window.start_ms}
        assert window.frame["hash"].is_sorted()
        rows = layout.lower(window.frame).rows()
        lowered = {key: tuple(None if r is None else float(r) for r in results) for _, key, *results in rows}
        assert len(lowered) == len(rows), "one row a key"
        found.append((window.size, window.start_ms, window.revision, lowered))
    return found


SIZES = st.lists(
    st.builds(lambda size, slide: WindowSize(size * PANE_MS, slide * PANE_MS), st.integers(1, 7), st.integers(1, 5)),
    min_size=1,
    max_size=3,
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, 2]), st.none() | st.integers(-999, 999).map(lambda c: c / 100) | st.just(inf)
    ),
    max_size=5,
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "add", "revise"]), st.sampled_from([0, 0, 0, 1, 2, 5, 40]), EVENTS),
    max_size=14,
)


@pytest.mark.parametrize("which", LAYOUTS)
@given(sizes=SIZES, retain_panes=st.integers(0, 6), first=st.integers(-9, 9), steps=STEPS)
def test_windows_equal_those_of_all_their_events(
    which: str, sizes: list[WindowSize], retain_panes: int, first: int, steps: list[tuple[str, int, list[Event]]]
) -> None:
    layout = LAYOUTS[which]
    model = Model(layout, sizes, retain_panes * PANE_MS)
    consolidator = Consolidator(layout, sizes, retain_ms=retain_panes * PANE_MS)
    pane_ms = consolidator.plan.pane_ms
    next_pane = first * pane_ms
    for action, distance, events in steps:
        if action == "add":
            pane = next_pane + distance * pane_ms
            next_pane = pane + pane_ms
            windows = consolidator.add(pane, lift(layout, pane, events))
            assert taken(layout, windows) == list(model.add(pane, events, pane_ms))
        elif events and next_pane > first * pane_ms:
            pane = next_pane - (distance + 1) * pane_ms
            windows = consolidator.revise(pane, lift(layout, pane, events))
            assert taken(layout, windows) == list(model.revise(pane, events))
        assert consolidator.missed == model.missed
    assert taken(layout, consolidator.end()) == list(model.advance(10**9))
