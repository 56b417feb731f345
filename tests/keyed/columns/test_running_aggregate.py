"""Aggregates without windows: the value after each event is that of a model in plain Python, however events are cut
into batches and wherever the state goes meanwhile."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from driven_elements import Event, Fields, Host, Row, aggregate, answer, drive, frame_of
from hypothesis import given
from hypothesis import strategies as st

from agent.programs.element_graph import EventType
from agent.runtime.keyed.elements import declared
from query import PlanError

FIELDS: Fields = [("word", "string"), ("n", "integer"), ("x", "number"), ("yes", "boolean")]
WORDS = st.sampled_from(["", "a", "b", "é", "😀 long enough for no view", None])
INTEGERS = st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.none() | st.floats() | st.integers(-3, 3).map(float)
EVENTS = st.lists(
    st.builds(
        Event, st.just("Event"), st.integers(0, 10_000), st.tuples(WORDS, INTEGERS, NUMBERS, st.none() | st.booleans())
    ),
    max_size=40,
)


def types_of(fields: Fields = FIELDS) -> dict[str, EventType]:
    return {"Event": EventType("Event", fields)}


class Model:
    """What one key has seen."""

    def __init__(self) -> None:
        self.rows = 0
        self.integers: list[int] = []
        self.numbers: list[float] = []
        self.sum = 0.0
        self.truths: list[bool] = []

    def take(self, values: Row) -> Row:
        _, n, x, yes = values
        self.rows += 1
        self.integers += [] if n is None else [n]
        self.truths += [] if yes is None else [yes]
        if x is not None:
            self.numbers.append(x + 0.0)
            self.sum += x
        total, count = sum(self.integers), len(self.integers)
        return (
            self.rows,
            count,
            total if count and -(2**63) <= total < 2**63 else None,
            total / count if count else None,
            finite(self.sum) if self.numbers else None,
            finite(self.sum / len(self.numbers)) if self.numbers else None,
            min(self.integers, default=None),
            finite(min(self.numbers, key=lambda x: (math.isnan(x), x), default=None)),
            finite(max(self.numbers, key=lambda x: (math.isnan(x), x), default=None)),
        )


def finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


VALUE = (
    "COUNT(*) AS c, COUNT(n) AS cn, SUM(n) AS sn, AVG(n) AS an, SUM(x) AS sx, AVG(x) AS ax, MIN(n) AS mn, "
    "MIN(x) AS mx, MAX(x) AS gx"
)


@given(events=EVENTS, data=st.data())
def test_values_after_each_event_are_those_of_a_model(events: list[Event], data: Any) -> None:
    host = Host(aggregate(VALUE, FIELDS, ["word"]), types_of())
    found = drive(host, events, data)
    models: dict[Any, Model] = {}
    wanted = [(e.time, e.values[0], *models.setdefault(e.values[0], Model()).take(e.values)) for e in events]
    assert len(found) == len(wanted)
    for (time, _, *fields), row in zip(found, wanted, strict=True):
        assert (time, *fields) == row
    assert host.runtime.elements == len(models)


@given(events=EVENTS, data=st.data())
def test_keys_of_several_columns_and_of_numbers(events: list[Event], data: Any) -> None:
    host = Host(aggregate("COUNT(*) AS c", FIELDS, ["x", "yes"]), types_of())
    counts: dict[Any, int] = {}
    for found, event in zip(drive(host, events, data), events, strict=True):
        _, _, x, yes = event.values
        key = (0.0 if x == 0 else str(x), yes)
        counts[key] = counts.get(key, 0) + 1
        assert found[-1] == counts[key]


def test_an_element_without_a_key_counts_everything() -> None:
    host = Host(aggregate("COUNT(*) AS c, MAX(n) AS m", FIELDS, []), types_of())
    host.give([Event("Event", 5, ("a", 3, None, None)), Event("Event", 6, ("b", 1, None, None))])
    assert [row[2:] for row in host.emitted] == [(1, 3), (2, 3)]


def test_expressions_of_aggregates_are_computed() -> None:
    host = Host(aggregate("SUM(n) / COUNT(*) AS mean, 2 * MAX(n) AS twice", FIELDS, ["word"]), types_of())
    host.give([Event("Event", 5, ("a", 3, None, None)), Event("Event", 6, ("a", 2**62, None, None))])
    assert [row[3:] for row in host.emitted] == [(3.0, 6), ((3 + 2**62) / 2, None)]


def test_elements_past_their_time_to_live_begin_anew_and_are_counted() -> None:
    host = Host(aggregate("COUNT(*) AS c", FIELDS, ["word"], ttl_s=1.0), types_of())
    host.give([Event("Event", 0, ("old", 1, None, None)), Event("Event", 900, ("young", 1, None, None))])
    host.advance(1500)
    host.fail_over(compacted=True)
    host.give([Event("Event", 1500, ("old", 1, None, None)), Event("Event", 1500, ("young", 1, None, None))])
    assert [row[3] for row in host.emitted] == [1, 1, 1, 2]


def test_the_least_recent_are_evicted_where_there_is_no_room() -> None:
    host = Host(aggregate("COUNT(*) AS c", FIELDS, ["word"]), types_of())
    host.give([Event("Event", time, (f"word {time}", 1, None, None)) for time in range(20_000)])
    room = host.runtime.memory_bytes // 2
    evicted = host.runtime.evict(room, 0)
    host.commit()
    assert host.runtime.memory_bytes <= room
    assert 0 < evicted < 20_000
    assert host.runtime.elements == 20_000 - evicted
    left = answer(lambda done: host.runtime.states(range(1024), done))["states"]["word"].to_list()
    assert sorted(left) == sorted(f"word {time}" for time in range(evicted, 20_000))
    host.fail_over(compacted=True)
    assert host.runtime.elements == 20_000 - evicted


def test_the_state_of_a_key_is_told() -> None:
    host = Host(aggregate("COUNT(*) AS c", FIELDS, ["word"]), types_of())
    host.give([Event("Event", 7, ("a", 1, None, None)), Event("Event", 8, ("b", 1, None, None))])
    assert host.told_of("a") == {"states": [{"word": "a", "@seen": 7, "a0.n": 1}]}
    assert host.told_of("c") is None


def test_without_a_guarantee_no_changes_are_kept() -> None:
    element, types = (
        aggregate("COUNT(*) AS c", FIELDS, ["word"]),
        {"Event": EventType("Event", FIELDS, guaranteed=False)},
    )
    runtime = declared.runtime_of(element, types, None)
    runtime.process(
        "Event", frame_of(types["Event"], ["word"], [Event("Event", 1, ("a", 1, None, None))]), lambda _: None
    )
    assert answer(runtime.take_changes) == {}


@pytest.mark.parametrize("value", ["COUNT(DISTINCT n) AS c", "MIN(word) AS m", "APPROX_MEDIAN(n) AS s"])
def test_what_cannot_be_told_event_by_event_is_refused(value: str) -> None:
    element = aggregate(value, FIELDS, ["word"])
    with pytest.raises(PlanError, match=r"element Counted: it has no window and .*give it a window"):
        declared.check(element, types_of())


def test_an_empty_batch_changes_nothing() -> None:
    host = Host(aggregate("COUNT(*) AS c", FIELDS, ["word"]), types_of())
    host.runtime.process("Event", frame_of(types_of()["Event"], ["word"], []), host._take)
    assert host.emitted == []
    assert isinstance(answer(host.runtime.take_changes)["states"], pl.DataFrame)
