"""Nodes that come and go all the time."""

import random
from collections import Counter
from collections.abc import Callable

import pytest
from overlay_observer import Observer
from overlay_oracle import leaf_set_errors, simulated_overlay, tree_errors
from seeds import seeds

from overlay import Churn, Node, ParetoSessions, Sessions, Simulator, WeibullSessions, closest

KEY = 1 << 100


class Churning:
    """An overlay under churn, all in one group, with a route now and then."""

    def __init__(self, seed: int, sessions: Sessions, size: int = 30, **options: float) -> None:
        self.source = random.Random(seed)
        self.simulator = Simulator(random.Random(f"network {seed}"))
        self.observer = Observer(self.simulator, [KEY])
        self.staying = simulated_overlay(self.simulator, 4, self.source)
        self.churn = Churn(
            self.simulator, self.source, sessions, staying=self.staying, on_join=self.subscribe, **options
        )
        for node in self.staying:
            self.subscribe(node)
        for _ in range(size - len(self.staying)):
            node = self.simulator.add_node()
            node.join(self.staying[0].peer, self.simulator.now)
            self.subscribe(node)
            self.churn.add(node)
        self.simulator.run(self.simulator.now + 10.0)

    def subscribe(self, node: Node) -> None:
        node.subscribe(KEY, self.simulator.clock(node))

    @property
    def nodes(self) -> list[Node]:
        return [*self.staying, *self.churn.nodes]

    def run(self, seconds: float) -> Counter[str]:
        """Route once in a quarter of a second; return what became of the payloads."""
        fates: Counter[str] = Counter()
        sent: dict[bytes, tuple[int, int]] = {}
        for number in range(round(seconds * 4)):
            key, payload = self.source.getrandbits(128), b"%d" % number
            active = [node.peer.node_id for node in self.nodes if node.is_active]
            sent[payload] = (key, closest(key, active))
            self.source.choice(self.staying).route(key, payload, self.simulator.now)
            self.churn.run(self.simulator.now + 0.25)
            self.observer.check_all()
        self.churn.run(self.simulator.now + 1.0)
        for payload, (_, nearest) in sent.items():
            count = self.observer.delivered[payload]
            right = count and self.observer.delivered_by[payload].peer.node_id == nearest
            fates["right" if right else "elsewhere" if count else "lost"] += 1
            fates["again"] += max(0, count - 1)
        return fates


@pytest.mark.parametrize(
    "sessions",
    [WeibullSessions(60.0), pytest.param(ParetoSessions(60.0), marks=pytest.mark.slow)],
    ids=["weibull", "pareto"],
)
@pytest.mark.parametrize("seed", seeds(slow=[1, 2, 3]))
def test_routes_arrive_while_nodes_come_and_go(seed: int, sessions: Sessions) -> None:
    churning = Churning(seed, sessions)
    fates = churning.run(120.0)
    churn = churning.churn
    print(f"seed {seed}: {churn.crashes} crashes, {churn.leaves} left, {churn.joins} joined; routes: {dict(fates)}")
    assert churning.observer.violations == []
    assert min(churn.crashes, churn.leaves, churn.joins) >= 5
    assert fates["right"] >= 0.95 * fates.total()
    churning.simulator.run(churning.simulator.now + 20.0)
    nodes = churning.nodes
    assert [str(node.peer) for node in nodes if not node.is_active] == []
    assert leaf_set_errors(nodes) == []
    assert tree_errors(nodes, KEY, {node.peer.node_id for node in nodes}) == []


@pytest.mark.parametrize(("leaving", "returning"), [(0.0, 0.0), (1.0, 1.0)])
def test_how_nodes_go_and_who_comes_is_the_callers(leaving: float, returning: float) -> None:
    churning = Churning(1, WeibullSessions(20.0), size=12, leaving=leaving, returning=returning)
    ids = {node.peer.node_id for node in churning.nodes}
    churning.churn.run(churning.simulator.now + 60.0)
    churn = churning.churn
    assert churn.joins > 10
    assert (churn.leaves == 0) == (leaving == 0.0)
    assert (churn.crashes == 0) == (leaving == 1.0)
    came = {node.peer.node_id for node in churning.nodes} - ids
    assert (came == set()) == (returning == 1.0)
    assert len(list(churning.simulator.nodes)) == len(churning.nodes)


@pytest.mark.slow
def test_a_seed_fixes_churn() -> None:
    def run_trace(seed: int) -> tuple[str, int]:
        churning = Churning(seed, ParetoSessions(20.0), size=10)
        churning.churn.run(churning.simulator.now + 30.0)
        return churning.simulator.trace_hash(), churning.churn.joins

    assert run_trace(1) == run_trace(1)
    assert run_trace(1) != run_trace(2)


@pytest.mark.parametrize("kind", [WeibullSessions, ParetoSessions])
def test_sessions_have_their_median_and_a_long_tail(kind: Callable[[float], Sessions]) -> None:
    source = random.Random(1)
    drawn = sorted(kind(300.0).draw_s(source) for _ in range(20_000))
    assert drawn[0] >= 0.0
    assert 290.0 < drawn[10_000] < 310.0
    assert drawn[18_000] > 4 * 300.0, "an exponential distribution has 3.3 medians there"
