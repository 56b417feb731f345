"""Exchanges emit each event once, as it came, however events are cut and wherever their logical nodes move."""

from __future__ import annotations

import polars as pl
import pytest
from driven_elements import Advance, Event, Host, drive
from hypothesis import given
from hypothesis import strategies as st

import query
from agent.programs.element_graph import Element, ElementInput, EventType
from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.graph import CheckedGraph
from agent.runtime.keyed.hosting.layout import GraphLayout
from agent.runtime.keyed.logical_nodes import nodes_of

HIT = EventType("Hit", [("user", "string"), ("path", "any"), ("n", "integer"), ("x", "number"), ("at", "timestamp")])
THERE = EventType("There", [("n", "integer"), ("path", "any")])
NOTHING = EventType("There", [])
EXCHANGE = Element("exchange", "exchange", [ElementInput("Hit", ["user"])], "There", grouping="fish", workers=8)
NULL = st.none()
VALUES = st.tuples(
    NULL | st.sampled_from("abc"), NULL | st.just('"/"'), NULL | st.integers(-5, 5), NULL | st.floats(-1, 1), NULL
)
STEPS = st.lists(
    st.builds(Event, st.just("Hit"), st.integers(0, 10_000), VALUES) | st.builds(Advance, st.integers(0, 10_000)),
    max_size=30,
)


@given(steps=STEPS, emitted=st.sampled_from([THERE, NOTHING]), data=st.data())
def test_each_event_is_emitted_once_at_its_time_and_node(steps, emitted, data):
    host = Host(EXCHANGE, {"Hit": HIT, "There": emitted})
    events = [step for step in steps if isinstance(step, Event)]
    nodes = nodes_of([pl.Series([event.values[0] for event in events], dtype=pl.String)]).to_list()
    places = [[name for name, _ in HIT.fields].index(name) for name, _ in emitted.fields]
    expected = [
        (event.time, node, *(event.values[place] for place in places))
        for event, node in zip(events, nodes, strict=True)
    ]
    assert drive(host, steps, data) == expected
    assert (host.runtime.elements, host.runtime.memory_bytes, host.runtime.evict(0, 0)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("element", "emitted", "line"),
    [
        ({}, EventType("There", [("m", "integer")]), "names the field 'm', and the fields of Hit are user"),
        ({}, EventType("There", [("n", "string")]), "emits n as string, which Hit has not"),
        ({"ttl_s": 1.0}, THERE, "keeps nothing of an event: leave `ttl_s` out"),
        ({"every_s": 1.0}, THERE, "keeps nothing of an event: leave `every_s` out"),
        ({"ordered": True}, THERE, "keeps nothing of an event: leave `ordered` out"),
        ({"output": "Where"}, THERE, "reads the type 'Where', which the job does not have"),
    ],
)
def test_exchanges_that_make_no_sense_are_refused_in_one_line(element, emitted, line):
    changed = Element(**{name: getattr(EXCHANGE, name) for name in EXCHANGE.__struct_fields__} | element)
    with pytest.raises(query.PlanError) as error:
        declared.check(changed, {"Hit": HIT, "There": emitted})
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_null_is_a_key():
    plan = query.analyze(query.parse("SELECT n FROM web KEYED BY user"), {"web": query.Schema({}, open=True)})
    (layout,) = GraphLayout(CheckedGraph.of(plan.elements)).by_name["web"].routes
    assert layout.takes_null
