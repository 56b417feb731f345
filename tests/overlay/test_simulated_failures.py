"""Simulated faults of processes and of the network, and the notifications nodes get of them."""

import random

import pytest
from overlay_oracle import simulated_overlay

from overlay import Event, LeafSetChanged, MessageReceived, Node, PeerFailed, Simulator, Traffic


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


def test_some_messages_come_twice_and_some_late() -> None:
    story = Story()
    sender, receiver, *_ = story.nodes
    simulator = story.simulator
    simulator.duplication, simulator.reordering, simulator.reordering_s = 0.5, 0.5, 3.0
    start = simulator.now
    for number in range(200):
        sender.send(receiver.peer, bytes([number]), start)
    simulator.run(start + 10.0)
    payloads = [event.payload for event in story.of(receiver, MessageReceived) if isinstance(event, MessageReceived)]
    assert set(payloads) == {bytes([number]) for number in range(200)}
    assert 60 <= len(payloads) - 200 <= 140
    late = [time - start for time, _, event in story.events if isinstance(event, MessageReceived) and time - start > 1]
    assert 0.2 * len(payloads) < len(late) < 0.5 * len(payloads)
    assert max(late) <= 3.1


def test_a_one_way_cut_loses_what_one_side_says_and_not_what_the_other_does() -> None:
    story = Story()
    one, other, *_ = story.nodes
    story.simulator.cut([one], [other], one_way=True)
    one.send(other.peer, b"", story.simulator.now)
    other.send(one.peer, b"", story.simulator.now)
    story.simulator.run(story.simulator.now + 0.05)
    assert [len(story.of(node, MessageReceived)) for node in (one, other)] == [1, 0]


def test_a_clogged_link_lets_everything_go_at_once() -> None:
    story = Story()
    one, other, third, _ = story.nodes
    start = story.simulator.now
    story.simulator.clog([one], [other], start + 0.8)
    for number in range(8):
        one.send(other.peer, bytes([number]), story.simulator.now)
        one.send(third.peer, bytes([number]), story.simulator.now)
        story.simulator.run(story.simulator.now + 0.1)
    assert story.of(other, MessageReceived) == []
    assert len(story.of(third, MessageReceived)) == 8
    story.simulator.run(start + 0.85)
    assert len(story.of(other, MessageReceived)) == 8
    one.send(other.peer, b"", story.simulator.now)
    story.simulator.run(story.simulator.now + 0.05)
    assert len(story.of(other, MessageReceived)) == 9


def woken(simulator: Simulator, node: Node, monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """When a node's timers come: by the true time, and by its own."""
    times: list[tuple[float, float]] = []
    handle_timer = node.handle_timer
    monkeypatch.setattr(
        node,
        "handle_timer",
        lambda now: (times.append((simulator.now, now)), handle_timer(now)),  # type: ignore[func-returns-value]
    )
    return times


def test_a_node_lives_by_its_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    simulator, (node, *_) = story.simulator, story.nodes
    start = simulator.now
    assert simulator.clock(node) == start
    simulator.change_clock(node, jump_s=100.0, rate=2.0)
    times = woken(simulator, node, monkeypatch)
    simulator.run(start + 10.0)
    assert simulator.clock(node) == pytest.approx(start + 120.0)
    assert len(times) > 10
    assert all(own == pytest.approx(start + 100.0 + 2 * (true - start)) for true, own in times)
    simulator.change_clock(node, jump_s=-50.0, rate=1.0)
    simulator.run(start + 20.0)
    assert simulator.clock(node) == pytest.approx(start + 80.0)
    assert all(other.is_active for other in story.nodes)


def test_a_clock_that_jumps_while_its_node_stands_still_does_not_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    simulator, (node, *_) = story.simulator, story.nodes
    simulator.stall(node, simulator.now + 2.0)
    simulator.change_clock(node, jump_s=5.0)
    times = woken(simulator, node, monkeypatch)
    simulator.run(simulator.now + 1.9)
    assert times == []
    simulator.run(simulator.now + 3.0)
    assert times[0][0] == pytest.approx(simulator.now - 2.9)
    assert len(times) > 2


def test_what_is_forgotten_was_never_there() -> None:
    story = Story()
    simulator, (dead, other, *_) = story.simulator, story.nodes
    with pytest.raises(ValueError, match="has not crashed"):
        simulator.forget(dead)
    simulator.crash(dead)
    simulator.forget(dead)
    other.send(dead.peer, b"", simulator.now)
    simulator.run(simulator.now + 0.05)
    assert story.of(other, PeerFailed) == [PeerFailed(dead.peer)]
    assert simulator.add_node(dead.peer.node_id).peer.address != other.peer.address


def test_sent_messages_are_counted_by_what_they_are_for() -> None:
    story = Story()
    for node in story.nodes:
        node.subscribe(5, story.simulator.now)
    story.simulator.run(story.simulator.now + 10.0)
    story.nodes[0].send(story.nodes[1].peer, bytes(1000), story.simulator.now)
    story.nodes[0].multicast(5, bytes(1000), story.simulator.now)
    story.simulator.run(story.simulator.now + 1.0)
    counted = [node.statistics() for node in story.nodes]
    for node in counted:
        by_class = {traffic: getattr(node, f"sent_{traffic}") for traffic in Traffic}
        assert sum(by_class.values()) == node.sent
        assert sum(getattr(node, f"sent_{traffic}_bytes") for traffic in Traffic) == node.sent_bytes
        assert min(by_class[traffic] for traffic in (Traffic.JOIN, Traffic.DETECTOR, Traffic.REPAIR, Traffic.TREE)) > 0
    assert (counted[0].sent_direct, counted[0].sent_direct_bytes // 1000) == (1, 1)
    assert sum(node.sent_multicast_bytes for node in counted) // 1000 in (3, 4)
