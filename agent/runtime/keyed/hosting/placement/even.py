"""Places all logical nodes of a job on its agents, evenly: one pure function, the same on every agent."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest

from agent.runtime.keyed.logical_nodes import NODES
from overlay import Id, Peer, distance

CHOICES = 4
"""Ring keys of a node whose owners may host it: its own and three more."""


class KeyOwners:
    """Some agents in the order of the ring, and who of them is nearest to a key."""

    def __init__(self, peers: Iterable[Peer]) -> None:
        self.peers = tuple(sorted(peers, key=lambda peer: peer.node_id))
        self._ids = [peer.node_id for peer in self.peers]

    def of(self, key: Id) -> Peer:
        """The agent closest to a key, of at least one. O(log agents)."""
        after = bisect(self._ids, key)
        one, other = self.peers[after - 1], self.peers[after % len(self.peers)]
        if one is other:
            return one
        near, far = distance(key, one.node_id), distance(key, other.node_id)
        return one if (near, one.node_id) <= (far, other.node_id) else other

    def nearest(self, key: Id, count: int) -> list[Peer]:
        """The agents closest to a key, the closest first. O(log agents + count)."""
        after, size = bisect(self._ids, key), len(self.peers)
        around = range(after - count, after + count) if 2 * count < size else range(size)
        near = (self.peers[place % size] for place in around)
        return nsmallest(count, near, key=lambda peer: (distance(key, peer.node_id), peer.node_id))


def placed_evenly(key: Callable[[int, int], Id], weights: Mapping[Peer, float]) -> list[Peer]:
    """The host of each node: one after the other goes to the least loaded of the owners of its ring keys, by weight.
    `key`: a ring key of a node, by its number. O(nodes · log agents)."""
    if len(weights) == 1:
        return list(weights) * NODES
    owners, takers = KeyOwners(weights), [peer for peer, weight in weights.items() if weight > 0]
    loads = dict.fromkeys(weights, 0)
    hosts = []
    for node in range(NODES):
        own = [owners.of(key(node, choice)) for choice in range(CHOICES)]
        may = [peer for peer in own if weights[peer] > 0] or takers or own
        host = min(may, key=lambda peer: (loads[peer] + 1) / (weights[peer] or 1.0))
        loads[host] += 1
        hosts.append(host)
    return hosts
