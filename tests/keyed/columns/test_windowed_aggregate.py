"""Aggregates over windows: windows are those of a model in plain Python, however events are cut into batches and
wherever the state goes meanwhile."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from driven_elements import Advance, Event, Fields, Host, Row, Step, aggregate, answer, drive, frame_of, halves
from hypothesis import given
from hypothesis import strategies as st
from seeds import seeds

from agent.programs.element_graph import EventType
from agent.runtime.function.spill import SpillArea
from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.logical_nodes import NODES, nodes_of
from query import PlanError

FIELDS: Fields = [("query", "string"), ("ad", "number"), ("clicked", "integer")]
TYPES = {"Event": EventType("Event", FIELDS)}
VALUE = "COUNT(*) AS serves, AVG(clicked) AS ctr, MAX(query) AS last"
SIZE, SLIDE = 20_000, 5_000
WINDOW = "20 SECONDS EVERY 5 SECONDS"
END = 2**63 - 1
TIMES = st.integers(0, 60_000) | st.integers(-3, 12).map(lambda n: n * SLIDE)
VALUES = st.tuples(
    st.sampled_from(["", "é", "longer than a view", None]),
    st.sampled_from([1.0, 0.5, 0.0, None]),
    st.none() | st.integers(0, 1),
)
STEPS = st.lists(st.builds(Event, st.just("Event"), TIMES, VALUES) | st.builds(Advance, TIMES), max_size=40)


def model(steps: list[Step]) -> tuple[list[set[Row]], int]:
    """The rows of each window by its end, and the events that come too late."""
    events: list[Event] = []
    over, late, found = -(10**9), 0, list[set[Row]]()
    for step in [*steps, Advance(END)]:
        if isinstance(step, Event):
            if step.time // SLIDE * SLIDE + SIZE <= over:
                late += 1
            else:
                events.append(step)
            continue
        last = min(step.to, 10**6) // SLIDE * SLIDE
        for end in range(max(over + SLIDE, -100_000), last + 1, SLIDE):
            if rows := window(events, end):
                found.append(rows)
        over = max(over, last)
    return found, late


def window(events: list[Event], end: int) -> set[Row]:
    groups = defaultdict(list)
    for event in events:
        if end - SIZE <= event.time < end:
            groups[event.values[0], event.values[1]].append(event.values)
    rows = set()
    for (text, ad), values in groups.items():
        clicks = [one[2] for one in values if one[2] is not None]
        ctr = sum(clicks) / len(clicks) if clicks else None
        rows.add((end - 1, text, ad, len(values), ctr, text, end - SIZE, end))
    return rows


def by_window(rows: list[Row]) -> list[set[Row]]:
    ends = [row[-1] for row in rows]
    assert ends == sorted(ends)
    return [{(row[0], *row[2:]) for row in rows if row[-1] == end} for end in dict.fromkeys(ends)]


@given(steps=STEPS, data=st.data())
def test_windows_are_those_of_a_model(steps: list[Step], data: Any) -> None:
    host = Host(aggregate(VALUE, FIELDS, ["query", "ad"], WINDOW), TYPES)
    drive(host, steps, data)
    host.advance(END)
    wanted, _ = model(steps)
    assert by_window(host.emitted) == wanted


@given(steps=STEPS, data=st.data())
def test_the_order_of_rows_does_not_depend_on_how_events_are_cut(steps: list[Step], data: Any) -> None:
    once, again = (Host(aggregate(VALUE, FIELDS, ["query", "ad"], WINDOW), TYPES) for _ in range(2))
    assert drive(once, steps, data) == drive(again, steps, data)
    assert {name: table.height for name, table in answer(once.runtime.take_changes).items()}.keys() == {
        "states",
        "ends",
    }


def test_late_events_are_counted_and_left_out() -> None:
    host = Host(aggregate(VALUE, FIELDS, ["query", "ad"], WINDOW), TYPES)
    host.give([Event("Event", 1000, ("a", 1.0, 1))])
    host.advance(21_000)
    late = [Event("Event", time, ("a", 1.0, 0)) for time in (-1, 0, 4999)]
    host.give([Event("Event", 5000, ("a", 1.0, 0)), *late])
    assert host.runtime.late == 3
    host.advance(END)
    ends = {row[-1]: row[4] for row in host.emitted}
    assert ends == {5000: 1, 10_000: 1, 15_000: 1, 20_000: 1, 25_000: 1}


@given(steps=STEPS, first=st.integers(0, 60_000), second=st.integers(0, 60_000))
def test_nodes_come_from_hosts_that_are_ahead_or_behind(steps: list[Step], first: int, second: int) -> None:
    """Half of the nodes move to a host with another watermark: their windows come once all the same."""
    element = aggregate(VALUE, FIELDS, ["query", "ad"], WINDOW)
    ours, theirs = Host(element, TYPES), Host(element, TYPES)
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
    rows = ours.emitted + theirs.emitted
    wanted, _ = model([*events])
    assert len(rows) == len(set(rows)), "none comes twice"
    assert sorted(map(repr, set().union(*by_window(sorted(rows, key=lambda row: row[-1]))))) == sorted(
        map(repr, set().union(*wanted))
    )


@pytest.mark.slow
def test_groups_that_do_not_fit_memory_go_to_disk(tmp_path: Path) -> None:
    room = SpillArea(1 << 20, tmp_path)
    fields: Fields = [("word", "string")]
    types = {"Event": EventType("Event", fields)}
    host = Host(aggregate("COUNT(*) AS n", fields, ["word"], "1 HOUR"), types, room)
    counted = 400_000
    for start in range(0, counted, 50_000):
        host.give([Event("Event", 1, (f"word number {number}",)) for number in range(start, start + 50_000)])
        answer(host.runtime.take_changes)
    assert any(tmp_path.rglob("*"))
    assert host.runtime.memory_bytes < 4 << 20
    host.advance(3_600_000)
    assert len(host.emitted) == counted
    assert not room.unwritten


def test_evicted_panes_are_counted_and_stay_out_after_a_failure() -> None:
    host = Host(aggregate(VALUE, FIELDS, ["query", "ad"], WINDOW), TYPES)
    host.give([Event("Event", 1000, ("a", 1.0, 1)), Event("Event", 6000, ("b", 1.0, 1))])
    host.commit()
    assert host.runtime.evict(1 << 40, 0) == 0
    bytes_before = host.runtime.memory_bytes
    assert host.runtime.evict(bytes_before - 1, 0) == 1
    host.fail_over(compacted=False)
    host.advance(END)
    assert {row[2] for row in host.emitted} == {"b"}


def test_the_state_of_a_key_is_told_by_pane() -> None:
    host = Host(aggregate(VALUE, FIELDS, ["query", "ad"], WINDOW), TYPES)
    host.give(
        [Event("Event", 1000, ("a", 1.0, 1)), Event("Event", 6000, ("a", 1.0, 0)), Event("Event", 1, ("b", 1.0, 0))]
    )
    assert host.told_of("a", "1") == {
        "states": [
            {"query": "a", "ad": 1.0, "@pane": pane, "COUNT(*)": 1, "AVG(clicked)": ctr, "MAX(query)": "a"}
            for pane, ctr in ((0, 1.0), (5000, 0.0))
        ]
    }
    assert host.told_of("c", "1") is None


@pytest.mark.parametrize("window", ["SESSION 10 SECONDS", "20 SECONDS EMIT CHANGES"])
def test_windows_without_one_size_are_refused(window: str) -> None:
    with pytest.raises(PlanError, match="element Counted: it has windows of one size each"):
        declared.check(aggregate("COUNT(*) AS n", FIELDS, ["query"], window), TYPES)


def test_big_sums_are_null() -> None:
    host = Host(aggregate("SUM(clicked) AS s, AVG(clicked) AS a", FIELDS, ["query"], "5 SECONDS"), TYPES)
    host.give([Event("Event", 1, ("a", 1.0, 2**62))] * 3)
    host.advance(END)
    assert host.emitted[0][3:5] == (None, float(2**62))


@pytest.mark.parametrize("seed", seeds(0, slow=[1]))
@pytest.mark.parametrize("guaranteed", [True, False])
def test_nodes_that_go_and_come_back_again_and_again_lose_and_double_nothing(seed: int, *, guaranteed: bool) -> None:
    chance, words = random.Random(seed), [("word", "string"), ("n", "integer")]
    types = {"Event": EventType("Event", words, guaranteed=guaranteed)}
    element = aggregate("COUNT(*) AS c, SUM(n) AS total", words, ["word"], "3 SECONDS EVERY 1 SECOND")
    hosts, alone = ([declared.runtime_of(element, types, None) for _ in range(number)] for number in (2, 1))
    emitted: dict[int, list[Any]] = {0: [], 1: [], 2: []}
    where = [0] * NODES
    used = nodes_of([pl.Series([f"w{number}" for number in range(300)])]).unique().to_list()
    for step in range(60):
        rows = frame_of(types["Event"], ["word"], [Event("Event", step * 100, (f"w{chance.randrange(300)}", step))] * 3)
        node = int(rows["@node"][0])
        for place, runtime in ((where[node], hosts[where[node]]), (2, alone[0])):
            runtime.process("Event", rows, emitted[place].extend)
        if chance.random() < 0.1:
            for place, runtime in enumerate((*hosts, *alone)):
                runtime.advance(step * 100 - 500, emitted[place].extend)
        for moved in chance.sample(used, chance.choice([0, 1, 2, 12])):
            before, where[moved] = where[moved], 1 - where[moved]
            hosts[1 - before].put(answer(lambda done, before=before, moved=moved: hosts[before].states([moved], done)))
            hosts[before].drop([moved])
        if guaranteed and chance.random() < 0.3:
            for runtime in hosts:
                nodes = answer(runtime.take_changes)["states"]["@node"].to_list()
                assert all(hosts[where[node]] is runtime for node in nodes), f"seed {seed}"
    for place, runtime in enumerate((*hosts, *alone)):
        runtime.advance(10**9, emitted[place].extend)
    rows_of = [sorted(row for one in emitted[place] for row in one.rows.iter_rows()) for place in range(3)]
    assert sorted(rows_of[0] + rows_of[1]) == rows_of[2], f"seed {seed}"
