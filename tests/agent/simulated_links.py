"""The links between simulated agents."""

from __future__ import annotations

import random
from collections.abc import Callable

from overlay import Peer

LEAST = 0.2
"""The shortest way over a link, as a part of the longest."""


class LinkLatency:
    """Links differ in speed by orders of magnitude and overtake each other; each one keeps its own order."""

    def __init__(self, source: random.Random, clock: Callable[[], float]) -> None:
        self._random = source
        self._clock = clock
        self._scale: dict[tuple[int, int], float] = {}
        self._last: dict[tuple[int, int], float] = {}
        self._slower: dict[int, float] = {}

    def delay_s(self, sender: Peer, receiver: Peer) -> float:
        link = (sender.node_id, receiver.node_id)
        if link not in self._scale:
            self._scale[link] = 10 ** self._random.uniform(-3.0, -0.7)
        now = self._clock()
        longest_s = max(
            self._scale[link], self._slower.get(sender.node_id, 0.0), self._slower.get(receiver.node_id, 0.0)
        )
        drawn = now + longest_s * self._random.uniform(LEAST, 1.0)
        self._last[link] = max(drawn, self._last.get(link, 0.0) + 1e-6)
        return self._last[link] - now

    def slow_down(self, peer: Peer, longest_s: float) -> None:
        """Every way from and to a peer takes up to this long from now on."""
        self._slower[peer.node_id] = longest_s

    def longest_s(self, sender: Peer, receiver: Peer) -> float:
        """The most that a way takes which was gone before."""
        slower = (self._slower.get(one.node_id, 0.0) for one in (sender, receiver))
        return max(self._scale[sender.node_id, receiver.node_id], *slower)

    def half_way_s(self, one: Peer, other: Peer) -> tuple[float, float]:
        """The least and the most that half of there and back takes; nothing where both are the same."""
        if one.node_id == other.node_id:
            return 0.0, 0.0
        both = self.longest_s(one, other) + self.longest_s(other, one)
        return LEAST * both / 2, both / 2
