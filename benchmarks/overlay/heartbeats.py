"""Cost of keeping many trees alive: it should grow with an agent's peers, not with the trees it shares with them."""

from collections.abc import Sequence
from itertools import pairwise

from benchmarks.report import Comparison
from overlay import Node

from .lines import at_most
from .population import SETTLED_S, Population, progress

BYTES, BYTES_PER_PEER = "heartbeats of an agent", "heartbeats for each peer"
RATIO_TARGET = 1.2
FAR_WEIGHT = 1 / 3
"""Weight of peers that are only in the leaf set: they are pinged every three seconds, all others every second."""
MEASURED_S = 20.0
COUNTERS = ("sent_detector", "sent_tree", "sent_detector_bytes", "sent_tree_bytes", "sent_bytes")
"""Heartbeats are pings with their answers, and the exchange of tree edges."""


def run(nodes: int, trees: Sequence[int], members: int, seed: int) -> list[Comparison]:
    """Add trees of random members until their number reaches each of the given ones."""
    population = Population(seed)
    population.grow(nodes)
    population.run(SETTLED_S)
    report: list[Comparison] = []
    per_peer: list[float] = []
    for planted, count in pairwise((0, *trees)):
        for _ in range(count - planted):
            key = population.key()
            for node in population.random.sample([*population.live.values()], members):
                node.subscribe(key, population.now)
            population.run(0.01)
        population.run_until(lambda: _are_attached(population), "not everyone is attached")
        population.run(10.0)
        before = {counter: population.count(counter) for counter in COUNTERS}
        population.run(MEASURED_S)
        agent_seconds = nodes * MEASURED_S
        rates = {counter: (population.count(counter) - sent) / agent_seconds for counter, sent in before.items()}
        messages = rates["sent_detector"] + rates["sent_tree"]
        bytes_ = rates["sent_detector_bytes"] + rates["sent_tree_bytes"]
        near, far = (sum(counts) / nodes for counts in zip(*map(_peers, population.live.values()), strict=True))
        edges = sum(len(node.children(key)) for node in population.live.values() for key in node.groups) / nodes
        per_peer.append(bytes_ / (near + FAR_WEIGHT * far))
        place = f"{count:,} trees"
        report += [
            at_most(f"{BYTES}: {place}", bytes_, "B/s"),
            at_most(f"heartbeat messages of an agent: {place}", messages, "messages/s"),
            at_most(f"all bytes of an agent at rest: {place}", rates["sent_bytes"], "B/s"),
            at_most(f"tree edges of an agent: {place}", edges, "edges"),
            at_most(f"peers of an agent: {place}", near + far, "peers"),
            at_most(f"{BYTES_PER_PEER}: {place}", per_peer[-1], "B/s"),
        ]
        progress(f"{count:,} trees, seed {seed}: {bytes_:.0f} B/s for {near:.1f} near peers and {far:.1f} others")
    label = f"{BYTES_PER_PEER}, {trees[-1]:,} over {trees[0]:,} trees of {members} members, {nodes:,} agents"
    return [*report, at_most(label, per_peer[-1] / per_peer[0], "x", RATIO_TARGET)]


def _are_attached(population: Population) -> bool:
    return all(node.is_attached(key) for node in population.live.values() for key in node.groups)


def _peers(node: Node) -> tuple[int, int]:
    """Return the number of neighbours on the ring or in any tree, and of other peers in the leaf set."""
    leaf_set = node.leaf_set
    near = {peer.node_id for peer in (*leaf_set.successors[:1], *leaf_set.predecessors[:1])}
    for key in node.groups:
        near.update(child.node_id for child in node.children(key))
        parent = node.parent(key)
        if parent is not None:
            near.add(parent.node_id)
    return len(near), len({peer.node_id for peer in leaf_set} - near)
