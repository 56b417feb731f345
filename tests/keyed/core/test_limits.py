"""Overload, hostile peers and circles: bounded, counted, named."""

from __future__ import annotations

import polars as pl
import pytest
from fleet_of_elements import APP, Fleet, element, graph_of, type_
from test_flow import check, counting, rows_of

import cbt
from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.keyed.logical_nodes import nodes_of
from agent.runtime.messages.elements import BallotEntry, CommitRecord, ElementRows, NodeBallots, NodeHosts
from overlay import Peer

STRANGER = Peer(99, "10.9.9.9:1")


def test_rows_with_null_in_their_key_are_counted_and_go_nowhere() -> None:
    fleet = Fleet(counting(guaranteed=True), 2)
    agent = next(iter(fleet.agents.values()))
    graph_rows = [("a", "g", 1), (None, "g", 1), ("b", "g", 3)]
    fleet.graph.types["Text"]
    fleet.insert(agent, "Text", [("w", "g", 1)])
    channel = agent.job.channel("Text")
    frame = pl.DataFrame(
        {"@time": [1] * 3, "@source": [channel] * 3, "@seq": [i << 20 for i in range(100, 103)],
         "a": [row[0] for row in graph_rows], "b": ["g"] * 3, "v": [1, 1, 3]}
    )  # fmt: skip
    agent.job._emitter.emit(agent.job._layout.by_name["Word"], frame, fleet.now)
    fleet.settle()
    assert agent.job.statistics()["null_keys"] == 1


def test_forged_messages_are_refused_and_change_nothing() -> None:
    fleet = Fleet(counting(guaranteed=True), 3)
    agents = list(fleet.agents.values())
    inserted = rows_of(fleet, 60)
    fleet.insert(agents[0], "Text", inserted)
    fleet.settle()
    word = agents[0].job._layout.by_name["Word"]
    empty = word.schema.to_frame()
    rows = pl.DataFrame({"@time": [1], "@source": [2**40], "@seq": [1], "a": ["x"], "b": ["y"], "v": [1]})
    foreign = rows.with_columns(pl.lit(-5).cast(pl.Int64).alias("@source"))
    node = int(nodes_of([pl.Series(["x"])])[0])
    forged = [
        ElementRows(APP, 999, 1, 0, 0, b""),
        ElementRows(APP, word.place, 1, 0, 0, b"no frame"),
        ElementRows(APP, word.place, 2, 0, 0, cbt.encode_frame(pl.DataFrame({"z": [1]}))),
        ElementRows(APP, word.place, 3, 0, 0, cbt.encode_frame(rows)),
        ElementRows(APP, word.place, 4, 7, 0, cbt.encode_frame(empty)),
        ElementRows(APP, word.place, 5, 0, 0, cbt.encode_frame(foreign)),
        CommitRecord(APP, 1, 0, 1, b"abc", b"", b"", [], []),
        CommitRecord(APP, 1, 0, 1, b"\xff\xff", b"\0" * 8, b"", [0] * 4, []),
        CommitRecord(APP, 1, 0, 1, b"\x01\0", b"\0" * 8, b"", [0] * 4, [("state", 0, "t", [("x", "Struct")], b"")]),
        NodeHosts(APP, [], [(3, 1, 7)]),
        NodeBallots(APP, "promise", [], [BallotEntry(node, 1, 1, [5])]),
    ]
    for agent in agents:
        for message in forged:
            agent.job.handle(message, STRANGER, fleet.now)
    fleet.agents = {agent.me: agent for agent in agents}
    fleet.run(1)
    assert all(agent.job.statistics()["refused"] > 0 for agent in agents)
    fleet.settle()
    check(fleet, {"Text": inserted})


def test_a_circle_that_fills_up_fails_with_its_path() -> None:
    types = [type_(name) for name in ("Text", "Word")]
    graph = graph_of(types, [element("Ping", ("Text", ["a"]), ("Word", ["b"]), emits=["Word"])], ["Text"])
    fleet = Fleet(graph, 1, standbys=0, pending_rows_max=4, stuck_s=3.0, batch_rows=8)
    agent = next(iter(fleet.agents.values()))
    agent.runtimes["Ping"].times = 3
    fleet.insert(agent, "Text", rows_of(fleet, 200))
    with pytest.raises(AssertionError, match=r"circle .*Word.* is full"):
        fleet.run(40)


def test_state_over_the_memory_allowed_is_evicted_and_counted() -> None:
    fleet = Fleet(counting(guaranteed=False), 1, memory_bytes=1000)
    agent = next(iter(fleet.agents.values()))
    fleet.insert(agent, "Text", rows_of(fleet, 200))
    fleet.run(5)
    assert agent.job.statistics()["evicted"] > 0
    assert sum(runtime.memory_bytes for runtime in agent.runtimes.values()) <= 1000


def test_a_full_emitter_tells_its_sources_to_wait() -> None:
    fleet = Fleet(counting(guaranteed=True), 2, pending_rows_max=100)
    agent = next(iter(fleet.agents.values()))
    assert agent.job.has_room
    fleet.insert(agent, "Text", rows_of(fleet, 300))
    assert not agent.job.has_room
    assert agent.job.acknowledged(agent.job.channel("Text")) < 299 << 20
    fleet.settle()
    assert agent.job.has_room
    assert agent.job.acknowledged(agent.job.channel("Text")) == 299 << 20


def test_idle_standbys_host_nothing() -> None:
    fleet = Fleet(counting(guaranteed=True), 3)
    idle = fleet.join(weight=0.0)
    fleet.run(2)
    inserted = rows_of(fleet, 100)
    fleet.insert(next(iter(fleet.agents.values())), "Text", inserted)
    fleet.settle()
    assert idle.job.statistics()["hosted"] == 0
    check(fleet, {"Text": inserted})
    assert KeyedOptions().weight == 1.0
