"""Routing under churn: whether every message is delivered at the right node, and once.

A node that crashes (connections to it are refused) is replaced by a newcomer with another id. Three seeds stay, and all
nodes join through them. Sessions are drawn for all nodes at the start, so that there are many short ones. A message
from a random node to a random key is right if the closest of all active nodes, at its sending or its delivery, delivers
it. A message never delivered counts as wrong unless its origin crashed.

A message is applied twice if two nodes deliver it, or one does so twice, while the first of them lives. If the first
one crashed, with all effects of the message, another one has to deliver it: these are counted apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.report import Comparison
from overlay import Churn, Delivered, Event, Id, Node, Sessions

from .lines import at_least, at_most, beside
from .population import Population, progress
from .truth import Ring

RIGHT_TARGET = 99.9
BURST, BURST_S = 10, 0.2
"""Messages sent at a time, and the seconds between."""
WARM_UP_S = 30.0
DRAIN_S = 15.0
MSPASTRY_MESSAGES, BAMBOO_BYTES = 0.5, 900.0


@dataclass(slots=True)
class _Sent:
    """A message in transit: the nodes that may deliver it, the number of deliveries and of right ones."""

    key: Id
    origin: int
    right: int
    deliveries: int = 0
    right_deliveries: int = 0
    last_by: int = -1
    times_applied_twice: int = 0


COUNTERS = ("sent", "sent_bytes", "sent_route", "sent_route_bytes", "duplicates")


class Story:
    """A population of constant size in which only the three seeds stay, and the messages sent in it."""

    def __init__(self, population: Population, sessions: Sessions) -> None:
        self._population = population
        self._everyone = [*population.live.values()]
        self.sent: list[_Sent] = []
        self.churn = Churn(
            population.simulator,
            population.random,
            sessions,
            staying=population.contacts,
            on_join=self._everyone.append,
            leaving=0.0,
            returning=0.0,
            pause_s=0.0,
        )
        for node in self._everyone[len(population.contacts) :]:
            self.churn.add(node)
        population.observe(self._note)

    def run(self, seconds: float, *, with_routes: bool = False) -> None:
        """Run for a while, sending messages meanwhile."""
        start = self._population.now
        for turn in range(1, round(seconds / BURST_S) + 1):
            active = self._active()
            for _ in range(BURST if with_routes else 0):
                self._route(active)
            self.churn.run(start + turn * BURST_S)

    def totals(self) -> dict[str, int]:
        """Sum of the counters of all nodes, past and present."""
        counters = [node.statistics() for node in self._everyone]
        return {name: sum(int(getattr(one, name)) for one in counters) for name in COUNTERS}

    def lives(self, node_id: int) -> bool:
        """Say whether a node's process still runs."""
        return any(node.peer.node_id == node_id for node in (*self._population.contacts, *self.churn.nodes))

    def _active(self) -> dict[int, Node]:
        nodes = (*self._population.contacts, *self.churn.nodes)
        return {node.peer.node_id: node for node in nodes if node.is_active}

    def _route(self, active: Mapping[int, Node]) -> None:
        population = self._population
        origin, key = population.random.choice([*active.values()]), population.key()
        number = len(self.sent)
        self.sent.append(_Sent(key, origin.peer.node_id, Ring(active).closest(key)))
        origin.route(key, number.to_bytes(4, "big"), population.now)

    def _note(self, _now: float, node: Node, event: Event) -> None:
        if isinstance(event, Delivered):
            node_id, sent = node.peer.node_id, self.sent[int.from_bytes(event.payload, "big")]
            sent.times_applied_twice += sent.deliveries > 0 and self.lives(sent.last_by)
            sent.last_by = node_id
            sent.deliveries += 1
            sent.right_deliveries += node_id in (sent.right, Ring(self._active()).closest(sent.key))


def run(name: str, sessions: Sessions, nodes: int, seconds: float, seed: int) -> list[Comparison]:
    """Correctness and cost under churn of one kind."""
    population = Population(seed)
    population.grow(nodes)
    story = Story(population, sessions)
    story.run(WARM_UP_S)
    before, deaths = story.totals(), story.churn.crashes
    story.run(seconds, with_routes=True)
    totals, deaths = story.totals(), story.churn.crashes - deaths
    story.run(DRAIN_S)
    progress(
        f"{name} churn, {nodes:,} nodes, seed {seed}: {len(story.sent):,} routes, {deaths:,} deaths in {seconds:g} s"
    )
    rates = {counter: (totals[counter] - before[counter]) / nodes / seconds for counter in COUNTERS}
    counted = [one for one in story.sent if one.deliveries or story.lives(one.origin)]
    right = sum(one.right_deliveries > 0 and one.deliveries == one.right_deliveries for one in counted)
    twice = sum(one.times_applied_twice > 0 for one in counted)
    anew = sum(one.deliveries > 1 for one in counted) - twice
    messages, sent_bytes = rates["sent"] - rates["sent_route"], rates["sent_bytes"] - rates["sent_route_bytes"]
    place = f"{name}, {nodes:,} nodes"
    return [
        at_least(
            f"routes delivered at the right node under churn: {place}", 100 * right / len(counted), "%", RIGHT_TARGET
        ),
        at_most(f"routes never delivered: {place}", sum(not one.deliveries for one in counted), "routes"),
        at_most(f"routes applied twice: {place}", twice, "routes", 0.0),
        at_most(f"routes delivered anew, who had them died: {place}", anew, "routes"),
        at_most(f"duplicates held back: {place}", totals["duplicates"] - before["duplicates"], "messages"),
        beside(f"maintenance under churn: {place}", messages, "messages/s", "MSPastry, published", MSPASTRY_MESSAGES),
        beside(f"maintenance bytes under churn: {place}", sent_bytes, "B/s", "Bamboo, published", BAMBOO_BYTES),
        at_most(f"deaths under churn: {place}", deaths / seconds, "a second"),
    ]
