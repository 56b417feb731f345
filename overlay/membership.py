"""How a node gets into the overlay and keeps its tables right: join, leaf-set probes, periodic exchange.

The states and the reasons are in `overlay.join`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from overlay.events import Joined
from overlay.ids import DIGIT_VALUES, DIGITS, shared_prefix_length
from overlay.join import (
    EXCHANGE_PERIOD_S,
    JOIN_RETRY_S,
    PROBE_ATTEMPTS_MAX,
    PROBE_RETRY_S,
    JoinEvent,
    JoinState,
    ProtocolError,
    next_state,
)
from overlay.leaf_set import LeafSet
from overlay.messages import (
    HOPS_MAX,
    Announcement,
    JoinReply,
    JoinRequest,
    LeafSetAnswer,
    LeafSetProbe,
    RowAnswer,
    RowRequest,
)
from overlay.neighbourhood import Neighbourhood
from overlay.outbox import Outbox
from overlay.peer import Peer
from overlay.random_source import RandomSource, jittered
from overlay.routing import next_hop
from overlay.routing_table import RoutingTable

PROBES_MAX = 64
ROWS_PEERS_MAX = DIGITS * (DIGIT_VALUES - 1)


@dataclass(slots=True)
class _Probe:
    peer: Peer
    sent_at: float
    attempts: int


class Membership:
    """The tables of one node and the protocol that fills them.

    `revision` grows whenever the members of the leaf set or the state change, `leaf_set_revision` with the former.
    """

    def __init__(self, peer: Peer, outbox: Outbox, random: RandomSource) -> None:
        self.peer = peer
        self.leaf_set = LeafSet(peer)
        self.routing_table = RoutingTable(peer)
        self.neighbourhood = Neighbourhood()
        self.state = JoinState.IDLE
        self.revision = 0
        self.leaf_set_revision = 0
        self._outbox = outbox
        self._random = random
        self._contact = peer
        self._probes: dict[int, _Probe] = {}
        self._row_asked_of: int | None = None
        self._retry_at: float | None = None
        self._exchange_at: float | None = None

    @property
    def is_active(self) -> bool:
        """Whether the node delivers."""
        return self.state is JoinState.ACTIVE

    def next_hop(self, key: int) -> Peer | None:
        """Return where to pass a message for the key; None when this node is closest."""
        return next_hop(key, self.peer, self.leaf_set, self.routing_table)

    def start(self, now: float) -> None:
        """Begin an overlay of one node."""
        self._activate(JoinEvent.START_CALLED, now)

    def join(self, contact: Peer, now: float) -> None:
        """Join the overlay of the contact."""
        if contact.node_id == self.peer.node_id:
            raise ProtocolError("a node cannot join through itself: call start() for the first node")
        self.state = next_state(self.state, JoinEvent.JOIN_CALLED)
        self._contact = contact
        self._request_join(now)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due."""
        if self._retry_at is None or self._exchange_at is None:
            return self._exchange_at if self._retry_at is None else self._retry_at
        return min(self._retry_at, self._exchange_at)

    def handle_timer(self, now: float) -> None:
        """Repeat what was not answered; exchange with the neighbours when it is time."""
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            if self.state is JoinState.JOINING:
                self._request_join(now)
            else:
                self._repeat_probes(now)
        if self._exchange_at is not None and now >= self._exchange_at:
            self._exchange(now)

    def _request_join(self, now: float) -> None:
        request = JoinRequest(joiner=self.peer, hops=0, next_row=0, rows=(), neighbours=())
        self._outbox.send(self._contact, request)
        self._retry_at = now + jittered(JOIN_RETRY_S, self._random)

    def handle_join_request(self, _sender: Peer, message: JoinRequest, _now: float) -> None:
        """Add what the joiner can use of this node's tables, and pass the request on or answer it."""
        joiner = message.joiner
        if joiner.node_id == self.peer.node_id or message.hops >= HOPS_MAX:
            self._outbox.counters.refused += 1
            return
        shared = shared_prefix_length(self.peer.node_id, joiner.node_id)
        mine = chain.from_iterable(self.routing_table.row(row) for row in range(message.next_row, shared + 1))
        rows = (*message.rows, *mine, self.peer)[:ROWS_PEERS_MAX]
        neighbours = message.neighbours if message.hops else tuple(self.neighbourhood)
        hop = next_hop(joiner.node_id, self.peer, self.leaf_set, self.routing_table, (joiner.node_id,))
        if hop is None:
            self._outbox.send(joiner, JoinReply(rows=rows, neighbours=neighbours, leaves=self.leaf_set.members))
            return
        onward = JoinRequest(
            joiner=joiner,
            hops=message.hops + 1,
            next_row=max(message.next_row, shared + 1),
            rows=rows,
            neighbours=neighbours,
        )
        self._outbox.send(hop, onward)

    def handle_join_reply(self, sender: Peer, message: JoinReply, now: float) -> None:
        """Fill the routing table from hearsay, and probe everyone who may belong in the leaf set."""
        if self.state is not JoinState.JOINING:
            return
        self.state = next_state(self.state, JoinEvent.REPLY_RECEIVED)
        for peer in chain(message.rows, message.neighbours):
            self.routing_table.offer(peer)
        # Other joiners may have probed this node already: they too have to confirm that they know it.
        for peer in self.leaf_set:
            self._send_probe(peer, now, attempts=1)
        self._probe_candidates((sender, *message.leaves), now)
        self._retry_at = now + jittered(PROBE_RETRY_S, self._random)

    def handle_probe(self, sender: Peer, message: LeafSetProbe, now: float) -> None:
        """Take the prober in before answering: it relies on that."""
        if self.state is JoinState.IDLE:
            self._outbox.counters.refused += 1
            return
        self._meet(sender)
        self._outbox.send(sender, LeafSetAnswer(leaves=self.leaf_set.members))
        self._probe_candidates(message.leaves, now)

    def handle_answer(self, sender: Peer, message: LeafSetAnswer, now: float) -> None:
        """Take the peer in, look at whom it knows, and become active with the last open probe."""
        if self.state is JoinState.IDLE:
            self._outbox.counters.refused += 1
            return
        probe = self._probes.pop(sender.node_id, None)
        if probe is not None and probe.attempts == 1:
            self.neighbourhood.observe(sender, now - probe.sent_at)
        self._meet(sender)
        self._probe_candidates(message.leaves, now)
        self._settle_probes(now)

    def handle_announcement(self, sender: Peer, _message: Announcement, _now: float) -> None:
        """Learn of a node that has become active."""
        if self.state is JoinState.IDLE:
            self._outbox.counters.refused += 1
            return
        self._meet(sender)

    def handle_row_request(self, sender: Peer, message: RowRequest, _now: float) -> None:
        """Give a row of the routing table."""
        self._outbox.send(sender, RowAnswer(peers=self.routing_table.row(message.row)))

    def handle_row_answer(self, sender: Peer, message: RowAnswer, _now: float) -> None:
        """Fill empty cells from a row that was asked for."""
        if sender.node_id != self._row_asked_of:
            self._outbox.counters.refused += 1
            return
        self._row_asked_of = None
        for peer in message.peers:
            self.routing_table.offer(peer)

    def _meet(self, peer: Peer) -> None:
        """Take in a peer that has spoken for itself."""
        self.routing_table.offer(peer)
        if self.leaf_set.offer(peer):
            self.revision += 1
            self.leaf_set_revision += 1

    def forget(self, node_id: int, now: float) -> bool:
        """Take a peer out of every table; return whether it was in one."""
        known = self.routing_table.remove(node_id)
        self.neighbourhood.remove(node_id)
        if self.leaf_set.remove(node_id):
            self.revision += 1
            self.leaf_set_revision += 1
            known = True
        if self._probes.pop(node_id, None) is not None:
            self._settle_probes(now)
        return known

    def renew(self, peer: Peer) -> None:
        """Bring a peer's address up to date where it is known."""
        if self.routing_table.next_hop(peer.node_id) is not None:
            self.routing_table.renew(peer)
        if peer.node_id in self.leaf_set:
            self.leaf_set.offer(peer)

    def _probe_candidates(self, peers: Iterable[Peer], now: float) -> None:
        for peer in peers:
            wanted = self.leaf_set.admits(peer.node_id) and peer.node_id not in self._probes
            if wanted and len(self._probes) < PROBES_MAX:
                self._send_probe(peer, now, attempts=1)

    def _send_probe(self, peer: Peer, now: float, attempts: int) -> None:
        self._probes[peer.node_id] = _Probe(peer, now, attempts)
        self._outbox.send(peer, LeafSetProbe(leaves=self.leaf_set.members))
        if self._retry_at is None:
            self._retry_at = now + jittered(PROBE_RETRY_S, self._random)

    def _repeat_probes(self, now: float) -> None:
        overdue = [probe for probe in self._probes.values() if now - probe.sent_at >= PROBE_RETRY_S / 2]
        for probe in overdue:
            if probe.attempts < PROBE_ATTEMPTS_MAX:
                self._send_probe(probe.peer, now, probe.attempts + 1)
            else:
                del self._probes[probe.peer.node_id]
        if self._probes and self._retry_at is None:
            self._retry_at = now + jittered(PROBE_RETRY_S, self._random)
        self._settle_probes(now)

    def _settle_probes(self, now: float) -> None:
        if self._probes or self.state is JoinState.JOINING:
            return
        self._retry_at = None
        if self.state is JoinState.PROBING:
            self._activate(JoinEvent.ALL_ANSWERED, now)

    def _activate(self, event: JoinEvent, now: float) -> None:
        self.state = next_state(self.state, event)
        self.revision += 1
        self._exchange_at = now + jittered(EXCHANGE_PERIOD_S, self._random)
        known = {peer.node_id: peer for peer in chain(self.routing_table, self.neighbourhood)}
        strangers = [peer for node_id, peer in known.items() if node_id not in self.leaf_set]
        self._outbox.send_all(strangers, Announcement())
        self._outbox.emit(Joined())

    def _exchange(self, now: float) -> None:
        """Compare leaf sets with the nearest neighbour on each side, and ask some peer for a routing row."""
        self._exchange_at = now + jittered(EXCHANGE_PERIOD_S, self._random)
        nearest = {peer.node_id: peer for peer in (*self.leaf_set.successors[:1], *self.leaf_set.predecessors[:1])}
        self._outbox.send_all(nearest.values(), LeafSetProbe(leaves=self.leaf_set.members))
        row = int(self._random.random() * max(1, self.routing_table.row_count))
        peers = self.routing_table.row(row)
        if peers:
            asked = peers[int(self._random.random() * len(peers))]
            self._row_asked_of = asked.node_id
            self._outbox.send(asked, RowRequest(row=row))

    def check(self) -> None:
        """Assert every invariant."""
        self.leaf_set.check()
        self.routing_table.check()
        self.neighbourhood.check()
        assert len(self._probes) <= PROBES_MAX
        assert self.peer.node_id not in self._probes
        assert (self._exchange_at is not None) == self.is_active
        assert self._retry_at is not None or not (self._probes or self.state is JoinState.JOINING)
        assert self._probes or self.state is not JoinState.PROBING
