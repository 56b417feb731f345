"""Simulated nodes for which it takes time to do things."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from overlay_oracle import check_all, leaf_set_errors, simulated_overlay

from overlay import Event, MessageReceived, Node, Simulator, UniformLatency

LINK_S = 0.001
COST_S = 0.010
"""Of each message with a payload, once nodes are charged."""


class Costs:
    """What nodes have been given, each with its time, and what it costs them."""

    def __init__(self, seed: int = 1, size: int = 2) -> None:
        source = random.Random(seed)
        self.simulator = Simulator(source, latency=UniformLatency(source, LINK_S, LINK_S), on_event=self._raised)
        self.nodes = simulated_overlay(self.simulator, size, source)
        self.received: list[tuple[float, Node, bytes]] = []
        self.cost_s: dict[Node, float] = {}
        self.simulator.charge = self._charge

    def _charge(self, node: Node, action: Callable[[], object]) -> float:
        action()
        found = [event for event in node.events() if isinstance(event, MessageReceived)]
        self.received += [(self.simulator.now, node, event.payload) for event in found]
        return self.cost_s.get(node, 0.0) * len(found)

    def _raised(self, _now: float, _node: Node, _event: Event) -> None:
        """Whoever charges has taken them."""

    def send(self, sender: Node, receiver: Node, *payloads: bytes) -> None:
        for payload in payloads:
            sender.send(receiver.peer, payload, self.simulator.now)


def test_what_comes_to_a_busy_node_waits_and_keeps_its_order() -> None:
    fleet = Costs()
    one, other = fleet.nodes
    fleet.cost_s[other] = COST_S
    began = fleet.simulator.now
    fleet.send(one, other, b"a", b"b", b"c")
    fleet.simulator.run(began + 1.0)
    assert [(node, payload) for _, node, payload in fleet.received] == [(other, b"a"), (other, b"b"), (other, b"c")]
    times = [at for at, _, _ in fleet.received]
    assert times[0] == pytest.approx(began + LINK_S)
    assert [later - earlier for earlier, later in pairwise(times)] == pytest.approx([COST_S, COST_S])


def test_what_a_node_answers_leaves_when_it_is_done() -> None:
    fleet = Costs()
    one, other = fleet.nodes
    fleet.cost_s[other] = COST_S
    charge = fleet.simulator.charge
    assert charge is not None

    def answer(node: Node, action: Callable[[], object]) -> float:
        before = len(fleet.received)
        took_s = charge(node, action)
        if node is other and len(fleet.received) > before:
            other.send(one.peer, b"answer", fleet.simulator.now)
        return took_s

    fleet.simulator.charge = answer
    began = fleet.simulator.now
    fleet.send(one, other, b"question")
    fleet.simulator.run(began + 1.0)
    assert [(at, payload) for at, node, payload in fleet.received if node is one] == [
        (pytest.approx(began + COST_S + 2 * LINK_S), b"answer")
    ]


def test_a_nodes_owner_works_when_the_node_is_free_and_callers_do_not_wait() -> None:
    fleet = Costs()
    one, other = fleet.nodes
    fleet.cost_s[other] = COST_S
    simulator, began, happened = fleet.simulator, fleet.simulator.now, []
    fleet.send(one, other, b"a")
    simulator.call(began + 2 * LINK_S, lambda: happened.append(("called", simulator.now)))
    simulator.call(
        began + 2 * LINK_S, lambda: simulator.work(other, lambda: happened.append(("worked", simulator.now)))
    )
    simulator.run(began + 1.0)
    assert happened == [
        ("called", pytest.approx(began + 2 * LINK_S)),
        ("worked", pytest.approx(began + LINK_S + COST_S)),
    ]


def test_what_waits_for_a_node_that_crashes_is_gone() -> None:
    fleet = Costs()
    one, other = fleet.nodes
    fleet.cost_s[other] = COST_S
    began = fleet.simulator.now
    fleet.send(one, other, b"a", b"b", b"c")
    fleet.simulator.run(began + 1.5 * COST_S)
    fleet.simulator.crash(other)
    fleet.simulator.run(began + 1.0)
    assert [payload for _, _, payload in fleet.received] == [b"a", b"b"]


def test_an_overlay_of_busy_nodes_stays_whole() -> None:
    fleet = Costs(seed=3, size=20)
    charge = fleet.simulator.charge
    assert charge is not None
    fleet.simulator.charge = lambda node, action: charge(node, action) + 0.0005
    fleet.simulator.run(fleet.simulator.now + 20.0)
    assert leaf_set_errors(fleet.nodes) == []
    check_all(fleet.nodes)
