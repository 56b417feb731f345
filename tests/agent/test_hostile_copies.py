"""Copies are what other agents say: each is checked, bounded, and taken by a master that has asked for it alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import polars as pl
import pytest
from copy_fleet import COUNT, CopyFleet, keep_to_itself
from hypothesis import given
from hypothesis import strategies as st
from memory_fleet import KEY, Fleet
from recording_client import RecordingClient

import cbt
from agent import Agent, StreamOptions
from agent.runtime.copies.held import RUN_OVERHEAD, HeldRuns, read_copy
from agent.runtime.copies.own import OwnRuns
from agent.runtime.copies.racks import Racks
from agent.runtime.copies.service import CopyOptions
from agent.runtime.messages.copies import Copies, CopyRequest, CopyResponse, HoldersNote, RackAnnouncement
from agent.runtime.messages.jobs import CODEC, Announce, Snapshot
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id, MessageReceived, MulticastReceived, Node, Peer

APP, OWNER = Id(7), 5
EPOCH = JobEpoch(3, 1, Id(1))
KNOWN = Announce(APP, EPOCH, Peer(Id(1), "m"), "m", "job", "web", "", False, 1, 1000, 2, 2, trees=2)


def run(after: int, upto: int, size: int = 100, number: int = 0, **fields: Any) -> Snapshot:
    return Snapshot(APP, EPOCH, 1, after, upto, bytes([1 << number]), bytes(size), [], **fields)


def copies(*runs: Snapshot, epoch: JobEpoch = EPOCH) -> Copies:
    return Copies(APP, epoch, 1, [CODEC.encode(one) for one in runs])


def panes(held: HeldRuns, owner: int = OWNER) -> list[tuple[int, int]]:
    return [(one.after, one.upto) for one in held.of(APP, owner, FIRST_PANE)]


# The holder.


def test_what_is_published_is_not_held_and_what_gets_published_is_freed() -> None:
    held = HeldRuns()
    assert held.hold(OWNER, copies(run(0, 1000), run(1000, 2000), run(2000, 3000)), KNOWN)
    assert panes(held) == [(1000, 2000), (2000, 3000)]
    held.free(APP, EPOCH.born_ms, 2000)
    assert panes(held) == [(2000, 3000)]
    held.free(APP, EPOCH.born_ms, 3000)
    assert (len(held), held.bytes, held.jobs()) == (0, 0, [])


def test_an_owner_s_word_replaces_its_earlier_one_of_the_same_panes() -> None:
    held = HeldRuns()
    held.hold(OWNER, copies(run(1000, 2000), run(2000, 3000), run(1000, 3000, tree=1)), KNOWN)
    held.hold(OWNER, copies(run(1500, 2000, 50), run(3000, 4000)), KNOWN)
    assert panes(held) == [(2000, 3000), (1000, 3000), (1500, 2000), (3000, 4000)]
    held.hold(OWNER, copies(run(1500, 2000, 50)), KNOWN)
    assert len(held) == 4, "repeated"


def test_an_earlier_job_of_the_name_leaves_nothing() -> None:
    held, born = HeldRuns(), JobEpoch(4, 1, Id(1))
    held.hold(OWNER, copies(run(1000, 2000)), KNOWN)
    assert not held.hold(OWNER, copies(run(2000, 3000), epoch=born), KNOWN), "not heard of yet"
    later = msgspec.structs.replace(KNOWN, epoch=born)
    assert held.hold(OWNER, copies(run(2000, 3000), epoch=born), later)
    assert panes(held) == [(2000, 3000)]
    held.free(APP, 5, FIRST_PANE)
    assert held.bytes == 0


@pytest.mark.parametrize(
    "unsound",
    [
        run(2000, 2000),
        run(3000, 2000),
        run(1000, 2000, tree=2),
        run(1000, 2000, of_root=True),
        run(1000, 2000, leaped=b"\2"),
        run(1000, 2000, losses=[(b"\1", "too large")]),
        run(1000, 2000, partial=b"\2"),
        msgspec.structs.replace(run(1000, 2000), contributors=b"\3"),
        msgspec.structs.replace(run(1000, 2000), contributors=b""),
        msgspec.structs.replace(run(1000, 2000), app_id=Id(8)),
        CopyRequest(APP, EPOCH, 0, [Id(1)]),
    ],
)
def test_what_no_owner_sends_is_not_held(unsound: Any) -> None:
    held = HeldRuns()
    assert not held.hold(OWNER, copies(unsound), KNOWN)
    assert (len(held), held.bytes, held.refused) == (0, 0, 1)


@given(st.binary(max_size=60), st.integers(0, 300))
def test_any_bytes_may_stand_for_a_run(data: bytes, at: int) -> None:
    sound = CODEC.encode(run(1000, 2000))
    for encoded in (data, sound[:at], sound[:at] + data + sound[at:]):
        read_copy(encoded, APP, 2)
        HeldRuns().hold(OWNER, Copies(APP, EPOCH, 1, [encoded]), KNOWN)


def test_what_is_held_is_bounded_for_each_owner_and_in_all() -> None:
    size = len(CODEC.encode(run(1000, 2000))) + RUN_OVERHEAD
    held = HeldRuns()
    held.owner_bytes_max, held.bytes_max = 2 * size, 3 * size
    assert held.hold(OWNER, copies(run(1000, 2000), run(2000, 3000)), KNOWN), "at the limit"
    assert not held.hold(OWNER, copies(run(3000, 4000)), KNOWN)
    assert held.hold(6, copies(run(1000, 2000)), KNOWN), "at the limit of all"
    assert not held.hold(7, copies(*(run(1000 * n, 1000 * n + 1000) for n in range(1, 11))), KNOWN)
    assert (held.bytes, held.refused) == (3 * size, 11)
    assert panes(held) == [(1000, 2000), (2000, 3000)], "the oldest are published first"
    held.free(APP, EPOCH.born_ms, 2000)
    assert held.hold(OWNER, copies(run(3000, 4000)), KNOWN)


def test_only_neighbours_are_held_for() -> None:
    fleet = CopyFleet(3)
    holder, stranger = fleet.agents[0], Peer(Id(12345), "stranger")
    message = Copies(KEY, fleet.master.masters.get(KEY).state.epoch, 1, [b""])  # type: ignore[union-attr]
    refused = holder.refused
    holder.process(MessageReceived(stranger, CODEC.encode(message)), fleet.now, fleet.wall_ms)
    note = RackAnnouncement(FLEET_GROUP, "r1")
    holder.process(MessageReceived(stranger, CODEC.encode(note)), fleet.now, fleet.wall_ms)
    assert holder.refused == refused + 2
    assert not list(holder.copies.held.of(KEY, stranger.node_id, FIRST_PANE))


def test_what_an_owner_keeps_for_its_holders_is_bounded() -> None:
    own = OwnRuns()
    one = run(0, 1000)
    own.bytes_max = 3 * one.size
    for pane in range(3):
        own.add(run(1000 * pane, 1000 * pane + 1000))
    assert (len(own), own.dropped) == (3, 0), "at the limit"
    for pane in range(3, 33):
        own.add(run(1000 * pane, 1000 * pane + 1000))
    assert (len(own), own.dropped) == (3, 30)
    assert [one.key for runs in own.to_send(APP, 1) for one in runs] == [
        (0, 1000 * pane, 1000 * pane + 1000) for pane in (30, 31, 32)
    ]


def test_a_new_master_does_not_have_everything_copied_again() -> None:
    own = OwnRuns()
    own.add(run(0, 1000))
    assert len(list(own.to_send(APP, 1))) == 1
    again = msgspec.structs.replace(run(0, 1000), epoch=EPOCH.next(Id(2)))
    own.add(again)
    assert list(own.to_send(APP, 1)) == []
    own.add(msgspec.structs.replace(again, counted=[(1000, 1, 1, 0, 0, 0, 0)]))
    assert len(list(own.to_send(APP, 1))) == 1, "it says something else"


# The master.


class Asking:
    """A fleet whose master has asked for the part of a dead agent, and gets what a test sends."""

    def __init__(self) -> None:
        self.fleet = CopyFleet(5, text=f"{COUNT} RECOVER FOR 30 SECONDS")
        self.leaf = leaf = self.fleet.leaf()
        sent = keep_to_itself(leaf)
        for agent in self.fleet.agents:
            agent.copies.held.bytes_max = 0
        self.pane = self.fleet.go_on()
        self.fleet.crash(leaf)
        self.fleet.wait_long(4.0)
        assert self.fleet.result(self.pane) is None
        (self.honest,) = [one for one in sent if isinstance(one, Snapshot)][:1]
        state = self.fleet.master.masters.state(KEY)
        assert state is not None
        self.epoch = state.epoch

    def says(self, *runs: Snapshot, owner: Agent | None = None, epoch: JobEpoch | None = None) -> int:
        """A holder sends runs; returns how many the master has taken."""
        before = self.fleet.master.copies.statistics()["recovered"]
        encoded = [CODEC.encode(one) for one in runs]
        message = CopyResponse(KEY, epoch or self.epoch, 1, (owner or self.leaf).node.peer.node_id, encoded)
        other = next(agent for agent in self.fleet.workers())
        event = MessageReceived(other.node.peer, CODEC.encode(message))
        self.fleet.master.process(event, self.fleet.now, self.fleet.wall_ms)
        return self.fleet.master.copies.statistics()["recovered"] - before


def test_a_master_takes_what_it_has_asked_for_once() -> None:
    asking = Asking()
    honest = asking.honest
    other = next(agent for agent in asking.fleet.workers())
    number = other.jobs.get(KEY).number  # type: ignore[union-attr]
    assert number is not None
    forged = msgspec.structs.replace(honest, contributors=(1 << number).to_bytes(1, "little"))
    far = msgspec.structs.replace(honest, contributors=b"\0\1")
    assert asking.says(honest, owner=other) == 0, "it was not asked for"
    assert asking.says(forged, far) == 0, "another agent's number, and nobody's"
    assert asking.says(honest, epoch=asking.epoch.next(Id(9))) == 0, "another master's"
    for unsound in (
        {"version": 2},
        {"state": b"x"},
        {"state": cbt.encode_frame(pl.DataFrame({"n": [1]}))},
        {"after": honest.upto, "upto": honest.upto + 1_000_000, "version": 9},
        {"counted": [(honest.upto + 500, 1, 1, 0, 0, 0, 0)]},
    ):
        assert asking.says(msgspec.structs.replace(honest, **unsound)) == 0, unsound
    assert asking.fleet.result(asking.pane) is None
    assert asking.says(honest, honest) == 1
    result = asking.fleet.wait_for(asking.pane, 1.0)
    assert (result.contributors, result.missing) == (5, [])
    assert result.events == asking.fleet.events_of(*asking.fleet.logged)
    assert asking.says(honest) == 0, "it is out"


def test_only_agents_on_the_roster_name_their_holders() -> None:
    fleet = CopyFleet(3)
    master, stranger = fleet.master, Peer(Id(12345), "stranger")
    epoch = master.masters.get(KEY).state.epoch  # type: ignore[union-attr]
    worker = fleet.workers()[0].node.peer
    for sender, of, refused in ((worker, epoch, 0), (stranger, epoch, 1), (worker, epoch.next(Id(4)), 1)):
        before = master.refused
        note = HoldersNote(KEY, of, [stranger])
        master.process(MessageReceived(sender, CODEC.encode(note)), fleet.now, fleet.wall_ms)
        assert master.refused == before + refused


def test_a_request_of_whoever_is_not_known_as_master_is_not_answered() -> None:
    fleet = CopyFleet(5)
    leaf = fleet.leaf()
    keep_to_itself(leaf)
    fleet.go_on()
    holder = fleet.holders(leaf)[0]
    epoch = fleet.master.masters.get(KEY).state.epoch  # type: ignore[union-attr]
    for asked, answers in ((epoch.next(Id(3)), 0), (epoch, 1)):
        wanted = CopyRequest(KEY, asked, FIRST_PANE, [leaf.node.peer.node_id, Id(77)])
        for _ in range(3):
            holder.process(MulticastReceived(FLEET_GROUP, CODEC.encode(wanted)), fleet.now, fleet.wall_ms)
        assert holder.copies.statistics()["given"] == answers


# Racks.


class RackFleet(Fleet):
    """A fleet in three racks."""

    def rack(self, name: str) -> str:
        """The rack of an agent."""
        return f"r{int(name.removeprefix('agent-')) % 3}"

    def new_agent(self, name: str, node: Node, streams: Mapping[str, StreamOptions]) -> Agent:
        return Agent(name, node, streams, observer=RecordingClient(), copies=CopyOptions(rack=self.rack(name)))


def test_holders_stand_in_other_racks_where_racks_are_known() -> None:
    fleet = CopyFleet(6)
    agent = fleet.agents[0]
    near = agent.node.neighbours(8)
    plain = Racks(agent.node, MessageSender(agent.node), "")
    assert plain.choose(2) == near[:2]
    racks = Racks(agent.node, MessageSender(agent.node), "r0")
    assert racks.choose(2) == near[:2], "nobody has said"
    for peer, rack in zip(near, ("r0", "r0", "r1", "r1", "r2"), strict=True):
        assert racks.told(RackAnnouncement(FLEET_GROUP, rack), peer, 0.0)
    assert racks.choose(2) == (near[2], near[4]), "each in another one"
    assert racks.choose(3) == (near[2], near[4], near[3])
    assert set(racks.choose(9)) == set(near)


def test_agents_tell_each_other_their_racks() -> None:
    fleet = RackFleet(6)
    fleet.wait_long(1.0)
    agent = fleet.agents[0]
    assert {fleet.rack(peer.address) for peer in agent.copies.racks.choose(2)} == {"r1", "r2"}
