"""Smoothed round-trip times of a bounded number of peers.

Theory. A round trip is never shorter than the propagation delay, but often longer: queues, a busy process, lost CPU
time. So an estimate follows a shorter measurement at once and a longer one slowly: it stays near the minimum, and still
notices that a route has become longer for good.

Pastry's routing table leaves a choice: any peer with the right prefix fits a cell. Choosing near ones (*proximity
neighbour selection*) makes the first hops of a route, which have most peers to choose from, very short; the last hop is
about as long as the direct way. Differences that may be noise are ignored, or tables would never settle.
"""

from math import inf

from overlay.wire.peer import Peer

ESTIMATES_MAX = 1024
SLOWLY = 0.125
CLEARLY = 0.8
NOISE_S = 0.0005


class Proximity:
    """Smoothed round-trip times of at most `size` peers; the one measured longest ago is evicted.

    >>> proximity = Proximity()
    >>> proximity.observe(Peer(1, "far"), 0.08)
    0.08
    >>> proximity.observe(Peer(2, "near"), 0.02), proximity.observe(Peer(2, "near"), 0.10)
    (0.02, 0.03)
    >>> proximity.is_clearly_nearer(2, 1), proximity.is_clearly_nearer(1, 2), proximity.is_clearly_nearer(3, 1)
    (True, False, False)
    >>> proximity.round_trip_s(3), proximity.is_clearly_nearer(1, 3)
    (inf, True)
    """

    def __init__(self, size: int = ESTIMATES_MAX) -> None:
        self._size = size
        # In order of the last measurement.
        self._round_trips: dict[int, float] = {}

    def observe(self, peer: Peer, round_trip_s: float) -> float:
        """Add a measurement; return the estimate."""
        known = self._round_trips.pop(peer.node_id, round_trip_s)
        estimate = min(round_trip_s, known + SLOWLY * (round_trip_s - known))
        self._round_trips[peer.node_id] = estimate
        if len(self._round_trips) > self._size:
            del self._round_trips[next(iter(self._round_trips))]
        return estimate

    def round_trip_s(self, node_id: int) -> float:
        """Return the estimate for a peer; infinity when it was never measured."""
        return self._round_trips.get(node_id, inf)

    def is_clearly_nearer(self, node_id: int, other_id: int) -> bool:
        """Say whether a peer is nearer than another by more than noise."""
        return self.round_trip_s(node_id) < CLEARLY * self.round_trip_s(other_id) - NOISE_S

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._round_trips

    def forget(self, node_id: int) -> None:
        """Drop a peer's estimate."""
        self._round_trips.pop(node_id, None)

    def clear(self) -> None:
        """Drop every estimate."""
        self._round_trips.clear()

    def __len__(self) -> int:
        return len(self._round_trips)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._round_trips) <= self._size
        assert all(round_trip >= 0 for round_trip in self._round_trips.values())
