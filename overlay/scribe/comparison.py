"""Detects differences between two nodes' views of their shared tree edges, and locates them.

Every heartbeat carries the digest of all edges of the pair. While a change is in transit the two ends differ for a
moment; when they differ in the same way at two heartbeats, or in any way at more, one end sends its digest in
EDGE_BUCKETS parts (EdgeBuckets). The other answers with the edges it believes in, in the parts that differ
(GroupDigest), and asks for the same. Each then repairs its own end. The cost depends on the edges in the differing
parts; if there are too many, the rest follows later, because each exchange starts at a random place.
"""

from dataclasses import dataclass

from overlay.scribe.edges import bucket
from overlay.scribe.group import Group, parents_checksum
from overlay.scribe.tree_state import TreeState
from overlay.wire.ids import Id
from overlay.wire.messages import (
    EDGE_BUCKETS,
    GROUPS_PER_DIGEST_MAX,
    EdgeBuckets,
    GroupDigest,
)
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import (
    UpwardEdge,
)

HEARTBEAT_S = 0.5
"""Heartbeats closer together than this count as one."""
DIFFERENT_MAX = 3
DOUBTS_MAX = 4_096
EDGES_PER_EXCHANGE_MAX = 8_192


@dataclass(slots=True)
class _Mismatch:
    """The two digests of a pair at their last difference, and the number of differences so far."""

    values: tuple[int, int]
    since: float
    times: int = 1


class Comparison:
    """One node's comparison with its neighbours."""

    def __init__(self, trees: TreeState) -> None:
        self._index = trees.index
        self._outbound = trees.outbound
        self._random = trees.random
        self._mismatches: dict[int, _Mismatch] = {}

    def compare(self, sender: Peer, edges: int, now: float) -> None:
        """Compare a neighbour's digest with this node's. O(1) when they agree."""
        values = (self._index.digest(sender.node_id), edges)
        if values[0] == values[1]:
            self._mismatches.pop(sender.node_id, None)
            return
        doubt = self._mismatches.get(sender.node_id)
        if doubt is None:
            self._mismatches[sender.node_id] = _Mismatch(values, now)
            if len(self._mismatches) > DOUBTS_MAX:
                del self._mismatches[next(iter(self._mismatches))]
        elif now - doubt.since >= HEARTBEAT_S:
            if values == doubt.values or doubt.times >= DIFFERENT_MAX - 1:
                self.exchange(sender)
            else:
                doubt.values, doubt.since, doubt.times = values, now, doubt.times + 1

    def exchange(self, peer: Peer) -> None:
        """Start locating the differences with a peer."""
        self._mismatches.pop(peer.node_id, None)
        self._outbound.send(peer, EdgeBuckets(digests=self._index.buckets(peer.node_id)))

    def handle_buckets(self, sender: Peer, message: EdgeBuckets, _now: float) -> None:
        """Send this node's edges in the parts that differ."""
        self._mismatches.pop(sender.node_id, None)
        own = self._index.buckets(sender.node_id)
        self.send_edges(sender, sum((own[n] != message.digests[n]) << n for n in range(EDGE_BUCKETS)), asks=True)

    def send_edges(self, peer: Peer, buckets: int, *, asks: bool) -> None:
        """Send a peer the edges shared with it in some parts."""
        below, above = (
            self._in(self._index.below(peer.node_id), buckets),
            self._in(self._index.above(peer.node_id), buckets),
        )
        if buckets and (asks or below or above):
            for first in range(0, max(len(below), len(above), 1), GROUPS_PER_DIGEST_MAX):
                part = slice(first, first + GROUPS_PER_DIGEST_MAX)
                digest = GroupDigest(
                    buckets=buckets,
                    children=tuple(group.key for group in below[part]),
                    parents=tuple(map(_upward, above[part])),
                    asks=asks and first == 0,
                )
                self._outbound.send(peer, digest)

    def _in(self, groups: list[Group], buckets: int) -> list[Group]:
        """Return the groups that are in the buckets, starting at a random one if they are too many."""
        found = [group for group in groups if buckets >> bucket(group.key) & 1]
        if len(found) > EDGES_PER_EXCHANGE_MAX:
            start = int(self._random.random() * len(found))
            found = [*found[start:], *found[:start]][:EDGES_PER_EXCHANGE_MAX]
        return found

    def forget(self, node_id: int) -> None:
        """Forget a peer."""
        self._mismatches.pop(node_id, None)

    def clear(self) -> None:
        """Forget all peers."""
        self._mismatches.clear()

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._mismatches) <= DOUBTS_MAX


def _upward(group: Group) -> UpwardEdge:
    return UpwardEdge(Id(group.key), parents_checksum(group), group.epoch, group.recent)
