"""Figures 13b and 13c of the paper: an agent's messages and bytes, by number of agents and by update interval.

One job with one tree over all agents. In each interval every agent sends its parent one message: its own aggregate,
combined with its children's. The rest is the cost of the overlay.
"""

from collections.abc import Sequence

from benchmarks.report import Comparison
from overlay import Id

from .lines import at_most, size
from .population import SETTLED_S, Population, progress

PAYLOAD_BYTES = 1_000
MEASURED_S = 30.0
TURNS = 20
INTERVALS_S = (5.0, 10.0, 30.0)
INTERVALS = (*INTERVALS_S, None)
"""Update intervals; None: no job."""


def packets(interval_s: float | None) -> str:
    """Return the label of a curve."""
    return f"agent's messages, {_job(interval_s)}"


def sent_bytes(interval_s: float | None) -> str:
    """Return the label of a curve."""
    return f"agent's bytes, {_job(interval_s)}"


def _job(interval_s: float | None) -> str:
    return "no job" if interval_s is None else f"update every {interval_s:g} s"


def run(sizes: Sequence[int], seed: int) -> list[Comparison]:
    """Measure a curve for each interval, and one without a job."""
    report: list[Comparison] = []
    for nodes in sizes:
        population = Population(seed)
        population.grow(nodes)
        key = population.plant(1)[0]
        population.run(SETTLED_S)
        for interval_s in INTERVALS:
            before = population.count("sent"), population.count("sent_bytes")
            _update(population, key, interval_s, MEASURED_S)
            messages, bytes_ = population.count("sent") - before[0], population.count("sent_bytes") - before[1]
            agent_seconds = nodes * MEASURED_S
            report.append(at_most(f"{packets(interval_s)}: {size(nodes)}", messages / agent_seconds, "messages/s"))
            report.append(at_most(f"{sent_bytes(interval_s)}: {size(nodes)}", bytes_ / agent_seconds, "B/s"))
        progress(f"{nodes:,} nodes, seed {seed}: updates measured")
    return report


def _update(population: Population, key: Id, interval_s: float | None, seconds: float) -> None:
    """Let each agent report once in each interval, a share of them at a time."""
    if interval_s is None:
        population.run(seconds)
        return
    payload = bytes(PAYLOAD_BYTES)
    nodes = [*population.live.values()]
    start = population.now
    for turn in range(round(seconds / interval_s) * TURNS):
        for node in nodes[turn % TURNS :: TURNS]:
            parent = node.parent(key)
            if parent is not None:
                node.send(parent, payload, population.now)
        population.simulator.run(start + interval_s * (turn + 1) / TURNS)
