"""Peers that were named by others and have not been measured yet."""

from overlay.wire.peer import Peer

CANDIDATES_MAX = 256


class Candidates:
    """A queue in order of first mention; at the limit the oldest are dropped.

    >>> candidates = Candidates(size=2)
    >>> for number in (1, 2, 2, 3):
    ...     candidates.add(Peer(number, f"peer-{number}"))
    >>> candidates.pop().address, candidates.pop().address, candidates.pop()
    ('peer-2', 'peer-3', None)
    """

    def __init__(self, size: int = CANDIDATES_MAX) -> None:
        self._size = size
        self._peers: dict[int, Peer] = {}

    def add(self, peer: Peer) -> None:
        """Add a peer, or renew a known one's address."""
        self._peers[peer.node_id] = peer
        if len(self._peers) > self._size:
            del self._peers[next(iter(self._peers))]

    def pop(self) -> Peer | None:
        """Remove and return the oldest peer."""
        return self._peers.pop(next(iter(self._peers))) if self._peers else None

    def remove(self, node_id: int) -> None:
        """Remove a peer."""
        self._peers.pop(node_id, None)

    def __len__(self) -> int:
        return len(self._peers)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._peers) <= self._size
        assert all(node_id == peer.node_id for node_id, peer in self._peers.items())
