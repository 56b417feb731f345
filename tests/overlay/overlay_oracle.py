"""Invariants of a whole overlay, checked with global knowledge, and builders of overlays."""

import random
from collections.abc import Iterable, Sequence

from overlay import MemoryNetwork, Node, Peer, Simulator, closest

HALF_LEAF_SET = 8


def memory_overlay(size: int, seed: int) -> tuple[MemoryNetwork, list[Node], random.Random]:
    """Join nodes one after the other, each through a random earlier one."""
    source = random.Random(seed)
    network = MemoryNetwork()
    nodes: list[Node] = []
    for number in range(size):
        node = Node(Peer(source.getrandbits(128), f"memory-{number}"), random=source)
        network.add(node)
        join_or_start(node, nodes, source, 0.0)
        nodes.append(node)
        network.deliver_all(0.0)
    return network, nodes, source


def join_or_start(node: Node, others: Sequence[Node], source: random.Random, now: float) -> None:
    if others:
        node.join(source.choice(others).peer, now)
    else:
        node.start(now)


def simulated_overlay(simulator: Simulator, size: int, source: random.Random) -> list[Node]:
    """Join nodes one after the other, each when the one before is active."""
    nodes: list[Node] = []
    for _ in range(size):
        node = simulator.add_node()
        join_or_start(node, nodes, source, simulator.now)
        nodes.append(node)
        simulator.run(simulator.now + 60.0, stop=lambda node=node: node.is_active)  # type: ignore[misc]
    return nodes


def check_all(nodes: Iterable[Node]) -> None:
    for node in nodes:
        node.check()


def leaf_set_errors(nodes: Sequence[Node]) -> list[str]:
    """Name the nodes whose leaf set does not hold the nearest nodes on either side."""
    ring = sorted(node.peer.node_id for node in nodes)
    places = {node_id: place for place, node_id in enumerate(ring)}
    reach = min(HALF_LEAF_SET, len(ring) - 1)
    errors = []
    for node in nodes:
        place = places[node.peer.node_id]
        steps = [step for step in range(-reach, reach + 1) if step]
        expected = {ring[(place + step) % len(ring)] for step in steps}
        if {peer.node_id for peer in node.leaf_set} != expected:
            errors.append(f"{node.peer} has another leaf set than its neighbours")
    return errors


def tree_errors(nodes: Sequence[Node], group: int, subscribers: set[int]) -> list[str]:
    """Name the faults that keep a group from being one tree under its key's closest node, over all subscribers."""
    by_id = {node.peer.node_id: node for node in nodes}
    root = closest(group, by_id)
    errors = []
    for node in nodes:
        parent = node.parent(group)
        if parent is not None and (
            parent.node_id not in by_id or node.peer not in by_id[parent.node_id].children(group)
        ):
            errors.append(f"{node.peer} is no child of its parent {parent}")
        strange = [
            c for c in node.children(group) if c.node_id not in by_id or by_id[c.node_id].parent(group) != node.peer
        ]
        errors.extend(f"{node.peer} has a child {child} that has another parent" for child in strange)
        if group in node.groups and _top(node, group, by_id) != root:
            errors.append(f"the parents of {node.peer} do not lead to the root")
        if node.peer.node_id in subscribers and not node.is_attached(group):
            errors.append(f"{node.peer} is subscribed and not attached")
        if group in node.groups and node.peer.node_id not in subscribers and not node.children(group):
            errors.append(f"{node.peer} is in the tree for no reason")
    return errors


def _top(node: Node, group: int, by_id: dict[int, Node]) -> int | None:
    """Follow the parents; None when they form a cycle or lead to a node outside the overlay."""
    for _ in range(len(by_id)):
        parent = node.parent(group)
        if parent is None:
            return node.peer.node_id
        if parent.node_id not in by_id:
            return None
        node = by_id[parent.node_id]
    return None


class Groups:
    """Groups over an overlay, with the truth about who is subscribed to what."""

    def __init__(self, nodes: list[Node], keys: Iterable[int]) -> None:
        self.nodes = nodes
        self.subscribers: dict[int, set[int]] = {key: set() for key in keys}

    def subscribe(self, node: Node, key: int, now: float) -> None:
        node.subscribe(key, now)
        self.subscribers[key].add(node.peer.node_id)

    def unsubscribe(self, node: Node, key: int, now: float) -> None:
        node.unsubscribe(key, now)
        self.subscribers[key].discard(node.peer.node_id)

    def subscribe_some(self, node: Node, probability: float, source: random.Random, now: float) -> None:
        for key in self.subscribers:
            if source.random() < probability:
                self.subscribe(node, key, now)

    def errors(self) -> list[str]:
        return [error for key, ids in self.subscribers.items() for error in tree_errors(self.nodes, key, ids)]
