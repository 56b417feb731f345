"""A simulated overlay in which all nodes are members of some groups, and its recovery times after faults."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from overlay_observer import Observer
from overlay_oracle import leaf_set_errors, tree_errors

from overlay import Event, LeafSetChanged, MulticastReceived, Node, PeerFailed, PeerLeft, Simulator, closest

STEP_S = 0.25
QUIET_S = 4.0


@dataclass
class Healing:
    """Seconds from a moment until a fault was gone, to the next quarter."""

    orphans: dict[tuple[int, int], float] = field(default_factory=dict)
    """By node and group: who was not under its group's root, or did not know it was."""
    roots: float = 0.0
    leaf_sets: float = 0.0
    trees: float = 0.0

    def orphaned_s(self, quantile: float) -> float:
        times = sorted(self.orphans.values())
        return times[int(quantile * (len(times) - 1))] if times else 0.0

    @property
    def all_s(self) -> float:
        return max(self.roots, self.leaf_sets, self.trees)

    def __str__(self) -> str:
        return (
            f"{len(self.orphans)} orphans, p99 {self.orphaned_s(0.99)} s, at most {self.orphaned_s(1)} s; "
            f"roots {self.roots} s, leaf sets {self.leaf_sets} s, trees {self.trees} s"
        )


class LivingOverlay:
    """Nodes that have joined and settled; `live` are those whose processes run."""

    def __init__(self, seed: int, size: int, groups: int = 6) -> None:
        self.random = random.Random(seed)
        self.events: list[tuple[float, Node, Event]] = []
        self.simulator = Simulator(self.random)
        self.live: list[Node] = []
        self.keys = [self.random.getrandbits(128) for _ in range(groups)]
        self.observer = Observer(self.simulator, self.keys)
        self.simulator.on_event = self._take
        self._multicasts = count()
        for _ in range(size):
            self.add()
        self.run(12.0)
        assert self.errors(self.live) == [], f"seed {seed}"
        self.events.clear()

    @property
    def now(self) -> float:
        return self.simulator.now

    def _take(self, now: float, node: Node, event: Event) -> None:
        self.events.append((now, node, event))
        self.observer(now, node, event)

    def run(self, seconds: float) -> None:
        self.simulator.run(self.now + seconds, stop=self.observer.step)
        self.observer.check_all()
        assert self.observer.violations == []

    def add(self, node: Node | None = None) -> Node:
        """Let a new node join, or a given one, and wait until it is in."""
        node = node or self.simulator.add_node()
        self.join(node)
        self.simulator.run(self.now + 60.0, stop=lambda: node.is_active)
        return node

    def join(self, node: Node) -> None:
        if self.live:
            node.join(self.random.choice(self.live).peer, self.now)
        else:
            node.start(self.now)
        for key in self.keys:
            node.subscribe(key, self.now)
        self.live.append(node)

    def crash(self, nodes: Iterable[Node], *, is_silent: bool = False) -> None:
        """End processes; silently: as when the power fails, so that nobody learns it from the network."""
        nodes = list(nodes)
        self.live = [node for node in self.live if node not in nodes]
        if is_silent:
            self.simulator.cut(nodes, self.live)
        for node in nodes:
            self.simulator.crash(node)

    def some(self, fraction: float) -> list[Node]:
        return self.random.sample(self.live, max(1, round(fraction * len(self.live))))

    def errors(self, nodes: Sequence[Node]) -> list[str]:
        """What is wrong with these nodes, which should be an overlay of their own."""
        by_id = {node.peer.node_id for node in nodes}
        errors = [f"{node.peer} is not active" for node in nodes if not node.is_active] + leaf_set_errors(nodes)
        for key in self.keys:
            roots = sum(node.is_root(key) for node in nodes)
            errors += [f"{key:032x} has {roots} roots"] * (roots != 1)
            errors += tree_errors(nodes, key, by_id)
        return errors

    def heal(self, *components: Sequence[Node], limit: float = 60.0) -> Healing:
        """Run until each of these components has been a sound overlay for some time; measure when it became one."""
        start, healing = self.now, Healing()
        while self.now - start < min(limit, healing.all_s + QUIET_S):
            self.run(STEP_S)
            since = self.now - start
            for nodes in components:
                self._look(nodes, since, healing)
        remaining = [error for nodes in components for error in self.errors(nodes)]
        assert remaining == [], f"after {limit} s: {remaining[:5]}"
        return healing

    def _look(self, nodes: Sequence[Node], since: float, healing: Healing) -> None:
        by_id = {node.peer.node_id: node for node in nodes}
        for key in self.keys:
            under_root = _under(closest(key, by_id), key, by_id)
            for node_id, node in by_id.items():
                if node_id not in under_root or not node.is_attached(key):
                    healing.orphans[node_id, key] = healing.trees = since
            if sum(node.is_root(key) for node in nodes) != 1:
                healing.roots = since
        if leaf_set_errors(nodes):
            healing.leaf_sets = since
        if healing.trees < since and any(tree_errors(nodes, key, set(by_id)) for key in self.keys):
            healing.trees = since

    def assert_multicasts_arrive(self) -> None:
        """Every live node is told once, and nobody else, even by way of a hop that nobody knew to be dead."""
        loss, self.simulator.loss = self.simulator.loss, 0.0
        self.events.clear()
        for key in self.keys:
            self.random.choice(self.live).multicast(key, b"%d" % next(self._multicasts), self.now)
        self.run(5.0)
        received = Counter((node, e.group) for _, node, e in self.events if isinstance(e, MulticastReceived))
        assert received == Counter((node, key) for node in self.live for key in self.keys)
        self.simulator.loss = loss

    def departures(self, node: Node, kind: type[PeerFailed] | type[PeerLeft]) -> list[int]:
        """The peers of whom a node has reported that they failed or left."""
        return [e.peer.node_id for _, by, e in self.events if by is node and isinstance(e, kind)]

    def leaf_set_changes(self, node: Node) -> int:
        return sum(by is node and isinstance(event, LeafSetChanged) for _, by, event in self.events)


def _under(root: int, key: int, by_id: dict[int, Node]) -> set[int]:
    """Return all whose parents lead to the root, without a word from anyone who is not there."""
    verdicts: dict[int, bool] = {root: by_id[root].parent(key) is None}
    for node_id in by_id:
        path: list[int] = []
        here: int | None = node_id
        while here is not None and here in by_id and here not in verdicts and here not in path:
            path.append(here)
            parent = by_id[here].parent(key)
            here = None if parent is None else parent.node_id
        verdict = here is not None and verdicts.get(here, False)
        verdicts.update((passed, verdict) for passed in path)
    return {node_id for node_id, verdict in verdicts.items() if verdict}
