"""Peers that were heard of and whose distance is not known yet."""

from overlay.wire.peer import Peer

CANDIDATES_MAX = 256


class Candidates:
    """Keeps them in the order they were first heard of; at the limit the oldest make room.

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
        """Keep a peer; of one that is known the address is renewed."""
        self._peers[peer.node_id] = peer
        if len(self._peers) > self._size:
            del self._peers[next(iter(self._peers))]

    def pop(self) -> Peer | None:
        """Return the peer that has waited longest, and keep it no longer."""
        return self._peers.pop(next(iter(self._peers))) if self._peers else None

    def remove(self, node_id: int) -> None:
        """Keep a peer no longer."""
        self._peers.pop(node_id, None)

    def __len__(self) -> int:
        return len(self._peers)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._peers) <= self._size
        assert all(node_id == peer.node_id for node_id, peer in self._peers.items())
