"""Sealed runs outlive their owners: neighbours hold them until their panes are out, and masters take what they lack."""

from __future__ import annotations

import msgspec
import pytest
from copy_fleet import COUNT, CopyFleet, keep_to_itself, lose
from memory_fleet import KEY, Fleet, events
from seeds import seeds

from agent import Agent
from agent.runtime.copies import copy_sender
from agent.runtime.master.lacking_parts import ASKS_MAX
from agent.runtime.messages.copies import Copies, CopyPart
from agent.runtime.messages.jobs import Snapshot
from agent.runtime.reduce.parts import RunLimits
from agent.runtime.reduce.straggler import RECOVER_S

TREES = f"{COUNT} TREES 3"
LONG = f"{COUNT} RECOVER FOR 20 SECONDS"


def copied(agent: Agent) -> int:
    return agent.copies.statistics()["recovered"]


def test_two_neighbours_hold_what_is_sealed_until_it_is_out() -> None:
    fleet = CopyFleet()
    leaf = fleet.leaf()
    lost = keep_to_itself(leaf)
    pane = fleet.go_on()
    assert {one.node.peer for one in fleet.holders(leaf)} == set(leaf.node.neighbours(2))
    del leaf.node.send
    assert lost
    fleet.wait_for(pane)
    fleet.wait_long(4.0)
    assert fleet.holders(leaf) == []
    assert [len(agent.copies.own) for agent in fleet.agents] == [0] * 5
    assert sum(agent.copies.statistics()["unheld"] for agent in fleet.agents) == 0


def test_input_that_ends_is_not_copied() -> None:
    fleet = Fleet(4)
    fleet.submit(COUNT)
    for number in range(4):
        fleet.insert(number, events("a"))
    fleet.finish()
    assert [one.events for one in fleet.results] == [4]
    assert sum(agent.copies.statistics()["messages"] for agent in fleet.agents) == 0


@pytest.mark.parametrize("text", [COUNT, TREES, LONG])
def test_who_dies_before_its_part_has_left_is_in_the_window(text: str) -> None:
    fleet = CopyFleet(text=text)
    every, leaf = list(fleet.logged), fleet.leaf()
    keep_to_itself(leaf)
    pane = fleet.go_on()
    began = fleet.now
    fleet.crash(leaf)
    result = fleet.wait_for(pane)
    assert (result.contributors, result.expected, result.missing, result.partial) == (5, 5, [], [])
    assert result.events == fleet.events_of(*every)
    assert fleet.now - began < RECOVER_S, "nobody waits longer than until copies are there"
    assert copied(fleet.master) >= 1
    following = [fleet.go_on(), fleet.go_on()]
    assert [fleet.wait_for(one, 30.0).missing for one in following] == [[leaf.name]] * 2


def test_a_whole_pane_does_not_wait_for_what_a_later_one_lacks() -> None:
    """Two panes are complete at once, as the part of another agent has come late: of the dead one the second is lacking
    for as long as the query says."""
    fleet = CopyFleet(6, text=LONG)
    every = list(fleet.logged)
    leaf, slow = [agent for agent in fleet.workers() if not agent.node.children(KEY)][:2]
    keep_to_itself(leaf)
    first = fleet.go_on(without=slow)
    fleet.crash(leaf)
    second = fleet.go_on(without=slow)
    assert fleet.result(first) is None
    for pane in (first, second):
        number = fleet.agents.index(slow)
        fleet.insert(number, events(*["a", "b"] * (fleet.logged[slow.name] // 2), at_ms=pane))
    fleet.catch_up()
    came = fleet.now
    result = fleet.wait_for(first)
    assert (result.contributors, result.events) == (6, fleet.events_of(*every))
    assert fleet.now - came < RECOVER_S
    assert fleet.result(second) is None
    assert fleet.wait_for(second, 40.0).missing == [leaf.name]


@pytest.mark.parametrize("holders", [1, 2])
def test_one_holder_is_enough_and_with_none_the_dead_agent_is_missing(holders: int) -> None:
    fleet = CopyFleet(6, salt="c")
    leaf = fleet.leaf()
    keep_to_itself(leaf)
    pane = fleet.go_on()
    dead = [agent for agent in fleet.holders(leaf) if agent is not fleet.master][:holders]
    assert len(dead) == holders
    fleet.crash(leaf, *dead)
    result = fleet.wait_for(pane)
    assert (leaf.name in result.missing) == (holders == 2)


def test_with_the_master_dead_as_well_its_successor_takes_both_parts_from_copies() -> None:
    fleet = CopyFleet(7)
    every, leaf, master = list(fleet.logged), fleet.leaf(), fleet.master
    keep_to_itself(leaf)
    pane = fleet.go_on()
    assert fleet.result(pane) is None
    fleet.crash(leaf, master)
    result = fleet.wait_for(pane, 40.0)
    assert (result.contributors, result.expected, result.missing) == (7, 7, [])
    assert result.events == fleet.events_of(*every)


def test_what_its_owner_had_sent_counts_once_beside_its_copy() -> None:
    fleet = CopyFleet(6, text=LONG)
    leaf, other = [agent for agent in fleet.workers() if not agent.node.children(KEY)][:2]
    fleet.crash(other)
    sent = keep_to_itself(leaf)
    pane = fleet.go_on()
    fleet.crash(leaf)
    fleet.wait_long(6.0)
    assert copied(fleet.master) == 1
    assert fleet.result(pane) is None, "the other one is waited for"
    for message in sent:
        assert isinstance(message, Snapshot)
        fleet.master.jobs.snapshot(msgspec.structs.replace(message, detached=True), leaf.node.peer, fleet.now)
    result = fleet.wait_for(pane, 30.0)
    assert (result.contributors, result.missing) == (5, [other.name])
    assert result.events == fleet.events_of(*(name for name in fleet.logged if name != other.name))


def test_messages_that_get_lost_are_sent_again() -> None:
    fleet = CopyFleet()
    leaf = fleet.leaf()
    lost = lose(leaf, Copies)
    keep_to_itself(leaf)
    pane = fleet.log()
    fleet.pass_second()
    assert lost
    assert fleet.holders(leaf) == []
    del leaf.node.send
    keep_to_itself(leaf)
    fleet.wait_long(copy_sender.ACK_TIMEOUT_S + 0.5)
    assert len(fleet.holders(leaf)) == 2
    fleet.crash(leaf)
    assert fleet.wait_for(pane).missing == []


def test_long_messages_go_in_parts() -> None:
    fleet = CopyFleet()
    for agent in fleet.agents:
        agent.copies.copy_sender.limits = RunLimits(whole_bytes=300, part_bytes=100, window_parts=2)
    every, leaf = list(fleet.logged), fleet.leaf()
    keep_to_itself(leaf)
    lost = lose(leaf, CopyPart)
    pane = fleet.go_on()
    assert len(lost) == 4, "two of each message at first"
    del leaf.node.send
    keep_to_itself(leaf)
    fleet.wait_long(4.0)
    fleet.crash(leaf)
    result = fleet.wait_for(pane)
    assert (result.missing, result.events) == ([], fleet.events_of(*every))


def test_who_has_no_copies_is_asked_for_three_times() -> None:
    fleet = CopyFleet(text=LONG)
    leaf = fleet.leaf()
    fleet.crash(leaf)
    panes = [fleet.go_on() for _ in range(3)]
    results = [fleet.wait_for(pane, 40.0) for pane in panes]
    assert [one.missing for one in results] == [[leaf.name]] * 3
    assert fleet.master.copies.statistics()["asked"] == ASKS_MAX


def stand_still(fleet: CopyFleet, agent: Agent) -> None:
    """An agent's core does nothing any more; its node answers others."""
    fleet.agents.remove(agent)


@pytest.mark.parametrize(
    ("clause", "panes_whole"), seeds(("MIRROR", 1), slow=[("LEAP", 0), ("MIRROR AFTER 3 PANES", 1)])
)
def test_under_mirror_the_sealed_panes_of_a_straggler_are_taken_from_copies(clause: str, panes_whole: int) -> None:
    fleet = CopyFleet(text=f"{COUNT} ON STRAGGLER {clause}")
    for _ in range(8):
        fleet.go_on()
    leaf = fleet.leaf()
    every = list(fleet.logged)
    keep_to_itself(leaf)
    stuck = fleet.go_on()
    stand_still(fleet, leaf)
    later = [fleet.go_on() for _ in range(6)]
    result = fleet.wait_for(stuck)
    assert result.contributors == 4 + panes_whole
    assert result.events == fleet.events_of(*every) - (0 if panes_whole else fleet.logged[leaf.name])
    assert [fleet.wait_for(pane).missing for pane in later[:3]] == [[leaf.name]] * 3


def test_under_mirror_nobody_waits_for_copies_of_panes_that_are_not_sealed() -> None:
    """A straggler that answers the leap has sealed nothing that others could hold."""
    fleet = CopyFleet(text=f"{COUNT} ON STRAGGLER MIRROR")
    for _ in range(8):
        fleet.go_on()
    slow = fleet.leaf()
    panes = [fleet.go_on(without=slow) for _ in range(6)]
    over = [fleet.wait_for(pane, 0.25) for pane in panes[:3]]
    assert [(one.leaped, one.leaped_over, one.missing) for one in over] == [(1, [slow.name], [])] * 3
    assert fleet.master.copies.statistics()["asked"] == 0
