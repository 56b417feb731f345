"""How long the simulator takes for a minute of a fleet at rest, with a tree over all of it."""

import time

from benchmarks.report import Comparison

from .lines import at_most, size
from .population import Population, progress

REST_S = 60.0
TARGET_S = 60.0


def run(nodes: int, seed: int) -> list[Comparison]:
    """Wall-clock time, and the messages and bytes that each node sent meanwhile."""
    population = Population(seed)
    population.grow(nodes)
    population.plant(1)
    population.run(10.0)
    progress(f"{nodes:,} nodes, seed {seed}: {REST_S:g} s of rest")
    sent, sent_bytes = population.count("sent"), population.count("sent_bytes")
    began = time.perf_counter()
    population.run(REST_S)
    took_s = time.perf_counter() - began
    node_seconds = nodes * REST_S
    place = size(nodes)
    return [
        at_most(f"simulator, wall clock of {REST_S:g} s of rest: {place}", took_s, "s", TARGET_S),
        at_most(f"messages of a node at rest: {place}", (population.count("sent") - sent) / node_seconds, "messages/s"),
        at_most(
            f"bytes of a node at rest: {place}", (population.count("sent_bytes") - sent_bytes) / node_seconds, "B/s"
        ),
    ]
