"""Leases: a node owns keys only while its neighbours on the ring certainly believe that it does.

Theory. A neighbour that cannot hear this node any more drops it, and takes over its keys. This node must have
stopped before that, although it may hear the neighbour well (links can break in one direction), or have stood
still. So it owns keys only for as long as what it heard proves that the neighbour cannot have dropped it yet:

* an answer to a ping: the neighbour has heard this node when it was sent or later, and drops nobody whom it heard
  within LEASE_S;
* a ping with a new token: only now the neighbour begins to wait for this node, and drops nobody it has waited for
  shorter than PROMISE_S. (A repeated ping proves nothing: it says that the one before was not answered.)
* a ping that a third node relays for the neighbour, when it has waited for a while: RELAYED_PROMISE_S.

Each neighbour would inherit a part of this node's keys, those to which it is closest but for this node; so a lease
that has lapsed stops the node only there, until that neighbour answers or another is in its place. A newcomer next to
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
    """The leases of one node, one a ring neighbour. `revision` grows when one lapses or is there again."""

    def __init__(self, tables: PeerTables) -> None:
        self.revision = 0
        self._tables = tables
        self._leases: dict[Id, _Lease] = {}
        self._lapsed: frozenset[Id] = frozenset()
        self._lasting_until = -inf
        self._members: frozenset[Id] = frozenset()
        self._members_revision = -1

    def follow(self, now: float) -> list[Peer]:
        """Keep to the neighbours as they are now, see which leases have lapsed; return who is to be asked for one."""
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
        """All neighbours have just answered."""
        self.clear()
        self.follow(now)

    def answered(self, node_id: int, asked_at: float, now: float) -> None:
        """A peer has answered what it was asked at that time."""
        self._renew(node_id, asked_at + LEASE_S, now)

    def pinged(self, node_id: int, token: int, now: float) -> None:
        """A peer has pinged this node."""
        lease = self._leases.get(Id(node_id))
        if lease is not None and lease.token != token:
            lease.token = token
            self._renew(node_id, now + PROMISE_S, now)

    def relayed(self, node_id: int, now: float) -> None:
        """A peer has had this node pinged by another."""
        self._renew(node_id, now + RELAYED_PROMISE_S, now)

    def _renew(self, node_id: int, until: float, now: float) -> None:
        lease = self._leases.get(Id(node_id))
        if lease is not None and until > lease.until:
            lease.until = until
            if node_id in self._lapsed:
                self.follow(now)

    def cover(self, key: int) -> bool:
        """Say whether a key to which this node is the closest is certainly not another's by now."""
        return not self._lapsed or closest(key, self._leases) not in self._lapsed

    def next_timer(self) -> float | None:
        """Return when the next lease will have lapsed."""
        earliest = None
        for node_id, lease in self._leases.items():
            if node_id not in self._lapsed and (earliest is None or lease.until < earliest):
                earliest = lease.until
        return earliest

    def clear(self) -> None:
        """Have no neighbours."""
        self._leases.clear()
        self._lasting_until = -inf
        self._lapsed = self._members = frozenset()
        self._members_revision = -1

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._leases) <= 2
        assert self._lapsed <= self._leases.keys()
