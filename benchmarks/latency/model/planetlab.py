"""Trees of production overlays, whose links take as long as those between hosts of PlanetLab."""

from __future__ import annotations

import gzip
import random
from functools import cache

from benchmarks.fish.streams import REAL_LOGS
from benchmarks.overlay.population import Population, progress
from benchmarks.race import BenchmarkError
from overlay import Id, MatrixLatency, Node

from .window_simulation import Links

ROUND_TRIPS = REAL_LOGS / "latency" / "planetlab-490.txt.gz"
"""Milliseconds there and back between 490 hosts."""
TREES = 4
"""Trees of each overlay."""
NEIGHBOURS = 3
"""Agents that hold a master's results, as production has it."""
SETTLED_S = {128: 70.0, 1_280: 5.0}
"""Time in which nodes find near peers, by their number; a larger overlay is given less, as it takes minutes."""
_POLL_S = 2.0


def has_delays() -> bool:
    """Whether the file is there."""
    return ROUND_TRIPS.exists()


@cache
def one_way_delays() -> str:
    """Half of the round trips, as a matrix of milliseconds."""
    with gzip.open(ROUND_TRIPS, "rt") as file:
        rows = [line.split("#")[0].replace(",", " ").split() for line in file]
    return "\n".join(" ".join(f"{float(cell) / 2:.4f}" for cell in row) for row in rows if row)


@cache
def planetlab_trees(agents: int, seed: int = 1) -> tuple[Links, ...]:
    """Trees over so many nodes that have joined a production overlay from cold. Raises BenchmarkError."""
    progress(f"{agents:,} nodes join an overlay")
    source = random.Random(seed)
    population = Population(seed, latency=MatrixLatency(one_way_delays(), source))
    population.grow(agents)
    population.run(SETTLED_S.get(agents, 30.0))
    keys = population.plant(TREES)
    places = {node_id: place for place, node_id in enumerate(population.live)}
    return tuple(_links(population, key, places) for key in keys)


def _links(population: Population, key: Id, places: dict[int, int]) -> Links:
    """One tree, from its root down."""
    nodes, latency = population.live, population.latency
    root = nodes[population.ring.closest(key)]
    order: list[Node] = [root]
    parents, ways = [0], [0.0]
    for place, node in enumerate(order):  # which grows meanwhile
        for child in node.children(key):
            order.append(nodes[child.node_id])
            parents.append(place)
            ways.append(latency.delay_s(child, node.peer))
    if len(order) != len(nodes) or len({node.peer.node_id for node in order}) != len(nodes):
        raise BenchmarkError(f"a tree has {len(order)} places for {len(nodes)} nodes")
    near = sorted(nodes, key=lambda one: min((one - key) % 2**128, (key - one) % 2**128))[1 : NEIGHBOURS + 1]
    held_s = 2 * max(latency.delay_s(root.peer, nodes[one].peer) for one in near)
    delivered_s = latency.delay_s(root.peer, order[-1].peer)
    return Links(tuple(places[one.peer.node_id] for one in order), tuple(parents), tuple(ways), held_s, delivered_s)
