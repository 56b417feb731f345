"""Improves an active node's routing table with other nodes' rows and with measurements.

Theory. A joiner's routing table consists of hearsay from the nodes on its join route: full, but of peers near to those
nodes, and mostly the ones that everyone names. It improves by gossip. A node asks the *nearest* peers it knows for a
row they share with it, because peers near to them are near to it; now and then it asks any peer, so that near nodes do
not only ever name each other. Unknown peers that are named get measured with a small message that is returned at once.
This happens often for SURVEY_BURST_S after joining; later, one row and one measurement per STEADY_PERIOD_S find
newcomers and check that the peers in the table are still alive and still near: a peer that owes an echo is pinged.

When a route would have used an empty cell, its row is requested at once, hardly more often than once a second.
"""

from dataclasses import dataclass

from overlay.core.outbox import Outbox
from overlay.core.random_source import RandomSource, jittered, one_of, shuffled
from overlay.pastry.detection.watch import Watch
from overlay.pastry.membership.membership import Membership
from overlay.pastry.tables.tables import PeerTables
from overlay.wire.messages import Echo, EchoReply, RowAnswer, RowRequest
from overlay.wire.peer import Peer

SURVEY_BURST_S = 60.0
BURST_PERIOD_S = 1.0
BURST_ECHOES = 6
STEADY_PERIOD_S = 5.0
ECHO_TIMEOUT_S = 3.0
ECHOES_OPEN_MAX = 64
ROW_SOON_S = 1.0
NEAR_ASKED = 4
FAR_ASKED = 0.25
AGAIN = 0.5


@dataclass(frozen=True, slots=True)
class _Owed:
    peer: Peer
    token: int
    sent_at: float


class TableMaintenance:
    """One node's measurements and requests for rows."""

    def __init__(
        self, tables: PeerTables, membership: Membership, watch: Watch, outbox: Outbox, random: RandomSource
    ) -> None:
        self._tables = tables
        self._membership = membership
        self._watch = watch
        self._outbox = outbox
        self._random = random
        # By peer: the echo it owes. In order of time.
        self._open: dict[int, _Owed] = {}
        self._row_asked_of: int | None = None
        self._row_asked_at = 0.0
        self._burst_until = 0.0
        self._turn_at: float | None = None

    def tables_changed(self, now: float) -> None:
        """Start when the node has become active, and stop when it no longer is."""
        if not self._membership.is_active:
            self._open.clear()
            self._turn_at = self._row_asked_of = None
        elif self._turn_at is None:
            self._burst_until = now + SURVEY_BURST_S
            self._turn_at = now + BURST_PERIOD_S * self._random.random()

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due."""
        return self._turn_at

    def handle_timer(self, now: float) -> None:
        """Request a row and measure some peers when due."""
        if self._turn_at is None or now < self._turn_at:
            return
        is_burst = now < self._burst_until
        self._turn_at = now + jittered(BURST_PERIOD_S if is_burst else STEADY_PERIOD_S, self._random)
        self._expire(now)
        asked = self._ask_for_some_row(now)
        if asked is not None and not is_burst:
            self._watch.rely_on(asked, now)
        for _ in range(BURST_ECHOES if is_burst else 1):
            self._measure(now, again=not is_burst)

    def row_wanted(self, key: int, hop: Peer, now: float) -> None:
        """Request the row whose cell was empty from the next hop of a message."""
        if now - self._row_asked_at >= ROW_SOON_S:
            self._ask_for_row(hop, self._tables.routing_table.row_of(key), now)

    def handle_row_request(self, sender: Peer, message: RowRequest, now: float) -> None:
        """Answer with a random peer of each cell of a row, so that requesters get different ones."""
        cells = self._tables.routing_table.cells(message.row)
        self._outbox.send(sender, RowAnswer(peers=tuple(one_of(cell, self._random) for cell in cells)))
        self._tables.learn_peers((sender,), now)

    def handle_row_answer(self, sender: Peer, message: RowAnswer, now: float) -> None:
        """Take in a requested row."""
        if sender.node_id != self._row_asked_of:
            self._outbox.counters.refused += 1
            return
        self._row_asked_of = None
        self._tables.learn_peers(message.peers, now)

    def handle_echo(self, sender: Peer, message: Echo, now: float) -> None:
        """Return the echo. The sender may itself fit into the tables."""
        self._outbox.send(sender, EchoReply(token=message.token))
        self._tables.learn_peers((sender,), now)

    def handle_echo_reply(self, sender: Peer, message: EchoReply, now: float) -> None:
        """Record the round-trip time."""
        owed = self._open.get(sender.node_id)
        if owed is None or owed.token != message.token:
            self._outbox.counters.refused += 1
            return
        del self._open[sender.node_id]
        self._tables.observe(sender, now - owed.sent_at)

    def _expire(self, now: float) -> None:
        """Forget overdue echoes, and ping the peers in the tables that owe them."""
        late = [owed.peer for owed in self._open.values() if owed.sent_at <= now - ECHO_TIMEOUT_S]
        for peer in late:
            del self._open[peer.node_id]
            self._tables.neighbourhood.remove(peer.node_id)
            if self._tables.known(peer.node_id) is not None:
                self._watch.rely_on(peer, now)

    def _measure(self, now: float, *, again: bool) -> None:
        """Send an echo to a peer that has never been measured; if `again`, equally often to a known one."""
        peer = None if again and self._random.random() < AGAIN else self._tables.next_candidate(now)
        if peer is None and again and len(self._tables.routing_table):
            peer = one_of((*self._tables.routing_table, *self._tables.neighbourhood), self._random)
        if peer is None or len(self._open) >= ECHOES_OPEN_MAX:
            return
        owed = _Owed(peer, self._random.getrandbits(32), now)
        self._open.pop(peer.node_id, None)
        self._open[peer.node_id] = owed
        self._outbox.send(peer, Echo(token=owed.token))

    def _ask_for_some_row(self, now: float) -> Peer | None:
        """Request a row from a near peer, sometimes from any; more often one of the first rows, which have most
        choice.
        """
        table = self._tables.routing_table
        row = int(self._random.random() * self._random.random() * table.row_count)
        peers = [peer for number in range(row, table.row_count) for peer in table.row(number)]
        if not peers:
            return None
        if self._random.random() >= FAR_ASKED:
            peers = self._tables.nearest(shuffled(peers, self._random), NEAR_ASKED)
        asked = one_of(peers, self._random)
        self._ask_for_row(asked, row, now)
        return asked

    def _ask_for_row(self, peer: Peer, row: int, now: float) -> None:
        self._row_asked_at = now
        self._row_asked_of = peer.node_id
        self._outbox.send(peer, RowRequest(row=row))

    def check(self) -> None:
        """Assert every invariant."""
        assert (self._turn_at is not None) == self._membership.is_active
        assert len(self._open) <= ECHOES_OPEN_MAX
