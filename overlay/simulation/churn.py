"""Churn: nodes of a simulation that leave or crash when their sessions end, and others that join.

Theory. Sessions of real peers are not exponential: most are short, some very long. Weibull distributions with a shape
below 1 (here 0.6) have been fitted to measured traces; Pareto distributions (here of shape 1.5) have longer tails
still. Both are scaled to a median session. A seeded source samples them by inverting their distribution functions.

The population stays constant: after a pause, each departed node is replaced by one node, either a new one or the same
one restarted under its old id.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Protocol

from overlay.core.random_source import RandomSource
from overlay.node import Node
from overlay.simulation.simulator import Simulator

WEIBULL_SHAPE = 0.6
PARETO_SHAPE = 1.5


class Sessions(Protocol):
    """A distribution of session lengths."""

    def draw_s(self, random: RandomSource) -> float:
        """Return the length of a session in seconds."""


@dataclass(frozen=True, slots=True)
class WeibullSessions:
    """Weibull sessions with this median; with a shape below 1, the longer a node has stayed the longer it will stay.

    >>> import random
    >>> drawn = sorted(WeibullSessions(300.0).draw_s(random.Random(seed)) for seed in range(999))
    >>> 270 < drawn[499] < 330
    True
    """

    median_s: float
    shape: float = WEIBULL_SHAPE

    def draw_s(self, random: RandomSource) -> float:
        """Return the length of a session in seconds."""
        return float(self.median_s * (-log(1.0 - random.random()) / log(2.0)) ** (1.0 / self.shape))


@dataclass(frozen=True, slots=True)
class ParetoSessions:
    """Pareto sessions (Lomax, starting at zero) with this median; the tail is a power law.

    >>> import random
    >>> drawn = sorted(ParetoSessions(300.0).draw_s(random.Random(seed)) for seed in range(999))
    >>> 270 < drawn[499] < 330
    True
    """

    median_s: float
    shape: float = PARETO_SHAPE

    def draw_s(self, random: RandomSource) -> float:
        """Return the length of a session in seconds."""
        scale_s = self.median_s / (2.0 ** (1.0 / self.shape) - 1.0)
        return float(scale_s * ((1.0 - random.random()) ** (-1.0 / self.shape) - 1.0))


class Churn:
    """Ends nodes' sessions in a simulation and lets others join.

    `on_join(node)` is called with each new node right after it was told to join, to subscribe it. `leaving` and
    `returning` are the probabilities that a node says goodbye instead of crashing, and that its replacement has the
    same id. `crashes`, `leaves` and `joins` are counters. The `staying` nodes never leave and serve as contacts.
    """

    def __init__(
        self,
        simulator: Simulator,
        random: RandomSource,
        sessions: Sessions,
        *,
        staying: Sequence[Node],
        on_join: Callable[[Node], None] = lambda _: None,
        leaving: float = 0.5,
        returning: float = 0.5,
        pause_s: float = 5.0,
    ) -> None:
        self.crashes = self.leaves = self.joins = 0
        self._simulator = simulator
        self._random = random
        self._sessions = sessions
        self._contacts = list(staying)
        self._on_join = on_join
        self._leaving = leaving
        self._returning = returning
        self._pause_s = pause_s
        # (time, sequence, node): the end of a running node's session, or the time at which a departed node is replaced.
        self._queue: list[tuple[float, int, Node]] = []
        self._sequence = 0
        self._up: dict[Node, None] = {}

    def add(self, node: Node) -> None:
        """Schedule the end of a joined node's session."""
        self._up[node] = None
        self._plan(node, self._sessions.draw_s(self._random))

    def run(self, until: float) -> None:
        """Run the simulation up to a time, with all departures and arrivals before it."""
        while self._queue and self._queue[0][0] <= until:
            at, _, node = heapq.heappop(self._queue)
            self._simulator.run(at)
            if node in self._up:
                self._go(node)
            else:
                self._come_instead_of(node)
        self._simulator.run(until)

    @property
    def nodes(self) -> list[Node]:
        """The running nodes except for the staying ones."""
        return list(self._up)

    def _go(self, node: Node) -> None:
        del self._up[node]
        if self._random.random() < self._leaving:
            self.leaves += 1
            node.leave(self._simulator.clock(node))
        else:
            self.crashes += 1
        self._simulator.crash(node)
        self._plan(node, self._pause_s * self._random.random())

    def _come_instead_of(self, gone: Node) -> None:
        self.joins += 1
        if self._random.random() < self._returning:
            node = self._simulator.restart(gone)
        else:
            self._simulator.forget(gone)
            node = self._simulator.add_node()
        contact = self._contacts[int(self._random.random() * len(self._contacts))]
        node.join(contact.peer, self._simulator.clock(node))
        self._on_join(node)
        self.add(node)

    def _plan(self, node: Node, after_s: float) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (self._simulator.now + after_s, self._sequence, node))
