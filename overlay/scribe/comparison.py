"""How two nodes notice that they disagree about the tree edges they share, and find out where.

Every heartbeat carries the digest of all edges of the pair. While something is under way the two ends differ for a
moment; where they differ at two heartbeats in the same way, or at more in any way, one end sends its digest in
EDGE_BUCKETS parts (EdgeBuckets). The other says what edges it believes in, of the parts that differ (GroupDigest), and
asks for the same. Each then mends its own end. What that costs depends on the edges in the parts that differ; of very
many the rest follows another time, beginning anywhere.
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
"""Two looks at a digest that are closer together than this count as one."""
DIFFERENT_MAX = 3
DOUBTS_MAX = 4_096
EDGES_PER_EXCHANGE_MAX = 8_192


@dataclass(slots=True)
class _Doubt:
    """The two digests of a pair as they differed last, and how often they did."""

    values: tuple[int, int]
    since: float
    times: int = 1


class Comparison:
    """One node's view of the digests of its neighbours."""

    def __init__(self, trees: TreeState) -> None:
        self._index = trees.index
        self._outbound = trees.outbound
        self._random = trees.random
        self._doubts: dict[int, _Doubt] = {}

    def compare(self, sender: Peer, edges: int, now: float) -> None:
        """Look at the digest a neighbour has sent. O(1) where all is well."""
        values = (self._index.digest(sender.node_id), edges)
        if values[0] == values[1]:
            self._doubts.pop(sender.node_id, None)
            return
        doubt = self._doubts.get(sender.node_id)
        if doubt is None:
            self._doubts[sender.node_id] = _Doubt(values, now)
            if len(self._doubts) > DOUBTS_MAX:
                del self._doubts[next(iter(self._doubts))]
        elif now - doubt.since >= HEARTBEAT_S:
            if values == doubt.values or doubt.times >= DIFFERENT_MAX - 1:
                self.exchange(sender)
            else:
                doubt.values, doubt.since, doubt.times = values, now, doubt.times + 1

    def exchange(self, peer: Peer) -> None:
        """Find out what it is that the two ends disagree about."""
        self._doubts.pop(peer.node_id, None)
        self._outbound.send(peer, EdgeBuckets(digests=self._index.buckets(peer.node_id)))

    def handle_buckets(self, sender: Peer, message: EdgeBuckets, _now: float) -> None:
        """Say what this node believes in where the parts differ."""
        self._doubts.pop(sender.node_id, None)
        own = self._index.buckets(sender.node_id)
        self.explain(sender, sum((own[n] != message.digests[n]) << n for n in range(EDGE_BUCKETS)), asks=True)

    def explain(self, peer: Peer, buckets: int, *, asks: bool) -> None:
        """Tell a peer of the edges with it in some parts."""
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
        """Return those of the groups that are in the buckets, beginning anywhere if they are too many."""
        found = [group for group in groups if buckets >> bucket(group.key) & 1]
        if len(found) > EDGES_PER_EXCHANGE_MAX:
            start = int(self._random.random() * len(found))
            found = [*found[start:], *found[:start]][:EDGES_PER_EXCHANGE_MAX]
        return found

    def forget(self, node_id: int) -> None:
        """A peer is gone."""
        self._doubts.pop(node_id, None)

    def clear(self) -> None:
        """Be in no tree."""
        self._doubts.clear()

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._doubts) <= DOUBTS_MAX


def _upward(group: Group) -> UpwardEdge:
    return UpwardEdge(Id(group.key), parents_checksum(group), group.epoch, group.recent)
