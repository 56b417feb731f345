"""Keeps an active node's leaf set correct: periodic exchange, and the search for gone peers.

Theory. Leaf sets are compared with the nearest neighbours *periodically*: repair that only reacts answers a burst of
failures with a burst of messages. After a change the next exchange comes soon, but not at once and hardly more than
once a second. When members were lost it also goes to the outermost members, because only they know the nodes beyond.
When these name nobody either, peers of the routing table are asked; when none are left there, the leaf set is the whole
ring.

Two rings that have met in one place merge through the same exchanges: knowledge spreads both ways around the ring, half
a leaf set at a time.

One of the gone peers (`overlay.pastry.tables.departed`) is probed every MEET_PERIOD_S. When one of them is back, a
partition may have ended, and the others are probed in quick succession.
"""

from overlay.core.outbox import Outbox
from overlay.core.random_source import RandomSource, jittered
from overlay.pastry.membership.membership import Membership
from overlay.pastry.tables.tables import PeerTables
from overlay.wire.messages import LeafSetProbe
from overlay.wire.peer import Peer

EXCHANGE_PERIOD_S = 5.0
EXCHANGE_SOON_S = 1.0
MEET_PERIOD_S = 15.0
MEET_SOON_S = 0.2
BEYOND_PROBED = 2
QUIET_ROUNDS = 2


class Repair:
    """The periodic repair of one active node."""

    def __init__(self, tables: PeerTables, membership: Membership, outbox: Outbox, random: RandomSource) -> None:
        self._tables = tables
        self._membership = membership
        self._outbox = outbox
        self._random = random
        self._seen_revision = 0
        self._exchanged_at = 0.0
        self._seen_losses = 0
        self._quiet_rounds = 0
        self._exchange_at: float | None = None
        self._meet_at: float | None = None

    def tables_changed(self, now: float) -> None:
        """Start the exchange when the node has become active; hasten the next one when the leaf set has changed."""
        if not self._membership.is_active:
            self._exchange_at = self._meet_at = None
        elif self._exchange_at is None:
            self._seen_revision = self._tables.leaf_set_revision
            self._exchanged_at = now
            self._exchange_at = now + jittered(EXCHANGE_PERIOD_S, self._random)
        elif self._seen_revision != self._tables.leaf_set_revision:
            soon = max(now, self._exchanged_at + EXCHANGE_SOON_S / 4) + EXCHANGE_SOON_S * 3 / 4 * self._random.random()
            self._exchange_at = min(self._exchange_at, soon)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due."""
        if self._meet_at is None or self._exchange_at is None:
            return self._exchange_at if self._meet_at is None else self._meet_at
        return min(self._meet_at, self._exchange_at)

    def handle_timer(self, now: float) -> None:
        """Exchange leaf sets with the neighbours and probe a gone peer, each when due."""
        if self._exchange_at is not None and now >= self._exchange_at:
            self._exchange(now)
        if self._meet_at is not None and now >= self._meet_at:
            self._meet_at = None
            peer = self._tables.departed.random_gone(now, self._random)
            if peer is not None:
                self.meet(peer)
                self.search_gone(now)

    def meet(self, peer: Peer) -> None:
        """Probe a peer that may be in another ring, and seek the nodes nearest to this one there."""
        if self._membership.is_active and peer.node_id != self._tables.peer.node_id:
            self._outbox.send(peer, LeafSetProbe(leaves=self._tables.trusted_leaves))
            self._membership.seek(peer)

    def search_gone(self, now: float, *, soon: bool = False) -> None:
        """Schedule the probing of gone peers, while there are any."""
        if not self._membership.is_active or not self._tables.departed.has_gone:
            return
        at = now + jittered(MEET_SOON_S if soon else MEET_PERIOD_S, self._random)
        self._meet_at = at if self._meet_at is None else min(self._meet_at, at)

    def _exchange(self, now: float) -> None:
        """Compare leaf sets with the neighbours."""
        leaf_set, revision = self._tables.leaf_set, self._tables.leaf_set_revision
        is_quiet = revision == self._seen_revision and not self._membership.is_probing
        self._quiet_rounds = self._quiet_rounds + 1 if is_quiet else 0
        self._seen_revision, self._exchanged_at = revision, now
        asked = [*leaf_set.successors[:1], *leaf_set.predecessors[:1]]
        if leaf_set.is_short or self._seen_losses != self._tables.losses:
            asked += [*leaf_set.successors[-1:], *leaf_set.predecessors[-1:]]
        self._seen_losses = self._tables.losses
        receivers = {peer.node_id: peer for peer in asked}
        self._outbox.send_all(receivers.values(), LeafSetProbe(leaves=self._tables.trusted_leaves))
        self._exchange_at = now + jittered(EXCHANGE_PERIOD_S, self._random)
        if leaf_set.is_short:
            self._exchange_at = now + jittered(EXCHANGE_SOON_S, self._random)
            self._complete_leaf_set(now)

    def _complete_leaf_set(self, now: float) -> None:
        """Look for members beyond the leaf set; when there are none, the leaf set is the whole ring."""
        leaf_set = self._tables.leaf_set
        is_cut_off = not (leaf_set.successors and leaf_set.predecessors)
        if not is_cut_off and self._quiet_rounds < QUIET_ROUNDS:
            return
        beyond = self._tables.beyond_leaf_set(BEYOND_PROBED)
        self._membership.probe_candidates(beyond, now)
        if not beyond and self._quiet_rounds >= QUIET_ROUNDS:
            self._tables.close_ring()

    def check(self) -> None:
        """Assert every invariant."""
        assert (self._exchange_at is not None) == self._membership.is_active
        assert self._meet_at is None or self._membership.is_active
