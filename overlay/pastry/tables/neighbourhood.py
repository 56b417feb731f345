"""The neighbourhood set of Pastry: the peers nearest in round-trip time, whatever their ids."""

from collections.abc import Iterator

from overlay.wire.messages import NEIGHBOURHOOD_SIZE
from overlay.wire.peer import Peer


class Neighbourhood:
    """At most `size` peers with their latest round-trip time; the farthest is evicted for a nearer one.

    A newcomer is given its first contact's set, because peers near to the contact are mostly near to the newcomer.

    >>> near = Neighbourhood(size=1)
    >>> near.observe(Peer(1, "far"), 0.3)
    >>> near.observe(Peer(2, "near"), 0.1)
    >>> [peer.address for peer in near]
    ['near']
    """

    def __init__(self, size: int = NEIGHBOURHOOD_SIZE) -> None:
        self._size = size
        self._measured: dict[int, tuple[float, Peer]] = {}

    def observe(self, peer: Peer, round_trip_s: float) -> None:
        """Record the round-trip time just measured to a peer. O(size)."""
        self._measured[peer.node_id] = (round_trip_s, peer)
        if len(self._measured) > self._size:
            _, farthest = max((away_s, node_id) for node_id, (away_s, _) in self._measured.items())
            del self._measured[farthest]

    def renew(self, peer: Peer) -> None:
        """Bring a peer's address up to date if the peer is a member."""
        if peer.node_id in self._measured:
            self._measured[peer.node_id] = (self._measured[peer.node_id][0], peer)

    def remove(self, node_id: int) -> None:
        """Forget a peer."""
        self._measured.pop(node_id, None)

    def __iter__(self) -> Iterator[Peer]:
        return (peer for _, peer in self._measured.values())

    def __len__(self) -> int:
        return len(self._measured)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._measured) <= self._size
        assert all(node_id == peer.node_id for node_id, (_, peer) in self._measured.items())
