"""Peers that have failed or left: ignored in hearsay, and sought in case of a partition.

Theory. A peer that failed or left stays in others' tables for a while, and they would name it again. So it has a
*tombstone* for TOMBSTONE_S: what third parties say of it is ignored, unless they name another address, where it may
have been restarted. A message from the peer itself removes the tombstone at once, because a peer that sends is alive.

A peer that failed may also be well on the other side of a partition, where it considers this node dead. Both sides
would stay apart for ever if no node tried to reconnect. So failed peers (not those that said goodbye) are remembered as
*gone*, and one of them is probed from time to time.
"""

from overlay.core.random_source import RandomSource
from overlay.wire.peer import Peer

TOMBSTONE_S = 15.0
TOMBSTONES_MAX = 1024
GONE_S = 24 * 3600.0
GONE_MAX = 256


class Departed:
    """Tombstones and gone peers, each bounded: the oldest are dropped.

    >>> departed = Departed()
    >>> departed.add(Peer(7, "a:1"), now=0.0, is_gone=True)
    >>> departed.has_tombstone(Peer(7, "a:1"), now=14.0), departed.has_tombstone(Peer(7, "b:1"), now=14.0)
    (True, False)
    >>> departed.has_tombstone(Peer(7, "a:1"), now=15.0), 7 in departed
    (False, True)
    >>> departed.take_back(7), 7 in departed
    (True, False)
    """

    def __init__(self) -> None:
        # Both in order of time, because all entries live equally long.
        self._tombstones: dict[int, tuple[float, Peer]] = {}
        self._gone: dict[int, tuple[float, Peer]] = {}

    def add(self, peer: Peer, now: float, *, is_gone: bool) -> None:
        """Ignore hearsay about the peer for a while; if `is_gone`, remember where it was."""
        self._tombstones.pop(peer.node_id, None)
        self._tombstones[peer.node_id] = (now, peer)
        if len(self._tombstones) > TOMBSTONES_MAX:
            del self._tombstones[next(iter(self._tombstones))]
        if is_gone:
            self._gone.pop(peer.node_id, None)
            self._gone[peer.node_id] = (now, peer)
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]

    def has_tombstone(self, peer: Peer, now: float) -> bool:
        """Say whether hearsay about a peer at this address is to be ignored."""
        if peer.node_id not in self._tombstones:
            return False
        since, known = self._tombstones[peer.node_id]
        return now < since + TOMBSTONE_S and known.address == peer.address

    def take_back(self, node_id: int) -> bool:
        """Forget that a peer had departed; return whether it counted as gone."""
        self._tombstones.pop(node_id, None)
        return self._gone.pop(node_id, None) is not None

    def random_gone(self, now: float, random: RandomSource) -> Peer | None:
        """Return a random gone peer, None when there is none."""
        while self._gone and next(iter(self._gone.values()))[0] <= now - GONE_S:
            del self._gone[next(iter(self._gone))]
        if not self._gone:
            return None
        peers = [peer for _, peer in self._gone.values()]
        return peers[int(random.random() * len(peers))]

    @property
    def has_gone(self) -> bool:
        """Whether there are gone peers."""
        return bool(self._gone)

    def is_gone(self, node_id: int) -> bool:
        """Say whether a peer counts as gone."""
        return node_id in self._gone

    def clear(self) -> None:
        """Forget all peers."""
        self._tombstones.clear()
        self._gone.clear()

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._tombstones or node_id in self._gone

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._tombstones) <= TOMBSTONES_MAX
        assert len(self._gone) <= GONE_MAX
        for entries in (self._tombstones, self._gone):
            assert all(node_id == peer.node_id for node_id, (_, peer) in entries.items())
            times = [since for since, _ in entries.values()]
            assert times == sorted(times)
