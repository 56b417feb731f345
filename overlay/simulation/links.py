"""What is wrong with the links of a simulated network: cut, so that they lose all, or clogged, so that it waits."""

from collections.abc import Iterable
from math import inf

NEVER = inf


class Links:
    """Links that are in trouble, one direction at a time, as pairs of sets of node ids.

    >>> links = Links()
    >>> links.block([1], [2, 3], until=5.0)
    >>> links.opens_at(1, 3, now=4.0), links.opens_at(3, 1, now=4.0), links.opens_at(1, 3, now=6.0)
    (5.0, 4.0, 6.0)
    """

    def __init__(self) -> None:
        self._blocked: list[tuple[frozenset[int], frozenset[int], float]] = []

    def block(self, senders: Iterable[int], receivers: Iterable[int], until: float) -> None:
        """Hold back what is sent from now on by the one to the others; NEVER: lose it."""
        self._blocked.append((frozenset(senders), frozenset(receivers), until))

    def clear(self) -> None:
        """Let every link work. What waits on a clogged one goes on waiting for its time."""
        self._blocked.clear()

    def opens_at(self, sender: int, receiver: int, now: float) -> float:
        """Return when a message sent now sets out: now on a link without trouble, NEVER on one that is cut."""
        opens = now
        for senders, receivers, until in self._blocked:
            if until > opens and sender in senders and receiver in receivers:
                opens = until
        return opens
