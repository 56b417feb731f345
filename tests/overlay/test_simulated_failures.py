"""What the simulator can do to processes and to the network, and what nodes are told of it."""

import random

import pytest
from overlay_oracle import simulated_overlay

from overlay import Event, LeafSetChanged, MessageReceived, Node, PeerFailed, Simulator


class Story:
    """Every event of every node, with its time."""

    def __init__(self, seed: int = 1) -> None:
        self.events: list[tuple[float, Node, Event]] = []
        self.simulator = Simulator(random.Random(seed), on_event=lambda *entry: self.events.append(entry))
        self.nodes = simulated_overlay(self.simulator, 4, random.Random(seed))
        self.simulator.run(self.simulator.now + 0.1)
        self.events.clear()

    def of(self, node: Node, kind: type[Event]) -> list[Event]:
        return [event for _, raised_by, event in self.events if raised_by is node and isinstance(event, kind)]


def test_a_message_to_a_crashed_node_vanishes_and_its_sender_learns_why() -> None:
    story = Story()
    dead, sender, *_ = story.nodes
    story.simulator.crash(dead)
    assert dead not in list(story.simulator.nodes)
    sender.send(dead.peer, b"anyone?", story.simulator.now)
    story.simulator.run(story.simulator.now + 0.05)
    assert story.of(sender, PeerFailed) == [PeerFailed(dead.peer)]
    assert len(story.of(sender, LeafSetChanged)) == 1
    assert dead.peer.node_id not in sender.leaf_set
    assert story.of(dead, MessageReceived) == []


def test_a_restarted_node_is_another_one_of_the_same_id() -> None:
    story = Story()
    dead, contact, *_ = story.nodes
    with pytest.raises(ValueError, match="has not crashed"):
        story.simulator.restart(dead)
    story.simulator.crash(dead)
    fresh = story.simulator.restart(dead, address="elsewhere")
    with pytest.raises(ValueError, match="has been restarted"):
        story.simulator.crash(dead)
    fresh.join(contact.peer, story.simulator.now)
    story.simulator.run(story.simulator.now + 5.0)
    assert fresh.is_active
    for node in story.nodes[1:]:
        assert [peer.address for peer in node.leaf_set if peer.node_id == fresh.peer.node_id] == ["elsewhere"]


def test_messages_and_timers_of_a_stalled_node_wait() -> None:
    story = Story()
    stalled, sender, *_ = story.nodes
    start = story.simulator.now
    story.simulator.stall(stalled, start + 2.0)
    for number in range(20):
        sender.send(stalled.peer, bytes([number]), story.simulator.now)
    story.simulator.run(start + 1.9)
    assert story.of(stalled, MessageReceived) == []
    story.simulator.run(start + 2.0)
    times = {time for time, node, event in story.events if node is stalled and isinstance(event, MessageReceived)}
    assert times == {start + 2.0}
    assert len(story.of(stalled, MessageReceived)) == 20


def test_a_cut_loses_everything_between_two_sides_until_it_is_healed() -> None:
    story = Story()
    one, other, third, _ = story.nodes
    story.simulator.cut([one], [other])
    for sender, receiver in ((one, other), (other, one), (one, third), (third, other)):
        sender.send(receiver.peer, b"", story.simulator.now)
    story.simulator.run(story.simulator.now + 0.05)
    assert [len(story.of(node, MessageReceived)) for node in (one, other, third)] == [0, 1, 1]
    assert story.of(one, PeerFailed) == []
    story.simulator.heal()
    one.send(other.peer, b"", story.simulator.now)
    story.simulator.run(story.simulator.now + 0.05)
    assert len(story.of(other, MessageReceived)) == 2


def run_trace(seed: int) -> tuple[str, int]:
    story = Story(seed)
    simulator, (first, second, third, fourth) = story.simulator, story.nodes
    simulator.crash(first)
    simulator.stall(second, simulator.now + 6.0)
    simulator.cut([third], [fourth])
    simulator.run(simulator.now + 10.0)
    simulator.restart(first).join(fourth.peer, simulator.now)
    simulator.heal()
    simulator.run(simulator.now + 30.0)
    return simulator.trace_hash(), simulator.delivered


def test_a_seed_fixes_failures_too() -> None:
    assert run_trace(1) == run_trace(1)
    assert run_trace(1) != run_trace(2)
