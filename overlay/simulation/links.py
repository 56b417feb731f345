"""Faults of links in a simulated network: cut links lose messages, clogged links delay them."""

from collections.abc import Iterable
from math import inf

NEVER = inf


class Links:
    """Faulty links, one direction at a time, as pairs of sets of node ids.

    >>> links = Links()
    >>> links.block([1], [2, 3], until=5.0)
    >>> links.opens_at(1, 3, now=4.0), links.opens_at(3, 1, now=4.0), links.opens_at(1, 3, now=6.0)
    (5.0, 4.0, 6.0)
    """

    def __init__(self) -> None:
        self._blocked: list[tuple[frozenset[int], frozenset[int], float]] = []

    def block(self, senders: Iterable[int], receivers: Iterable[int], until: float) -> None:
        """Delay messages sent from now on by `senders` to `receivers` until a time; NEVER loses them."""
        self._blocked.append((frozenset(senders), frozenset(receivers), until))

    def clear(self) -> None:
        """Repair every link. Messages delayed on a clogged link keep their time."""
        self._blocked.clear()

    def opens_at(self, sender: int, receiver: int, now: float) -> float:
        """Return the departure time of a message sent now: now on a link without faults, NEVER on one that is cut."""
        opens = now
        for senders, receivers, until in self._blocked:
            if until > opens and sender in senders and receiver in receivers:
                opens = until
        return opens
