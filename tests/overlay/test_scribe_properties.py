"""Whatever happens to nodes and messages: every member raises every multicast once and in order, acknowledgements name
exactly who has one, the digests of all neighbours agree when it is quiet, and no node has too many children.
"""

import pytest
from living_overlay import LivingOverlay, _under
from overlay_oracle import check_all
from seeds import seeds

from overlay import MulticastAcknowledged, MulticastReceived, Node, closest
from overlay.scribe.group import FAN_OUT_MAX


class MulticastOverlay(LivingOverlay):
    """Remembers what is to be acknowledged, by message id, and who was in the tree when it was published."""

    def __init__(self, seed: int, size: int, groups: int = 3) -> None:
        self.acknowledged: dict[int, tuple[Node, bytes, set[int]]] = {}
        super().__init__(seed, size, groups)

    def publish(self, key: int) -> None:
        publisher = self.random.choice([node for node in self.live if node.is_active])
        publisher.multicast(key, f"{len(self.events)} at {self.now}".encode(), self.now)

    def publish_acknowledged(self, key: int) -> None:
        """Note who is under the root at that moment, and so will be waited for."""
        by_id = {node.peer.node_id: node for node in self.live}
        in_tree = _under(closest(key, by_id), key, by_id)
        payload = f"to be acknowledged, at {self.now}".encode()
        publisher = self.random.choice(self.live)
        message_id = publisher.multicast(key, payload, self.now, acknowledged=True, timeout_s=4.0)
        self.acknowledged[message_id] = (publisher, payload, in_tree)

    def received(self, node: Node, key: int) -> list[bytes]:
        return [
            e.payload for _, by, e in self.events if by is node and isinstance(e, MulticastReceived) if e.group == key
        ]

    def digest_errors(self) -> list[str]:
        by_id = {node.peer.node_id: node for node in self.live}
        return [
            f"{node.peer} and {other} differ"
            for node in self.live
            for other in node._scribe.neighbours()
            if other in by_id and node._scribe.edges_with(other) != by_id[other]._scribe.edges_with(node.peer.node_id)
        ]

    def settle(self, seconds: float = 15.0) -> None:
        self.simulator.loss = 0.0
        self.simulator.heal()
        self.run(seconds)
        check_all(self.live)
        assert self.errors(self.live) == []
        assert self.digest_errors() == []
        assert all(len(node.children(key)) <= FAN_OUT_MAX for node in self.live for key in self.keys)


def assert_everything_came(overlay: MulticastOverlay, members: list[Node]) -> None:
    for key in overlay.keys:
        accepted = {p for node in overlay.live for p in overlay.received(node, key)}
        for node in members:
            received = overlay.received(node, key)
            assert len(received) == len(set(received)), "each once"
            assert set(received) == accepted, f"{node.peer} lacks {accepted - set(received)}"


@pytest.mark.parametrize("seed", seeds(0, slow=[1, 2, 3]))
def test_lost_messages_are_pulled(seed: int) -> None:
    overlay = MulticastOverlay(seed, 24)
    overlay.simulator.loss = 0.2
    for _ in range(40):
        overlay.publish(overlay.random.choice(overlay.keys))
        overlay.run(overlay.random.uniform(0.0, 0.4))
    overlay.settle()
    assert_everything_came(overlay, overlay.live)
    assert sum(node.statistics().missed for node in overlay.live) == 0


def root_of(overlay: MulticastOverlay, key: int) -> Node:
    by_id = {node.peer.node_id: node for node in overlay.live}
    return by_id[closest(key, by_id)]


@pytest.mark.parametrize("seed", seeds(22, slow=[0, 201, 1, 2, 3, 5, 6, 24, 78, 105]))
def test_nothing_is_lost_when_roots_crash_and_closer_ones_come(seed: int) -> None:
    overlay = MulticastOverlay(seed, 24)
    members = list(overlay.live)
    overlay.simulator.loss = overlay.random.choice([0.0, 0.05])
    for _ in range(6):
        for _ in range(overlay.random.randrange(8)):
            overlay.publish(overlay.random.choice(overlay.keys))
            overlay.run(overlay.random.uniform(0.0, 0.1))
        key = overlay.random.choice(overlay.keys)
        if overlay.random.random() < 0.5:
            overlay.crash([root_of(overlay, key)], is_silent=overlay.random.random() < 0.5)
        else:
            overlay.add(overlay.simulator.add_node(key + len(overlay.events)))
        overlay.run(overlay.random.uniform(0.0, 8.0))
    overlay.settle(20.0)
    members = [node for node in members if node in overlay.live]
    assert_everything_came(overlay, members)
    assert sum(node.statistics().missed for node in members) == 0


@pytest.mark.parametrize("seed", seeds(0, slow=[1, 2, 3, 4, 5]))
def test_acknowledgements_name_exactly_who_has_it(seed: int) -> None:
    overlay = MulticastOverlay(seed, 40, groups=2)
    overlay.simulator.loss = overlay.random.choice([0.0, 0.1])
    for _ in range(6):
        overlay.publish_acknowledged(overlay.random.choice(overlay.keys))
        overlay.run(overlay.random.uniform(0.0, 1.0))
        if overlay.random.random() < 0.5:
            overlay.crash(overlay.some(0.05))
    overlay.run(8.0)
    live = {node.peer.node_id for node in overlay.live}
    named = 0
    for message_id, (publisher, payload, in_tree) in overlay.acknowledged.items():
        have = {
            by.peer.node_id for _, by, e in overlay.events if isinstance(e, MulticastReceived) and e.payload == payload
        }
        told = [e for _, _, e in overlay.events if isinstance(e, MulticastAcknowledged) and e.message_id == message_id]
        assert told or publisher not in overlay.live, "the publisher is told in any case"
        for event in told:
            named += len(event.received)
            assert event.received <= have
            assert not event.received & event.missing
            if event.received and not event.missing:
                assert in_tree & live <= event.received
    assert named > 100
