"""Pastry's routing decision (paper 2.3): each hop shares more digits with the key or is closer."""

from collections.abc import Container
from itertools import chain

from overlay.pastry.tables.leaf_set import LeafSet
from overlay.pastry.tables.routing_table import RoutingTable
from overlay.wire.ids import closer, closest, shared_prefix_length
from overlay.wire.peer import Peer


def next_hop(
    key: int, owner: Peer, leaf_set: LeafSet, routing_table: RoutingTable, avoid: Container[int] = ()
) -> Peer | None:
    """Return the next hop for a message to `key`, not in `avoid`; None when the owner itself is closest.

    The leaf set decides if the key lies in its range; otherwise the routing table; in the rare case that the cell is
    empty, any known peer with no shorter prefix that is numerically closer than the owner.
    """
    if leaf_set.covers(key):
        nearest = leaf_set.closest(key, avoid)
        return None if nearest.node_id == owner.node_id else nearest
    hop = routing_table.next_hop(key, avoid)
    if hop is not None:
        return hop
    shared = shared_prefix_length(owner.node_id, key)
    nearer = {
        peer.node_id: peer
        for peer in chain(leaf_set, routing_table)
        if peer.node_id not in avoid
        and shared_prefix_length(peer.node_id, key) >= shared
        and closer(key, peer.node_id, owner.node_id)
    }
    return nearer[closest(key, nearer)] if nearer else None
