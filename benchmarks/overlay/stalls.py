"""An hour in which messages get lost and nodes stall: no living node may be removed from the overlay.

Each node stalls for 2 s repeatedly, at times of its own: 7 to 27 s lie between two stalls, so that a tenth of the nodes
is stalled at any moment.
"""

from collections import Counter

from benchmarks.report import Comparison
from overlay import Event, Node

from .lines import at_most, size
from .population import Population, progress

LOSS = 0.05
STALL_S = 2.0
PAUSE_S = (7.0, 27.0)
GROWN_LIMIT_S = 30.0


class _Events:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, _now: float, _node: Node, event: Event) -> None:
        self.counts[type(event).__name__] += 1


def run(nodes: int, seconds: float, seed: int) -> list[Comparison]:
    """Measure removals, and the failures that were taken back, per hour and node."""
    population = Population(seed)
    population.grow(nodes)
    population.plant(1)
    population.simulator.loss = LOSS
    events = _Events()
    population.observe(events.note)
    end = population.now + seconds
    turns = {node_id: population.random.uniform(*PAUSE_S) for node_id in population.live}
    told_at = population.now
    while population.now < end:
        node_id = min(turns, key=turns.__getitem__)
        population.simulator.run(max(population.now, turns[node_id]))
        population.simulator.stall(population.live[node_id], population.now + STALL_S)
        turns[node_id] = population.now + STALL_S + population.random.uniform(*PAUSE_S)
        if population.now >= told_at + 600:
            told_at = population.now
            progress(f"{nodes:,} nodes, seed {seed}: {end - population.now:.0f} s of stalls to go")
    place = f"{seconds / 60:g} min, {size(nodes)} nodes, {LOSS:.0%} loss, 10% stalled"
    failed, removed = events.counts["PeerFailed"], events.counts["PeerRemoved"]
    return [
        at_most(f"false removals: {place}", removed, "removals", 0.0),
        at_most(f"false failures, taken back: {place}", failed / nodes / (seconds / 3600), "a node and hour"),
    ]
