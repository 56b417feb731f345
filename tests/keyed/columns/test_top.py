"""Tops: lists are those of a model in plain Python, however events are cut and wherever the state goes meanwhile."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from driven_elements import Advance, Event, Fields, Host, Row, Step, answer, drive, halves
from hypothesis import given
from hypothesis import strategies as st

from agent.programs.element_graph import Element, ElementInput, EventType
from agent.runtime.keyed.elements import declared
from query import PlanError

FIELDS: Fields = [("sort", "integer"), ("word", "string"), ("n", "number")]
TYPES = {"Event": EventType("Event", FIELDS)}
EVERY, K, END = 1000, 2, 2**63 - 1
TIMES = st.integers(0, 6_000) | st.integers(-1, 6).map(lambda n: n * EVERY)
NUMBERS = st.none() | st.integers(0, 3).map(float) | st.sampled_from([math.nan, math.inf, -1.5, 1e300])
VALUES = st.tuples(st.integers(1, 2), st.sampled_from(["", "a", "é", "longer than a view", None]), NUMBERS)
STEPS = st.lists(st.builds(Event, st.just("Event"), TIMES, VALUES) | st.builds(Advance, TIMES), max_size=40)


def top(key: list[str], k: int = K, **more: Any) -> Element:
    read = ElementInput("Event", key, None if key else 1234)
    options = {"of": "word", "by": "n", "k": k}
    return Element("Best", "top", [read], output="Best", options=options, **({"every_s": EVERY / 1000} | more))


def model(steps: list[Step], *, keyed: bool) -> list[Row]:
    last: dict[int, dict[str, float | None]] = {}
    changed: dict[int, dict[str, int]] = {}  # by key and word, the time of the last event
    shown, found = -(10**9), list[Row]()
    for step in steps:
        if isinstance(step, Event):
            sort, word, n = step.values
            if word is not None:
                key = sort if keyed else 0
                last.setdefault(key, {})[word] = n if n is not None and math.isfinite(n) else None
                changed.setdefault(key, {})[word] = step.time
        elif (boundary := min(step.to, 10**12) // EVERY * EVERY) > shown:
            rows = []
            for key, words in changed.items():
                first = max(max(words.values()) // EVERY * EVERY + EVERY, shown + EVERY)
                ranked = sorted((-n, word) for word, n in last[key].items() if n is not None)
                rows += [(min(first, boundary) - 1, key, word, -n) for n, word in ranked[:K]]
            found += sorted(rows, key=lambda row: row[:2])
            shown, changed = boundary, {}
    return [row if keyed else (row[0], *row[2:]) for row in found]


@pytest.mark.parametrize("key", [["sort"], []])
@given(steps=STEPS, data=st.data())
def test_lists_are_those_of_a_model(key: list[str], steps: list[Step], data: Any) -> None:
    host = Host(top(key), TYPES)
    drive(host, steps, data)
    host.advance(END)
    assert [(row[0], *row[2:]) for row in host.emitted] == model([*steps, Advance(END)], keyed=bool(key))


def test_nothing_comes_unless_something_has_changed() -> None:
    host = Host(top(["sort"]), TYPES)
    host.give([Event("Event", 5, (1, "a", 1.0)), Event("Event", 6, (2, "b", 1.0))])
    host.advance(1000)
    host.advance(2000)
    host.give([Event("Event", 2005, (2, "c", 1.0))])
    host.advance(3000)
    assert [(row[0], *row[2:]) for row in host.emitted] == [
        (999, 1, "a", 1.0),
        (999, 2, "b", 1.0),
        (2999, 2, "b", 1.0),
        (2999, 2, "c", 1.0),
    ]


@given(steps=STEPS, first=st.integers(0, 6_000), second=st.integers(0, 6_000))
def test_nodes_come_from_hosts_that_are_ahead_or_behind(steps: list[Step], first: int, second: int) -> None:
    ours, theirs = Host(top(["sort"]), TYPES), Host(top(["sort"]), TYPES)
    events = [step for step in steps if isinstance(step, Event)]
    if events:
        ours.give(events)
    ours.advance(first)
    theirs.advance(second)
    moved, _ = halves()
    theirs.runtime.put(answer(lambda done: ours.runtime.states(moved, done)))
    ours.runtime.drop(moved)
    for host in (ours, theirs):
        host.advance(END)
    rows = sorted((row[0], *row[2:]) for row in ours.emitted + theirs.emitted)
    assert rows == sorted(model([*events, Advance(first), Advance(END)], keyed=True))


def test_names_past_their_time_to_live_leave_the_list_and_are_counted() -> None:
    host = Host(top(["sort"], ttl_s=2.0), TYPES)
    host.give([Event("Event", 5, (1, "old", 9.0)), Event("Event", 2500, (1, "young", 1.0))])
    host.advance(4000)
    host.give([Event("Event", 4001, (1, "young", 2.0))])
    host.advance(5000)
    assert [row[2:] for row in host.emitted] == [(1, "old", 9.0), (1, "young", 1.0), (1, "young", 2.0)]
    assert host.runtime.evicted == 1
    told = host.told_of("1")
    assert [(row["word"], row["value"]) for row in told["states"]] == [("young", 2.0)]
    assert host.told_of("2") is None


def test_the_least_recent_are_evicted_where_there_is_no_room() -> None:
    host = Host(top(["sort"]), TYPES)
    host.give([Event("Event", time, (1, f"word {time}", float(-time))) for time in range(20_000)])
    room = host.runtime.memory_bytes // 2
    evicted = host.runtime.evict(room, 0)
    host.commit()
    assert host.runtime.memory_bytes <= room
    host.advance(END)
    assert host.emitted[0][3] == f"word {evicted}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"options": {"of": "word", "by": "word", "k": 1}}, "orders by word, which is no number"),
        ({"options": {"of": "word", "by": "n", "k": 0}}, "has no `k` from 1 to 10,000"),
        ({"options": {"of": "x", "by": "n", "k": 1}}, "names the field 'x', and the fields of Event are sort, word, n"),
        ({"every_s": None}, "has no `every_s`"),
        ({"inputs": [ElementInput("Event", None)]}, "needs a key: give one for Event"),
    ],
)
def test_bad_options_are_refused(changes: dict[str, Any], problem: str) -> None:
    element = msgspec.structs.replace(top(["sort"]), **changes)
    with pytest.raises(PlanError, match=f"element Best: it .*{problem}"):
        declared.check(element, TYPES)
