"""A simulated overlay to measure: nodes that join from cold through three seeds, and trees over all of them."""

import random
import sys
from collections.abc import Callable, Sequence

from benchmarks.race import BenchmarkError
from overlay import Event, Id, Latency, Node, PlaneLatency, Simulator

from .truth import Ring, depths, wrong_leaf_sets

SEEDS = 3
SIDE_S = 0.050
STEP_S = 0.25
LIMIT_S = 120.0
SETTLED_S = 70.0
"""Time after the last join in which nodes have found near peers; they seek them for a minute."""


class Population:
    """Nodes, by default in a plane whose side takes 50 ms to cross. `live`: nodes with a running process, by id."""

    def __init__(self, seed: int, *, loss: float = 0.0, latency: Latency | None = None) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.latency = latency or PlaneLatency(self.random, SIDE_S)
        self.simulator = Simulator(self.random, latency=self.latency, loss=loss)
        self.live: dict[int, Node] = {}
        self.contacts: list[Node] = []

    @property
    def now(self) -> float:
        return self.simulator.now

    @property
    def ring(self) -> Ring:
        return Ring(self.live)

    def observe(self, on_event: Callable[[float, Node, Event], None] | None) -> None:
        """Call this with each event of every node from now on."""
        self.simulator.on_event = on_event

    def run(self, seconds: float) -> None:
        self.simulator.run(self.now + seconds)

    def run_until(self, is_done: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> float:
        """Run until the condition, checked every quarter of a second, holds; return the time it took.

        BenchmarkError when it takes too long.
        """
        start = self.now
        while not is_done():
            if self.now - start > limit_s:
                raise BenchmarkError(f"seed {self.seed}, {len(self.live)} nodes: {what} after {limit_s:g} s")
            self.run(STEP_S)
        return self.now - start

    def grow(self, size: int) -> float:
        """Let nodes join from cold, all at once: three seeds known to all nodes, and the others through them.

        Return the time until all nodes were active and had the right leaf set.
        """
        self.contacts = [self.add() for _ in range(min(SEEDS, size))]
        for _ in range(size - len(self.contacts)):
            self.add()
        ring = self.ring
        return self.run_until(
            lambda: all(node.is_active for node in self.live.values()) and not wrong_leaf_sets(self.live, ring),
            "not everyone has joined",
        )

    def add(self) -> Node:
        """Make a node that joins, except for the first."""
        node = self.simulator.add_node()
        if self.live:
            node.join(self.random.choice(self.contacts or [*self.live.values()]).peer, self.now)
        else:
            node.start(self.now)
        self.live[node.peer.node_id] = node
        return node

    def plant(self, trees: int) -> list[Id]:
        """Make every node a member of a number of groups, and wait until each tree leads all of them to its root."""
        keys = [self.key() for _ in range(trees)]
        for node in self.live.values():
            for key in keys:
                node.subscribe(key, self.now)
        ring, size = self.ring, len(self.live)
        self.run_until(
            lambda: all(len(depths(key, self.live, ring)) == size for key in keys), "not every tree is whole"
        )
        return keys

    def key(self) -> Id:
        """Return a random point of the id space."""
        return Id(self.random.getrandbits(128))

    def some(self, share: float) -> list[Node]:
        return self.random.sample([*self.live.values()], round(share * len(self.live)))

    def dismiss(self, node: Node) -> None:
        """Let a node leave, and give the others a moment to handle it."""
        del self.live[node.peer.node_id]
        node.leave(self.now)
        self.run(STEP_S)

    def kill(self, victims: Sequence[Node], *, is_silent: bool) -> None:
        """End processes at once; `silently`: as in a power failure, which the network does not report."""
        for node in victims:
            del self.live[node.peer.node_id]
        if is_silent:
            self.simulator.cut(victims, self.live.values())
        for node in victims:
            self.simulator.crash(node)

    def count(self, counter: str) -> int:
        """Return the sum of one counter over all live nodes."""
        return sum(int(getattr(node.statistics(), counter)) for node in self.live.values())


def progress(text: str) -> None:
    """Print a progress line to stderr."""
    print(text, file=sys.stderr, flush=True)
