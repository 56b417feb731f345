"""The links between simulated agents."""

from __future__ import annotations

import random
from collections.abc import Callable

from overlay import Peer


class LinkLatency:
    """Links differ in speed by orders of magnitude and overtake each other; each one keeps its own order."""

    def __init__(self, source: random.Random, clock: Callable[[], float]) -> None:
        self._random = source
        self._clock = clock
        self._scale: dict[tuple[int, int], float] = {}
        self._last: dict[tuple[int, int], float] = {}

    def delay_s(self, sender: Peer, receiver: Peer) -> float:
        link = (sender.node_id, receiver.node_id)
        if link not in self._scale:
            self._scale[link] = 10 ** self._random.uniform(-3.0, -0.7)
        now = self._clock()
        drawn = now + self._scale[link] * self._random.uniform(0.2, 1.0)
        self._last[link] = max(drawn, self._last.get(link, 0.0) + 1e-6)
        return self._last[link] - now
