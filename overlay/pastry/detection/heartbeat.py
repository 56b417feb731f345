"""Sends pings and answers with this node's incarnation and edge digests.

Theory. A ping and its answer carry a token, which pairs them; an incarnation, which tells old suspicions from new ones;
and a digest of the tree edges that both ends should agree upon, so that one heartbeat per pair serves all trees.

The incarnation combines the start number of the process, which is persisted and grows, and the number of suspicions
that this process has refuted. Only the node itself raises it.
"""

from collections.abc import Callable
from math import inf

from overlay.core.outbox import Outbox
from overlay.core.random_source import RandomSource
from overlay.wire.messages import Ping, Pong, RelayedPing
from overlay.wire.peer import Peer

REFUTATION_BITS = 20
REFUTATION_PAUSE_S = 1.0
"""Minimum time between two increases of the incarnation, however often a node is suspected."""


class Heartbeat:
    """Sends pings and answers. `edges_with` returns the digest of the tree edges shared with a peer."""

    def __init__(self, start_number: int, outbox: Outbox, random: RandomSource) -> None:
        self.incarnation = start_number << REFUTATION_BITS
        self.edges_with: Callable[[int], int] = lambda _node_id: 0
        self._last = self.incarnation + (1 << REFUTATION_BITS) - 1
        self._outbox = outbox
        self._token = random.getrandbits(32)
        self._refuted_at = -inf

    def new_token(self) -> int:
        """Return a token that has not been used before."""
        self._token = (self._token + 1) % (1 << 32)
        return self._token

    def ping(self, peer: Peer, token: int) -> None:
        """Ping a peer."""
        self._outbox.send(peer, Ping(token=token, incarnation=self.incarnation, edges=self.edges_with(peer.node_id)))

    def answer(self, peer: Peer, ping: Ping | RelayedPing) -> None:
        """Answer a ping."""
        edges = self.edges_with(peer.node_id)
        self._outbox.send(peer, Pong(token=ping.token, incarnation=self.incarnation, edges=edges))

    def refute(self, suspected_incarnation: int, now: float) -> int:
        """Raise the incarnation above a suspected one, at most once per pause; return it."""
        is_current = suspected_incarnation >= self.incarnation and now >= self._refuted_at + REFUTATION_PAUSE_S
        if is_current and self.incarnation < self._last:
            self._refuted_at = now
            self.incarnation += 1
        return self.incarnation
