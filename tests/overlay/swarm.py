"""One overlay against everything at once, drawn from one seed; afterwards a part of it must become whole again.

The troubles: messages that get lost, come twice, late, or in a flood after a link was clogged; cuts of the network by
size, of one node alone, or of some links only, in one or both directions; processes that crash with and without a
trace, restart, stand still, and whose clocks jump or drift; nodes that come and go.

Then *liveness*: a core of nodes that are up gets a network without trouble, all others stay cut off from it for good.
The core must become one overlay that is right in everything `errors` knows of.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from overlay_observer import Observer, routing_errors
from overlay_oracle import leaf_set_errors, tree_errors

from overlay import Latency, Node, PlaneLatency, Simulator, UniformLatency

CORE_MIN = 3
LIVENESS_S = 120.0
SEEDS_EVERY_S = 5.0
QUIET_S = 5.0
ROUTED_S = 10.0
"""Time after which a route has met a dead far entry of a routing table and replaced it."""


@dataclass(frozen=True)
class Draw:
    """The parameters a seed draws for a swarm."""

    size: int
    loss: float
    duplication: float
    reordering: float
    is_plane: bool
    troubled_s: float
    mean_gap_s: float
    groups: int

    @classmethod
    def of(cls, source: random.Random, size_max: int) -> Draw:
        return cls(
            size=source.randint(4, size_max),
            loss=source.choice([0.0, 0.0, source.uniform(0.0, 0.1), source.uniform(0.0, 0.3)]),
            duplication=source.choice([0.0, source.uniform(0.0, 0.5)]),
            reordering=source.choice([0.0, source.uniform(0.0, 0.3)]),
            is_plane=source.random() < 0.5,
            troubled_s=source.uniform(20.0, 90.0),
            mean_gap_s=source.choice([0.5, 2.0, 5.0]),
            groups=source.randint(1, 3),
        )


@dataclass
class Swarm:
    """Nodes under faults."""

    seed: int
    size_max: int
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Two sources: what happens to nodes stays the same when the protocol asks for more or fewer random numbers.
        self.source = random.Random(self.seed)
        self.draw = draw = Draw.of(self.source, self.size_max)
        network = random.Random(f"network {self.seed}")
        latency: Latency = PlaneLatency(network) if draw.is_plane else UniformLatency(network)
        self.simulator = Simulator(
            network, latency=latency, loss=draw.loss, duplication=draw.duplication, reordering=draw.reordering
        )
        self.keys = [self.source.getrandbits(128) for _ in range(draw.groups)]
        self.observer = Observer(self.simulator, self.keys)
        self.live: list[Node] = []
        self.dead: list[Node] = []
        self._payloads = count()

    # The life of a swarm.

    def run(self) -> None:
        """Grow, suffer faults and recover; AssertionError at the first violation."""
        for _ in range(self.draw.size):
            self.join()
            self.go_on(self.source.choice([0.05, 0.3]))
        end = self.now + self.draw.troubled_s
        while self.now < end:
            trouble = self.source.choices(*zip(*TROUBLES, strict=True))[0]
            trouble(self)
            self.route()
            self.go_on(self.source.expovariate(1.0 / self.draw.mean_gap_s))
        self.recover()

    def recover(self) -> None:
        core = self.choose_core()
        rest = [node for node in self.live if node not in core]
        self.note(f"liveness: a core of {len(core)}, {len(rest)} cut off")
        self.simulator.loss = self.simulator.duplication = self.simulator.reordering = 0.0
        self.simulator.heal()
        self.simulator.cut(core, rest)
        self.observer.divided([core])
        start, whole_since = self.now, None
        while whole_since is None or self.now - whole_since < QUIET_S:
            if (self.now - start) % SEEDS_EVERY_S < 1.0:
                self.try_seeds(core)
            self.go_on(1.0)
            wrong = self.errors(core)
            whole_since = None if wrong else whole_since or self.now
            assert self.now - start < LIVENESS_S, f"the core is not whole after {LIVENESS_S} s: {wrong[:5]}"
        self.recovered_s = whole_since - start
        self.prove(core)

    def prove(self, core: Sequence[Node]) -> None:
        """Let a whole overlay do what it is for."""
        overlap_s = self.observer.overlap_s
        keys = [*self.keys, *(self.source.getrandbits(128) for _ in range(20))]
        routed = {self.route(key, core): key for key in keys}
        sent = [self.multicast(key, core) for key in self.keys]
        self.go_on(ROUTED_S)
        assert routing_errors(self.observer, routed, core) == []
        assert {payload: self.observer.received[payload] for payload in sent} == dict.fromkeys(sent, len(core))
        assert self.observer.overlap_s == overlap_s, "a key had two roots in a whole overlay"

    def choose_core(self) -> list[Node]:
        """Choose nodes that are up, one of them in the overlay, as somebody must be."""
        active = [node for node in self.live if node.is_active]
        if not active:
            first = self.source.choice(self.awake(self.live))
            now = self.simulator.clock(first)
            first.leave(now)
            self.observer.left(first)
            first.start(now)
            self.subscribe(first)
            active = [first]
        seed = self.source.choice(active)
        others = [node for node in self.live if node is not seed]
        least = min(len(others), CORE_MIN - 1)
        return [
            seed,
            *self.source.sample(others, self.source.choice([len(others), self.source.randint(least, len(others))])),
        ]

    def try_seeds(self, core: Sequence[Node]) -> None:
        """Try a seed repeatedly, as the shells of agents do."""
        for node in self.awake(core[1:]):
            now = self.simulator.clock(node)
            if node.is_active:
                node.meet(core[0].peer, now)
            else:
                node.join(core[0].peer, now)

    def errors(self, nodes: Sequence[Node]) -> list[str]:
        """Return the faults of nodes that should be an overlay of their own."""
        errors = [f"{node.peer} is not active" for node in nodes if not node.is_active] + leaf_set_errors(nodes)
        ids = {node.peer.node_id for node in nodes}
        for key in self.keys:
            roots = sum(node.is_root(key) for node in nodes)
            errors += [f"{key:032x} has {roots} roots"] * (roots != 1)
            errors += tree_errors(nodes, key, ids)
        return errors

    @property
    def now(self) -> float:
        return self.simulator.now

    def go_on(self, seconds: float) -> None:
        self.simulator.run(self.now + seconds, stop=self.observer.step)
        self.observer.check_all()
        assert self.observer.violations == []

    def note(self, what: str) -> None:
        self.log.append(f"{self.now:8.3f} {what}")

    def route(self, key: int | None = None, nodes: Sequence[Node] | None = None) -> bytes:
        payload = b"route %d" % next(self._payloads)
        node = self.source.choice(self.awake(nodes or self.live))
        node.route(self.source.getrandbits(128) if key is None else key, payload, self.simulator.clock(node))
        return payload

    def multicast(self, key: int | None = None, nodes: Sequence[Node] | None = None) -> bytes:
        payload = b"multicast %d" % next(self._payloads)
        node = self.source.choice(self.awake(nodes or self.live))
        node.multicast(self.source.choice(self.keys) if key is None else key, payload, self.simulator.clock(node))
        return payload

    def some(self, fraction_max: float) -> list[Node]:
        return self.source.sample(self.live, max(1, round(self.source.uniform(0.0, fraction_max) * len(self.live))))

    def awake(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes that are not stalled, waiting for one if all are."""
        while not (awake := [node for node in nodes if not self.simulator.stands_still(node)]) and nodes:
            self.go_on(0.5)
        return awake

    def without(self, side: Sequence[Node]) -> list[Node]:
        return [node for node in self.live if node not in side]

    # The troubles.

    def join(self, node: Node | None = None) -> None:
        node = node or self.simulator.add_node()
        now = self.simulator.clock(node)
        if self.live:
            node.join(self.source.choice(self.live).peer, now)
        else:
            node.start(now)
        self.subscribe(node)
        self.live.append(node)
        self.note(f"{node.peer} joins")

    def subscribe(self, node: Node) -> None:
        for key in self.keys:
            node.subscribe(key, self.simulator.clock(node))

    def leave(self) -> None:
        if len(self.live) > CORE_MIN:
            node = self.source.choice(self.awake(self.live))
            self.live.remove(node)
            node.leave(self.simulator.clock(node))
            self.observer.left(node)
            self.simulator.crash(node)
            self.simulator.forget(node)
            self.note(f"{node.peer} leaves")

    def crash(self) -> None:
        victims = self.some(0.3)
        if len(self.live) - len(victims) < CORE_MIN:
            return
        is_silent = self.source.random() < 0.5
        self.note(f"crash of {[node.peer.address for node in victims]}, silent: {is_silent}")
        self.live = self.without(victims)
        self.dead += victims
        if is_silent:
            self.simulator.cut(victims, self.live)
        for node in victims:
            self.simulator.crash(node)

    def restart(self) -> None:
        if self.dead:
            node = self.dead.pop(self.source.randrange(len(self.dead)))
            address = self.source.choice([None, f"{node.peer.address}+"])
            self.join(self.simulator.restart(node, address=address))

    def stall(self) -> None:
        for node in self.some(0.2):
            until = self.now + self.source.choice([0.5, 2.0, 5.0, 15.0])
            self.simulator.stall(node, until)
            self.note(f"{node.peer} stalls until {until:.3f}")

    def change_clock(self) -> None:
        node = self.some(0.0)[0]
        jump_s = self.source.choice([0.0, 1.0, 5.0, 60.0, 3600.0])
        rate = self.source.choice([1.0, 0.98, 1.02])
        self.simulator.change_clock(node, jump_s=jump_s, rate=rate)
        self.note(f"the clock of {node.peer} jumps {jump_s} s, goes {rate} s a second")

    def partition(self) -> None:
        one = self.some(0.5) if self.source.random() < 0.5 else self.some(0.0)
        other, one_way = self.without(one), self.source.random() < 0.5
        if self.source.random() < 0.5:
            one, other = other, one
        self.simulator.cut(one, other, one_way=one_way)
        self.note(f"{[node.peer.address for node in one]} cut off, one way: {one_way}")
        self.observer.divided([] if one_way else [one, other])

    def partial_cut(self) -> None:
        one, other = self.some(0.4), self.some(0.4)
        one_way = self.source.random() < 0.5
        self.simulator.cut(one, other, one_way=one_way)
        self.note(f"links of {len(one)} and {len(other)} cut, one way: {one_way}")

    def clog(self) -> None:
        one, other = self.some(0.5), self.some(0.5)
        until = self.now + self.source.uniform(0.5, 8.0)
        self.simulator.clog(one, other, until, one_way=self.source.random() < 0.5)
        self.note(f"links of {len(one)} and {len(other)} clogged until {until:.3f}")

    def heal(self) -> None:
        self.simulator.heal()
        self.observer.divided([])
        self.note("healed")


TROUBLES: list[tuple[Callable[[Swarm], object], float]] = [
    (Swarm.join, 2.0),
    (Swarm.leave, 1.0),
    (Swarm.crash, 1.5),
    (Swarm.restart, 2.0),
    (Swarm.stall, 2.0),
    (Swarm.change_clock, 1.0),
    (Swarm.partition, 1.0),
    (Swarm.partial_cut, 1.0),
    (Swarm.clog, 1.0),
    (Swarm.heal, 3.0),
    (Swarm.multicast, 2.0),
]
