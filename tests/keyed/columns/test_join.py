"""Joins: rows are those of a model in plain Python, however events are cut and wherever the state goes meanwhile."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from driven_elements import Advance, Event, Fields, Host, Row, Step, answer, drive, halves
from hypothesis import given
from hypothesis import strategies as st
from seeds import seeds

from agent.programs.element_graph import Element, ElementInput, EventType
from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.elements import join as join_module
from query import PlanError

SERVE: Fields = [("serve", "string"), ("ad", "integer"), ("user", "integer")]
CLICK: Fields = [("serve", "string"), ("ad", "integer"), ("x", "number")]
TYPES = {"Serve": EventType("Serve", SERVE), "Click": EventType("Click", CLICK)}
WITHIN, END = 10, 2**63 - 1
TIMES = st.integers(0, 60)
KEYS = st.sampled_from(["a", "a", "é longer than a view", None]), st.sampled_from([1, 1, 2**60, None])
EVENTS = st.builds(Event, st.just("Serve"), TIMES, st.tuples(*KEYS, st.integers(0, 3))) | st.builds(
    Event, st.just("Click"), TIMES, st.tuples(*KEYS, st.sampled_from([0.5, None]))
)
STEPS = st.lists(EVENTS | EVENTS | EVENTS | st.builds(Advance, TIMES), max_size=40)


def join(mode: str = "first", *, outer: bool = True, within_ms: int = WITHIN) -> Element:
    inputs = [ElementInput("Serve", ["serve", "ad"]), ElementInput("Click", ["serve", "ad"])]
    options = {"left": "Serve", "right": "Click", "on": ["serve", "ad"], "within_ms": within_ms, "mode": mode}
    more = {"flag": "clicked"} if mode == "first" else {"outer": outer}
    return Element("Seen", "join", inputs, output="Seen", options=options | more)


def model(steps: list[Step], mode: str, *, outer: bool) -> tuple[list[Row], int]:
    """What is emitted, without the logical node, and how many events come too late."""
    before, late = -(10**9), 0
    waiting: dict[str, list[list[Any]]] = {"Serve": [], "Click": []}  # events, and whether they have been matched
    found: list[Row] = []
    for step in [*steps, Advance(END)]:
        if isinstance(step, Advance):
            before = max(before, min(step.to, 10**6) - WITHIN)
            gone = [one for one in waiting["Serve"] if one[0].time < before]
            for event, matched in sorted(gone, key=lambda one: (one[0].time, node(one[0]))):
                if mode == "first":
                    found.append((event.time, *event.values, 0))
                elif outer and not matched:
                    found.append((event.time, *event.values, None, None, None))
            for side, events in waiting.items():
                waiting[side] = [one for one in events if one[0].time >= before]
            continue
        if step.time < before:
            late += 1
            continue
        own, others = ("Serve", "Click") if step.type == "Serve" else ("Click", "Serve")
        mine = [step, False]
        pairs = [one for one in waiting[others] if matches(one[0], step)]
        if mode == "first":
            serves = [mine] if step.type == "Serve" and pairs else pairs if step.type == "Click" else []
            found += [(serve.time, *serve.values, 1) for serve, _ in serves]
            waiting["Serve"] = [one for one in waiting["Serve"] if all(one is not other for other in serves)]
            waiting[own] += [mine] if all(mine is not one for one in serves) else []
            continue
        waiting[own].append(mine)
        for other in pairs:
            mine[1] = other[1] = True
            serve, click = (step, other[0]) if step.type == "Serve" else (other[0], step)
            found.append((serve.time, *serve.values, *click.values))
    return found, late


def matches(event: Event, other: Event) -> bool:
    same = event.values[:2] == other.values[:2] and None not in event.values[:2]
    return same and abs(event.time - other.time) <= WITHIN


def node(event: Event) -> int:
    from driven_elements import frame_of

    return int(frame_of(TYPES[event.type], ["serve", "ad"], [event])["@node"][0])


def without_node(rows: list[Row]) -> list[Row]:
    return [(row[0], *row[2:]) for row in rows]


@pytest.mark.parametrize(("mode", "outer"), seeds(("first", True), ("all", False), slow=[("all", True)]))
@given(steps=STEPS, data=st.data())
def test_rows_are_those_of_a_model(mode: str, outer: bool, steps: list[Step], data: Any) -> None:
    host = Host(join(mode, outer=outer), TYPES)
    drive(host, steps, data)
    host.advance(END)
    wanted, _ = model(steps, mode, outer=outer)
    assert without_node(host.emitted) == wanted
    assert host.runtime.elements == 0


@pytest.mark.parametrize(("mode", "outer"), seeds(("first", True), ("all", False), slow=[("all", True)]))
@given(steps=STEPS, data=st.data())
def test_ordered_joins_do_not_depend_on_how_types_are_mixed(
    mode: str, outer: bool, steps: list[Step], data: Any
) -> None:
    host = Host(msgspec.structs.replace(join(mode, outer=outer), ordered=True), TYPES)
    late = 60  # a watermark that makes nothing late
    steps = [step for step in steps if isinstance(step, Event) or step.to < late]
    events = sorted((step for step in steps if isinstance(step, Event)), key=lambda event: event.time)
    marks = sorted(step.to for step in steps if isinstance(step, Advance))
    mixed: list[Step] = []
    for start, end in pairwise([-1, *marks, END]):
        span = [event for event in events if start <= event.time < end]
        mixed += sorted(span, key=lambda event: event.type, reverse=data.draw(st.booleans(), "serves first"))
        mixed.append(Advance(end))
    drive(host, mixed, data)
    assert host.runtime.elements == host.runtime.late == 0
    wanted: list[Row] = []
    serves = [event for event in events if event.type == "Serve"]
    for serve in sorted(serves, key=lambda event: (event.time, node(event))):
        clicks = [one for one in events if one.type == "Click" and matches(serve, one)]
        row = (serve.time, *serve.values)
        if mode == "first":
            wanted.append((*row, int(bool(clicks))))
        else:
            wanted += [(*row, *click.values) for click in clicks]
            wanted += [(*row, None, None, None)] if outer and not clicks else []
    assert without_node(host.emitted) == wanted


@given(steps=STEPS)
def test_late_events_are_counted(steps: list[Step]) -> None:
    host = Host(join(), TYPES)
    for step in steps:
        if isinstance(step, Advance):
            host.advance(step.to)
        else:
            host.give([step])
    assert host.runtime.late == model(steps, "first", outer=True)[1]


@given(steps=STEPS, first=TIMES, second=TIMES)
def test_nodes_come_from_hosts_that_are_ahead_or_behind(steps: list[Step], first: int, second: int) -> None:
    ours, theirs = Host(join(), TYPES), Host(join(), TYPES)
    events = [step for step in steps if isinstance(step, Event)]
    for event in events:
        ours.give([event])
    ours.advance(first)
    theirs.advance(second)
    moved, _ = halves()
    theirs.runtime.put(answer(lambda done: ours.runtime.states(moved, done)))
    ours.runtime.drop(moved)
    for host in (ours, theirs):
        host.advance(END)
    wanted, _ = model([*events, Advance(first)], "first", outer=True)
    assert sorted(map(repr, without_node(ours.emitted + theirs.emitted))) == sorted(map(repr, wanted))


def test_a_hot_key_costs_no_more_than_what_it_emits() -> None:
    host = Host(join(within_ms=10**6), TYPES)
    clicks = [Event("Click", time, ("a", 1, None)) for time in range(20_000)]
    host.give(clicks)
    for start in range(0, 20_000, 5000):
        host.give([Event("Serve", time, ("a", 1, 0)) for time in range(start, start + 5000)])
    assert len(host.emitted) == 20_000
    assert host.runtime.elements == 20_000, "clicks alone wait"


def test_pairs_beyond_the_bound_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_module, "PAIRS_MAX", 10)
    host = Host(join("all"), TYPES)
    host.give([Event("Click", 1, ("a", 1, None))] * 4)
    host.give([Event("Serve", 1, ("a", 1, number)) for number in range(3)])
    assert len(host.emitted) == 8
    assert host.runtime.dropped == 4
    host.give([Event("Serve", 1, ("a", 1, 3))])
    assert len(host.emitted) == 12


def test_a_large_batch_is_taken_in_parts_before_pairs_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_module, "PAIRS_MAX", 10)
    monkeypatch.setattr(join_module, "PART_ROWS", 2)
    whole, parted = Host(join("all"), TYPES), Host(join("all"), TYPES)
    for host in (whole, parted):
        host.give([Event("Click", 1, ("a", 1, None))] * 4)
    serves = [Event("Serve", 1, ("a", 1, number)) for number in range(7)]
    whole.give(serves)
    for serve in serves:
        parted.give([serve])
    assert whole.runtime.dropped == 0
    assert whole.emitted == parted.emitted


def test_many_events_are_compacted_as_they_leave() -> None:
    host = Host(join(), TYPES)
    for start in range(0, 100_000, 5000):
        host.give([Event("Serve", time, (f"serve {time}", 1, 0)) for time in range(start, start + 5000)])
        host.give([Event("Click", time + 3, (f"serve {time}", 1, None)) for time in range(start, start + 5000, 10)])
        host.advance(start + 5000)
    assert sum(row[-1] for row in host.emitted) == 100_000 // 10
    assert host.runtime.memory_bytes < 2 << 20


def test_the_oldest_are_evicted_where_there_is_no_room_and_counted() -> None:
    host = Host(join(), TYPES)
    host.give([Event("Serve", time, (f"serve {time}", 1, 0)) for time in range(20_000)])
    room = host.runtime.memory_bytes // 2
    evicted = host.runtime.evict(room, 0)
    assert host.runtime.memory_bytes <= room
    assert evicted == host.runtime.evicted == 20_000 - host.runtime.elements
    host.fail_over(compacted=True)
    host.advance(END)
    assert [row[0] for row in host.emitted] == list(range(evicted, 20_000))


def test_the_state_of_a_key_is_told() -> None:
    host = Host(join(), TYPES)
    host.give([Event("Serve", 5, ("a", 1, 7))])
    told = host.told_of("a", "1")
    assert told == {"left": [{"@id": 0, "@time": 5, "serve": "a", "ad": 1, "user": 7}]}
    assert host.told_of("b", "1") is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"on": ["user"]}, "names the field 'user', and the fields of Click are serve, ad, x"),
        ({"on": [["user", "x"]]}, "compares user, which is integer, with x, which is number"),
        ({"on": []}, "joins on no field"),
        ({"on": [1]}, "joins on 1: name a field"),
        ({"within_ms": -1}, "has no `within_ms` from 0 ms to 366 days"),
        ({"mode": "last"}, "has the mode 'last': it is first or all"),
        ({"left": "Click", "right": "Serve"}, "joins two types, its left and its right one, in this order"),
        ({"flag": "user"}, "emits two fields called user"),
        ({"flag": ""}, "has no name for its flag"),
    ],
)
def test_bad_options_are_refused(changes: dict[str, Any], problem: str) -> None:
    element = msgspec.structs.replace(join(), options=join().options | changes)
    with pytest.raises(PlanError, match=f"element Seen: it .*{problem}"):
        declared.check(element, TYPES)


def test_the_right_fields_of_pairs_have_a_prefix() -> None:
    assert [name for name, _ in declared.output_fields(join("all"), TYPES)] == [
        "serve",
        "ad",
        "user",
        "Click_serve",
        "Click_ad",
        "Click_x",
    ]
