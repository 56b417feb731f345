"""How long simulated messages take."""

from math import hypot
from typing import Protocol

from overlay.peer import Peer
from overlay.random_source import RandomSource


class Latency(Protocol):
    """How long a message takes from one peer to another, in seconds."""

    def delay_s(self, sender: Peer, receiver: Peer) -> float:
        """Return the delay of the next message on this link."""


class UniformLatency:
    """Every message takes between `low_s` and `high_s`, whatever the link."""

    def __init__(self, random: RandomSource, low_s: float = 0.001, high_s: float = 0.010) -> None:
        self._random = random
        self._low_s = low_s
        self._width_s = high_s - low_s

    def delay_s(self, sender: Peer, receiver: Peer) -> float:  # noqa: ARG002 - the model knows no places
        """Return a delay drawn anew."""
        return self._low_s + self._width_s * self._random.random()


class PlaneLatency:
    """Peers are points in a square whose side takes `side_s` to cross; every message has up to 10% on top.

    A peer gets its place when it is first seen.
    """

    def __init__(self, random: RandomSource, side_s: float = 0.050) -> None:
        self._random = random
        self._side_s = side_s
        self._places: dict[int, tuple[float, float]] = {}

    def delay_s(self, sender: Peer, receiver: Peer) -> float:
        """Return the time the straight line takes, never less than a hundredth of the side's."""
        here, there = self._place(sender), self._place(receiver)
        length = max(0.01, hypot(here[0] - there[0], here[1] - there[1]))
        return self._side_s * length * (1 + 0.1 * self._random.random())

    def _place(self, peer: Peer) -> tuple[float, float]:
        if peer.node_id not in self._places:
            self._places[peer.node_id] = (self._random.random(), self._random.random())
        return self._places[peer.node_id]
