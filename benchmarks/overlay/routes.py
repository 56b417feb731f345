"""Hops and stretch of routes between random nodes and random keys, next to Pastry's published figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from benchmarks.report import Comparison
from overlay import Delivered, Event, Node, Peer

from .lines import at_most, beside, size
from .population import Population

HOPS = "mean hops"
STRETCH = "stretch"
PASTRY_HOPS = {5_000: 2.73}
HOPS_TARGET, HOPS_TARGET_FROM = 0.95, 256
STRETCH_TARGET = 2.0
ROUTES = 2_000


@dataclass(frozen=True, slots=True)
class Routes:
    """Mean hops of routes; ratio of their total time to that of direct ways."""

    hops: float
    stretch: float


def measure(population: Population, count: int = ROUTES) -> Routes:
    """Send messages and observe their delivery."""
    sent: list[tuple[Peer, float]] = []
    took_s: list[tuple[float, float]] = []

    def note(now: float, node: Node, event: Event) -> None:
        if isinstance(event, Delivered):
            origin, at = sent[int.from_bytes(event.payload, "big")]
            if origin.node_id != node.peer.node_id:
                took_s.append((now - at, population.latency.delay_s(origin, node.peer)))

    delivered, hops = population.count("delivered"), population.count("delivered_hops")
    population.observe(note)
    nodes = [*population.live.values()]
    for number in range(count):
        origin = population.random.choice(nodes)
        sent.append((origin.peer, population.now))
        origin.route(population.key(), number.to_bytes(4, "big"), population.now)
    population.run(5.0)
    population.observe(None)
    delivered, hops = population.count("delivered") - delivered, population.count("delivered_hops") - hops
    return Routes(hops / delivered, sum(routed for routed, _ in took_s) / sum(direct for _, direct in took_s))


def lines(nodes: int, routes: Sequence[Routes]) -> list[Comparison]:
    """Return the lines: medians over the seeds."""
    hops, stretch = median(one.hops for one in routes), median(one.stretch for one in routes)
    report = [
        at_most(
            f"{HOPS}: {size(nodes)}", hops, "hops", HOPS_TARGET * log(nodes, 16) if nodes >= HOPS_TARGET_FROM else None
        )
    ]
    if nodes in PASTRY_HOPS:
        report.append(beside(f"{HOPS}: {size(nodes)}", hops, "hops", "Pastry, published", PASTRY_HOPS[nodes]))
    return [*report, at_most(f"{STRETCH}: {size(nodes)}", stretch, "x", STRETCH_TARGET)]
