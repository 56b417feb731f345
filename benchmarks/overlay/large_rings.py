"""Routes in rings too large to join node by node: a node's tables are built when a route first passes it.

A cell of the routing table holds near peers of the fitting ones or, for comparison, random ones.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from statistics import mean

from benchmarks.report import Comparison
from overlay import Id, Latency, Peer, PlaneLatency, build_tables, route_path
from overlay.pastry.tables.tables import PeerTables

from .lines import at_most, beside, size
from .population import SIDE_S, progress
from .routes import HOPS, HOPS_TARGET, STRETCH_TARGET

BUILT_STRETCH = "stretch, tables built directly"
RANDOM_CHOICE = "random choice of peers"
PASTRY_MEAN, PASTRY_MOST, PASTRY_NODES = 4.0, 5.0, 100_000


@dataclass(frozen=True, slots=True)
class Paths:
    """Hops of routes, and the ratio of their total time to that of direct ways."""

    hops: list[int]
    stretch: float


class _Ring:
    """Peers in order of their ids, and the tables of those that routes have passed."""

    def __init__(self, peers: Sequence[Peer], near: Latency | None, source: random.Random) -> None:
        self._peers = peers
        self._near = near
        self._random = source
        self._tables: dict[int, PeerTables] = {}

    def tables(self, peer: Peer) -> PeerTables:
        if peer.node_id not in self._tables:
            self._tables[peer.node_id] = build_tables(peer, self._peers, self._near, random=self._random)
        return self._tables[peer.node_id]


def run(sizes: Sequence[int], routes: int, seed: int) -> list[Comparison]:
    """Measure stretch at all sizes, hops at those beyond the simulated overlays."""
    report: list[Comparison] = []
    for nodes in sizes:
        source = random.Random(seed)
        latency = PlaneLatency(source, SIDE_S)
        ids = sorted(source.getrandbits(128) for _ in range(nodes))
        peers = [Peer(node_id, f"peer-{node_id:x}") for node_id in ids]
        near = measure(peers, routes, latency, latency, source)
        far = measure(peers, routes, latency, None, source)
        place = size(nodes)
        report += [
            at_most(f"{BUILT_STRETCH}: {place}", near.stretch, "x", STRETCH_TARGET),
            beside(f"{BUILT_STRETCH}: {place}", near.stretch, "x", RANDOM_CHOICE, far.stretch),
        ]
        if nodes >= PASTRY_NODES:
            hops, most = mean(near.hops), max(near.hops)
            report.append(at_most(f"{HOPS}: {place}", hops, "hops", HOPS_TARGET * log(nodes, 16)))
            report.append(beside(f"{HOPS}: {place}", hops, "hops", "Pastry, published", PASTRY_MEAN))
            report.append(beside(f"most hops: {place}", most, "hops", "Pastry, published", PASTRY_MOST))
        progress(f"{nodes:,} nodes, seed {seed}: {mean(near.hops):.2f} hops in tables built directly")
    return report


def measure(peers: Sequence[Peer], routes: int, latency: Latency, near: Latency | None, source: random.Random) -> Paths:
    """Route from random peers to random keys; `near`: the latency model that chooses a cell's peers, None: random
    choice.
    """
    ring = _Ring(peers, near, source)
    hops: list[int] = []
    routed_s = direct_s = 0.0
    for _ in range(routes):
        start, key = source.choice(peers), Id(source.getrandbits(128))
        path = route_path(start, key, ring.tables)
        hops.append(len(path) - 1)
        routed_s += sum(latency.delay_s(one, other) for one, other in pairwise(path))
        direct_s += latency.delay_s(start, path[-1]) if len(path) > 1 else 0.0
    return Paths(hops, routed_s / direct_s)
