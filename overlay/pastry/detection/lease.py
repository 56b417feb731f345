"""Leases: a node owns keys only while its ring neighbours certainly consider it alive.

Theory. A neighbour that stops hearing from this node drops it and takes over its keys. This node must have stopped
serving them before that, although it may hear the neighbour well (links can break in one direction) or may have been
stalled. So it owns keys only for as long as received messages prove that the neighbour cannot have dropped it yet:

* an answer to a ping: the neighbour heard from this node when it was sent or later, and drops no node it heard from
  within LEASE_S;
* a ping with a new token: the neighbour begins to wait for this node only now, and drops no node it has waited for less
  than PROMISE_S. (A repeated ping proves nothing: it says that the previous one was not answered.)
* a ping that a third node relays for the neighbour, which has been waiting for a while: RELAYED_PROMISE_S.

Each neighbour would inherit a part of this node's keys: the keys to which it is closest after this node. So an expired
lease stops this node for that part only, until that neighbour answers or another takes its place. A newcomer next to
this node has just met it; a member that moves up as others fail has to answer first.
"""

from math import inf

from overlay.pastry.tables.tables import PeerTables
from overlay.wire.ids import Id, closest
from overlay.wire.peer import Peer

LEASE_S = 3.0
PROMISE_S = 2.5
RELAYED_PROMISE_S = 2.0


class _Lease:
    __slots__ = ("token", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.token: int | None = None


class Leases:
    """The leases of one node, one per ring neighbour. `revision` grows when a lease expires or is renewed after
    that.
    """

    def __init__(self, tables: PeerTables) -> None:
        self.revision = 0
        self._tables = tables
        self._leases: dict[Id, _Lease] = {}
        self._lapsed: frozenset[Id] = frozenset()
        self._lasting_until = -inf
        self._members: frozenset[Id] = frozenset()
        self._members_revision = -1

    def follow(self, now: float) -> list[Peer]:
        """Follow the current ring neighbours and expire leases; return the peers to ask for a new lease."""
        moved_up: list[Peer] = []
        if self._members_revision != self._tables.leaf_set_revision:
            self._members_revision = self._tables.leaf_set_revision
            moved_up = self._replace_neighbours(now)
            self._lasting_until = -inf
        if now >= self._lasting_until:
            self._see_what_lapsed(now)
        return moved_up

    def _see_what_lapsed(self, now: float) -> None:
        lapsed = frozenset(node_id for node_id, lease in self._leases.items() if now >= lease.until)
        self._lasting_until = min((lease.until for lease in self._leases.values()), default=inf)
        if lapsed != self._lapsed:
            self._lapsed = lapsed
            self.revision += 1

    def _replace_neighbours(self, now: float) -> list[Peer]:
        leaf_set = self._tables.leaf_set
        neighbours = {peer.node_id: peer for peer in (*leaf_set.successors[:1], *leaf_set.predecessors[:1])}
        before, self._leases = self._leases, {}
        for node_id in neighbours:
            has_met = node_id not in self._members
            self._leases[node_id] = before.get(node_id) or _Lease(now + LEASE_S if has_met else now)
        moved_up = [peer for node_id, peer in neighbours.items() if node_id not in before and node_id in self._members]
        self._members = frozenset(peer.node_id for peer in leaf_set)
        return moved_up

    def restart(self, now: float) -> None:
        """Renew all leases: every neighbour has just answered."""
        self.clear()
        self.follow(now)

    def answered(self, node_id: int, asked_at: float, now: float) -> None:
        """Renew a lease: the peer has answered a question asked at that time."""
        self._renew(node_id, asked_at + LEASE_S, now)

    def pinged(self, node_id: int, token: int, now: float) -> None:
        """Renew the lease of a peer that has pinged this node."""
        lease = self._leases.get(Id(node_id))
        if lease is not None and lease.token != token:
            lease.token = token
            self._renew(node_id, now + PROMISE_S, now)

    def relayed(self, node_id: int, now: float) -> None:
        """Renew the lease of a peer that has had this node pinged by a helper."""
        self._renew(node_id, now + RELAYED_PROMISE_S, now)

    def _renew(self, node_id: int, until: float, now: float) -> None:
        lease = self._leases.get(Id(node_id))
        if lease is not None and until > lease.until:
            lease.until = until
            if node_id in self._lapsed:
                self.follow(now)

    def cover(self, key: int) -> bool:
        """Say whether a key to which this node is closest certainly cannot belong to a neighbour yet."""
        return not self._lapsed or closest(key, self._leases) not in self._lapsed

    def next_timer(self) -> float | None:
        """Return when the next lease expires."""
        earliest = None
        for node_id, lease in self._leases.items():
            if node_id not in self._lapsed and (earliest is None or lease.until < earliest):
                earliest = lease.until
        return earliest

    def clear(self) -> None:
        """Forget all leases."""
        self._leases.clear()
        self._lasting_until = -inf
        self._lapsed = self._members = frozenset()
        self._members_revision = -1

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._leases) <= 2
        assert self._lapsed <= self._leases.keys()
