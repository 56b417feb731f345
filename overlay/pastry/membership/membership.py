"""Joins a node to the overlay with join requests and leaf-set probes.

The states and their reasons are described in `overlay.pastry.membership.join`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from overlay.core.events import Joined
from overlay.core.outbox import Outbox
from overlay.core.random_source import RandomSource, jittered
from overlay.pastry.detection.lease import Leases
from overlay.pastry.membership.join import (
    JOIN_BACK_OFF,
    JOIN_REQUESTS_BURST,
    JOIN_REQUESTS_PER_S,
    JOIN_RETRY_MAX_S,
    JOIN_RETRY_S,
    PROBE_ATTEMPTS_MAX,
    PROBE_RETRY_S,
    JoinEvent,
    JoinState,
    ProtocolError,
    next_state,
)
from overlay.pastry.tables.tables import PeerTables
from overlay.wire.ids import DIGIT_VALUES, DIGITS, clockwise, distance, shared_prefix_length
from overlay.wire.messages import (
    HOPS_MAX,
    LEAF_SET_SIZE,
    Absent,
    Announcement,
    JoinReply,
    JoinRequest,
    LeafSetAnswer,
    LeafSetProbe,
)
from overlay.wire.peer import Peer

PROBES_MAX = 64
JOINER_PROBES_MAX = 6
ROWS_PEERS_MAX = DIGITS * (DIGIT_VALUES - 1)


@dataclass(slots=True)
class _Probe:
    peer: Peer
    sent_at: float
    attempts: int


class Rate:
    """Allows `per_s` actions per second in the long run, and `burst` at once.

    >>> rate = Rate(per_s=2.0, burst=2)
    >>> [rate.allows(now) for now in (0.0, 0.1, 0.2, 0.6)]
    [True, True, False, True]
    """

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at: float | None = None

    def allows(self, now: float) -> bool:
        """Take a token; return whether there was one."""
        since = 0.0 if self._filled_at is None else max(0.0, now - self._filled_at)
        self._filled_at = now
        self._tokens = min(self._burst, self._tokens + since * self._per_s)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Membership:
    """A node's state of membership, and the protocol that fills its tables.

    `revision` grows whenever the members of the leaf set, the leases or the state change.
    """

    def __init__(self, tables: PeerTables, leases: Leases, outbox: Outbox, random: RandomSource) -> None:
        self.peer = tables.peer
        self._join_rate = Rate(JOIN_REQUESTS_PER_S, JOIN_REQUESTS_BURST)
        self._join_attempts = 0
        self.state = JoinState.IDLE
        self._tables = tables
        self._leases = leases
        self._outbox = outbox
        self._random = random
        self._state_revision = 0
        self._contact = tables.peer
        self._stood_still = False
        self._probes: dict[int, _Probe] = {}
        self._candidates: dict[int, Peer] = {}
        self._retry_at: float | None = None

    @property
    def is_active(self) -> bool:
        """Whether the node is a full member that delivers messages for its keys."""
        return self.state is JoinState.ACTIVE

    @property
    def is_idle(self) -> bool:
        """Whether the node is in no overlay and is not joining one."""
        return self.state is JoinState.IDLE

    @property
    def is_probing(self) -> bool:
        """Whether probes are open."""
        return bool(self._probes)

    @property
    def revision(self) -> int:
        """A number that grows with every change of the leaf set's members, the leases or the state."""
        return self._state_revision + self._tables.leaf_set_revision + self._leases.revision

    def next_hop(self, key: int) -> Peer | None:
        """Return the next hop for a message to the key; None when this node is closest."""
        return self._tables.next_hop(key)

    def owns(self, key: int) -> bool:
        """Say whether messages for the key end at this node, and certainly at no other."""
        return self.is_active and self._tables.next_hop(key) is None and self._leases.cover(key)

    def start(self, now: float) -> None:
        """Start an overlay of one node."""
        self._activate(JoinEvent.START_CALLED, now)

    def join(self, contact: Peer, now: float) -> None:
        """Join the contact's overlay; an open join continues through the new contact."""
        if contact.node_id == self.peer.node_id:
            raise ProtocolError("a node cannot join through itself: call start() for the first node")
        self._move(JoinEvent.JOIN_CALLED)
        self._contact = contact
        self._join_attempts = 0
        if self.state is JoinState.JOINING:
            self._request_join(now)

    def resume_after_stall(self, now: float) -> None:
        """Probe the whole leaf set after a stall that outlasted the leases."""
        if not self.is_active:
            return
        self._move(JoinEvent.STOOD_STILL)
        self._stood_still = True
        for peer in self._tables.leaf_set:
            self._send_probe(peer, now, attempts=1)
        self._settle_probes(now)

    def leave(self) -> None:
        """Become idle. The caller notifies the peers."""
        self._move(JoinEvent.LEAVE_CALLED)
        self._leases.clear()
        self._stood_still = False
        self._probes.clear()
        self._candidates.clear()
        self._retry_at = None

    def _move(self, event: JoinEvent) -> None:
        self.state = next_state(self.state, event)
        self._state_revision += 1

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due."""
        return self._retry_at

    def handle_timer(self, now: float) -> list[Peer]:
        """Repeat unanswered requests and probes; return peers that did not answer for too long."""
        if self._retry_at is None or now < self._retry_at:
            return []
        self._retry_at = None
        if self.state is JoinState.JOINING:
            self._request_join(now)
            return []
        return self._repeat_probes(now)

    def _request_join(self, now: float) -> None:
        self._outbox.counters.join_messages += 1
        self.seek(self._contact)
        self._retry_at = now + jittered(
            min(JOIN_RETRY_S * JOIN_BACK_OFF**self._join_attempts, JOIN_RETRY_MAX_S), self._random
        )
        self._join_attempts += 1

    def seek(self, contact: Peer) -> None:
        """Send a request to join at one's own id through the contact; nodes already in the ring send it to find
        theirs.
        """
        message_id = self._random.getrandbits(64)
        request = JoinRequest(joiner=self.peer, hops=0, next_row=0, rows=(), neighbours=(), message_id=message_id)
        self._outbox.send(contact, request)

    def gather(self, message: JoinRequest, now: float) -> JoinRequest | None:
        """Add the rows that the joiner can use and lacks; None if the request is refused."""
        joiner, tables = message.joiner, self._tables
        is_own = joiner.node_id == self.peer.node_id
        if is_own or message.hops >= HOPS_MAX or not self._join_rate.allows(now):
            self._outbox.counters.refused += 1
            return None
        shared = shared_prefix_length(self.peer.node_id, joiner.node_id)
        mine = chain.from_iterable(tables.routing_table.row(row) for row in range(message.next_row, shared + 1))
        return JoinRequest(
            joiner=joiner,
            hops=message.hops,
            next_row=max(message.next_row, shared + 1),
            rows=(*message.rows, *mine, self.peer)[:ROWS_PEERS_MAX],
            neighbours=message.neighbours if message.hops else tuple(tables.neighbourhood),
            message_id=message.message_id,
        )

    def welcome(self, message: JoinRequest) -> None:
        """Answer a joiner to whose id this node is closest."""
        leaves = self._tables.trusted_leaves
        self._outbox.send(message.joiner, JoinReply(rows=message.rows, neighbours=message.neighbours, leaves=leaves))

    def handle_join_reply(self, sender: Peer, message: JoinReply, now: float) -> None:
        """Fill the routing table from hearsay, and probe every peer that may belong in the leaf set.

        An active node gets a reply when it has sought its own id in what may have been another ring.
        """
        if self.state is JoinState.PROBING:
            return
        self._tables.learn_peers(chain(message.rows, message.neighbours), now)
        if self.is_active:
            self.probe_candidates((sender, *message.leaves), now)
            return
        self._move(JoinEvent.REPLY_RECEIVED)
        self._outbox.counters.join_messages += 1
        self._join_attempts = 0
        self.probe_candidates((sender, *message.leaves), now)
        self._retry_at = now + jittered(PROBE_RETRY_S, self._random)

    def handle_probe(self, sender: Peer, message: LeafSetProbe, now: float) -> None:
        """Take the prober into the tables before answering, which the prober relies on."""
        if self.refuse_if_absent(sender):
            return
        self._tables.meet(sender)
        self._outbox.send(sender, LeafSetAnswer(leaves=self._tables.trusted_leaves))
        self.probe_candidates(message.leaves, now)

    def handle_answer(self, sender: Peer, message: LeafSetAnswer, now: float) -> None:
        """Take the peer into the tables, probe the peers it names, and become active with the last open probe."""
        if self.state is JoinState.JOINING:
            return
        probe = self._probes.pop(sender.node_id, None)
        self._outbox.counters.join_messages += probe is not None and not self.is_active
        if probe is not None and probe.attempts == 1:
            self._tables.observe(sender, now - probe.sent_at)
            self._leases.answered(sender.node_id, probe.sent_at, now)
        self._tables.meet(sender)
        self.probe_candidates(message.leaves, now)
        self._settle_probes(now)

    def handle_announcement(self, sender: Peer, _message: Announcement, _now: float) -> None:
        """Take a newly active node into the tables."""
        if self.state is not JoinState.JOINING:
            self._tables.meet(sender, is_new=True)

    def refuse_if_absent(self, sender: Peer) -> bool:
        """Notify a sender that takes this node for a member, if it is not one; return whether it is not.

        The sender has met an earlier process of this id, and serves as a contact as well as any.
        """
        if self.state is JoinState.JOINING:
            self._contact = sender
        if self.state in (JoinState.IDLE, JoinState.JOINING):
            self._outbox.send(sender, Absent())
            return True
        return False

    def forget(self, node_id: int, now: float) -> bool:
        """Remove a peer from every table and close its probe; return whether it was known."""
        known = self._tables.forget(node_id)
        if self._probes.pop(node_id, None) is not None:
            self._probe_nearest(now)
            self._settle_probes(now)
        return known

    def probe_candidates(self, peers: Iterable[Peer], now: float) -> None:
        """Probe the peers that would be in the leaf set if they and the already probed ones are alive.

        A joiner begins with the nearest: these name still nearer ones, so that the rest is never asked.
        """
        for peer in peers:
            admitted = self._tables.leaf_set.admits(peer.node_id) and peer.node_id not in self._probes
            if admitted and not self._tables.departed.has_tombstone(peer, now):
                self._candidates[peer.node_id] = peer
        self._probe_nearest(now)

    def _probe_nearest(self, now: float) -> None:
        """Probe as many candidates as the bounds allow. The others remain candidates in case these do not answer."""
        if not self._candidates:
            return
        nearest = sorted(self._candidates.values(), key=lambda peer: distance(self.peer.node_id, peer.node_id))
        self._candidates = {peer.node_id: peer for peer in nearest[:PROBES_MAX]}
        open_max = PROBES_MAX if self.is_active else JOINER_PROBES_MAX
        for peer in nearest[:PROBES_MAX]:
            fresh = sum(probe.attempts == 1 for probe in self._probes.values())
            if fresh >= open_max or len(self._probes) >= PROBES_MAX:
                return
            if not self._tables.leaf_set.admits(peer.node_id):
                del self._candidates[peer.node_id]
            elif not self._has_nearer(peer):
                del self._candidates[peer.node_id]
                self._send_probe(peer, now, attempts=1)

    def _has_nearer(self, peer: Peer) -> bool:
        """Say whether members, probed peers and other candidates would fill the leaf set without this peer."""
        own_id, node_id = self.peer.node_id, peer.node_id
        nearer = {*self._probes, *self._candidates, *(member.node_id for member in self._tables.leaf_set)}
        above, below = clockwise(own_id, node_id), clockwise(node_id, own_id)
        return (
            sum(clockwise(own_id, other) < above for other in nearer) >= LEAF_SET_SIZE // 2
            and sum(clockwise(other, own_id) < below for other in nearer) >= LEAF_SET_SIZE // 2
        )

    def probe(self, peer: Peer, now: float) -> None:
        """Probe a peer wherever it is on the ring, until it answers or has been silent for too long."""
        if len(self._probes) < PROBES_MAX and peer.node_id not in self._probes:
            self._send_probe(peer, now, attempts=1)

    def _send_probe(self, peer: Peer, now: float, attempts: int) -> None:
        self._probes[peer.node_id] = _Probe(peer, now, attempts)
        self._outbox.counters.join_messages += not self.is_active
        self._outbox.send(peer, LeafSetProbe(leaves=self._tables.trusted_leaves))
        if self._retry_at is None:
            self._retry_at = now + jittered(PROBE_RETRY_S, self._random)

    def _repeat_probes(self, now: float) -> list[Peer]:
        silent = []
        for probe in [probe for probe in self._probes.values() if now - probe.sent_at >= PROBE_RETRY_S / 2]:
            if probe.attempts < PROBE_ATTEMPTS_MAX:
                self._send_probe(probe.peer, now, probe.attempts + 1)
            else:
                silent.append(probe.peer)
        if self._probes and self._retry_at is None:
            self._retry_at = now + jittered(PROBE_RETRY_S, self._random)
        return silent

    def _settle_probes(self, now: float) -> None:
        if self._probes or self.state is JoinState.JOINING:
            return
        self._candidates.clear()
        self._retry_at = None
        if self.state is not JoinState.PROBING:
            return
        if self._stood_still or len(self._tables.leaf_set) > 0:
            self._activate(JoinEvent.ALL_ANSWERED, now)
        else:
            self._move(JoinEvent.NOBODY_ANSWERED)
            self._request_join(now)

    def _activate(self, event: JoinEvent, now: float) -> None:
        self._move(event)
        self._stood_still = False
        self._leases.restart(now)
        tables = self._tables
        strangers = [peer for peer in tables.routing_table if peer.node_id not in tables.leaf_set]
        self._outbox.send_all(strangers, Announcement())
        self._outbox.counters.join_messages += len(strangers)
        self._outbox.emit(Joined())

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._probes) <= PROBES_MAX
        assert len(self._candidates) <= PROBES_MAX
        assert self._probes or not self._candidates
        self._leases.check()
        assert self.peer.node_id not in self._probes
        assert self._retry_at is not None or not (self._probes or self.state is JoinState.JOINING)
        assert self._probes or self.state is not JoinState.PROBING
        assert not (self._probes and self.is_idle)
