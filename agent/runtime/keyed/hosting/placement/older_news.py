"""News of hosts from epochs before those that an emitter knows: late, as a rule, but right if what it knows was made
up."""

from __future__ import annotations

AGAIN, APART_S = 4, 0.25
"""Times that a host is told again, so far apart, until it is believed."""
SINCE_S, FORGOTTEN_S = 3.0, 10.0
"""Least time between the first and the last of them, and the longest between two."""


class OlderNews:
    """Counts how often the host of a node is told with an older epoch than that which is known. Roots tell it when they
    are asked, so one that is told for seconds is the latest that there is."""

    def __init__(self) -> None:
        self._heard: dict[int, tuple[float, float, int]] = {}

    def is_believed(self, node: int, now: float) -> bool:
        """Takes such news; returns whether the host that is told is the right one after all."""
        since, at, times = self._heard.get(node, (now, -FORGOTTEN_S, 0))
        if now > at + FORGOTTEN_S:
            since, times = now, 0
        if now >= at + APART_S:
            at, times = now, times + 1
        if times >= AGAIN and now >= since + SINCE_S:
            del self._heard[node]
            return True
        self._heard[node] = since, at, times
        return False
