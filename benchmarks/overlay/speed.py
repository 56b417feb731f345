"""Time the simulator takes for a minute of a fleet at rest, with a tree over all nodes."""

import time

from benchmarks.report import Comparison

from .lines import at_most, size
from .population import SETTLED_S, Population, progress

REST_S = 60.0
TARGET_S = 60.0
COUNTERS = {"sent": ("messages", "messages/s"), "sent_bytes": ("bytes", "B/s")} | {
    f"sent_{traffic}_bytes": (f"bytes ({traffic})", "B/s") for traffic in ("detector", "repair", "tree")
}


def run(nodes: int, seed: int) -> list[Comparison]:
    """Measure wall-clock time, and the messages and bytes that each node sent meanwhile."""
    population = Population(seed)
    population.grow(nodes)
    population.plant(1)
    population.run(SETTLED_S)
    progress(f"{nodes:,} nodes, seed {seed}: {REST_S:g} s of rest")
    before = {counter: population.count(counter) for counter in COUNTERS}
    began = time.perf_counter()
    population.run(REST_S)
    took_s = time.perf_counter() - began
    rates = {counter: (population.count(counter) - sent) / nodes / REST_S for counter, sent in before.items()}
    place = size(nodes)
    return [
        at_most(f"simulator, wall clock of {REST_S:g} s of rest: {place}", took_s, "s", TARGET_S),
        *(
            at_most(f"{what} of a node at rest: {place}", rates[counter], unit)
            for counter, (what, unit) in COUNTERS.items()
        ),
    ]
