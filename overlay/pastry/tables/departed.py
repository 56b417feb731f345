"""Peers that are not there any more: whom not to believe in on hearsay, and whom to look for.

Theory. A peer that failed or left stays on others' lists for a while, and they would name it again. So it is
*buried* for TOMBSTONE_S: what third parties say of it is ignored, unless they name another address, where it
may have been started anew. Its own messages dig it out at once, for a peer that speaks is alive, whatever was
believed before.

A peer that failed may also be well, on the other side of a partition, where it holds this node for dead. Both
sides would stay apart for ever if nobody tried. So failed peers (not those that said goodbye) are remembered
as *gone*, and one of them is tried from time to time, as long as it is remembered.
"""

from overlay.core.random_source import RandomSource
from overlay.wire.peer import Peer

TOMBSTONE_S = 15.0
TOMBSTONES_MAX = 1024
GONE_S = 24 * 3600.0
GONE_MAX = 256


class Departed:
    """The buried and the gone, each bounded: the oldest make room.

    >>> departed = Departed()
    >>> departed.bury(Peer(7, "a:1"), now=0.0, is_gone=True)
    >>> departed.is_buried(Peer(7, "a:1"), now=14.0), departed.is_buried(Peer(7, "b:1"), now=14.0)
    (True, False)
    >>> departed.is_buried(Peer(7, "a:1"), now=15.0), 7 in departed
    (False, True)
    >>> departed.take_back(7), 7 in departed
    (True, False)
    """

    def __init__(self) -> None:
        # Both in the order of time, as every entry lives equally long.
        self._buried: dict[int, tuple[float, Peer]] = {}
        self._gone: dict[int, tuple[float, Peer]] = {}

    def bury(self, peer: Peer, now: float, *, is_gone: bool) -> None:
        """Believe nobody who speaks of the peer for a while; when it is gone, remember where it was."""
        self._buried.pop(peer.node_id, None)
        self._buried[peer.node_id] = (now, peer)
        if len(self._buried) > TOMBSTONES_MAX:
            del self._buried[next(iter(self._buried))]
        if is_gone:
            self._gone.pop(peer.node_id, None)
            self._gone[peer.node_id] = (now, peer)
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]

    def is_buried(self, peer: Peer, now: float) -> bool:
        """Say whether hearsay about a peer at this address is to be ignored."""
        if peer.node_id not in self._buried:
            return False
        since, buried = self._buried[peer.node_id]
        return now < since + TOMBSTONE_S and buried.address == peer.address

    def take_back(self, node_id: int) -> bool:
        """Forget that a peer was not there; return whether it counted as gone."""
        self._buried.pop(node_id, None)
        return self._gone.pop(node_id, None) is not None

    def one_gone(self, now: float, random: RandomSource) -> Peer | None:
        """Return one of the gone peers at random, None when there are none."""
        while self._gone and next(iter(self._gone.values()))[0] <= now - GONE_S:
            del self._gone[next(iter(self._gone))]
        if not self._gone:
            return None
        peers = [peer for _, peer in self._gone.values()]
        return peers[int(random.random() * len(peers))]

    @property
    def has_gone(self) -> bool:
        """Whether there is anyone to look for."""
        return bool(self._gone)

    def is_gone(self, node_id: int) -> bool:
        """Say whether a peer is being looked for."""
        return node_id in self._gone

    def clear(self) -> None:
        """Forget all of it."""
        self._buried.clear()
        self._gone.clear()

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._buried or node_id in self._gone

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._buried) <= TOMBSTONES_MAX
        assert len(self._gone) <= GONE_MAX
        for entries in (self._buried, self._gone):
            assert all(node_id == peer.node_id for node_id, (_, peer) in entries.items())
            times = [since for since, _ in entries.values()]
            assert times == sorted(times)
