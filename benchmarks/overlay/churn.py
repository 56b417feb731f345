"""Routing while nodes come and go all the time: is everything delivered, at the right node, and once?

Whoever dies (a process that ends; connections to it are refused) is replaced by a newcomer with another id, which joins
through a random node. Sessions are drawn anew for all at the start, so that there are many short ones. Messages from
random nodes to random keys are right where the closest of all active nodes delivers them, as of their sending or of
their delivery. One that was never delivered counts as wrong unless its origin died.

A message is applied twice if two nodes deliver it, or one does so twice, while the first of them lives. Where the first
one died, with what it had made of the message, another one has to deliver it: these are counted apart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from benchmarks.report import Comparison
from overlay import Delivered, Event, Id, Joined, Node

from .lines import at_least, at_most, beside
from .population import Population, progress
from .sessions import Sessions
from .truth import Ring

MEDIAN_S = 300.0
RIGHT_TARGET = 99.9
BURST, BURST_S = 10, 0.2
"""So many messages set out each time."""
WARM_UP_S = 30.0
DRAIN_S = 15.0
STUCK_S = 5.0
MSPASTRY_MESSAGES, BAMBOO_BYTES = 0.5, 900.0


@dataclass(slots=True)
class _Sent:
    """A message on its way: which nodes may deliver it, and how often any and a right one did."""

    key: Id
    origin: int
    right: int
    deliveries: int = 0
    right_deliveries: int = 0
    last_by: int = -1
    times_applied_twice: int = 0


COUNTERS = ("sent", "sent_bytes", "sent_route", "sent_route_bytes", "duplicates")


class Churn:
    """A population of constant size in which nobody stays."""

    def __init__(self, population: Population, draw: Sessions) -> None:
        self._population = population
        self._draw = draw
        self._ends = [(population.now + draw(population.random), node_id) for node_id in population.live]
        heapify(self._ends)
        self._active = {node_id for node_id, node in population.live.items() if node.is_active}
        self._ring = Ring(self._active)
        self._joining: dict[int, float] = {}
        self._dead = dict.fromkeys(COUNTERS, 0)
        self.sent: list[_Sent] = []
        self.deaths = 0
        population.observe(self._note)

    def run(self, seconds: float, *, with_routes: bool = False) -> None:
        """Let time pass, and messages set out meanwhile."""
        population = self._population
        start = population.now
        for turn in range(1, round(seconds / BURST_S) + 1):
            self._help_the_stuck()
            for _ in range(BURST if with_routes else 0):
                self._route()
            end = start + turn * BURST_S
            while self._ends[0][0] <= end:
                at, node_id = heappop(self._ends)
                population.simulator.run(at)
                self._replace(node_id)
            population.simulator.run(end)

    def totals(self) -> dict[str, int]:
        """The counters of all nodes there were."""
        return {name: self._dead[name] + self._population.count(name) for name in COUNTERS}

    def _replace(self, node_id: int) -> None:
        population = self._population
        node = population.live[node_id]
        for name in COUNTERS:
            self._dead[name] += int(getattr(node.statistics(), name))
        population.kill([node], is_silent=False)
        population.simulator.forget(node)
        self._active.discard(node_id)
        self._joining.pop(node_id, None)
        self._ring = Ring(self._active)
        self.deaths += 1
        population.contacts = self._some_active()
        newcomer = population.add().peer.node_id
        self._joining[newcomer] = population.now
        heappush(self._ends, (population.now + self._draw(population.random), newcomer))

    def _help_the_stuck(self) -> None:
        """Name another contact to those whose first one may have died."""
        population = self._population
        for node_id, since in list(self._joining.items()):
            if population.now - since > STUCK_S:
                self._joining[node_id] = population.now
                population.live[node_id].join(self._some_active()[0].peer, population.now)

    def _some_active(self) -> list[Node]:
        return [self._population.live[self._population.random.choice(list(self._ring))]]

    def _route(self) -> None:
        origin = self._some_active()[0]
        key = self._population.key()
        number = len(self.sent)
        self.sent.append(_Sent(key, origin.peer.node_id, self._ring.closest(key)))
        origin.route(key, number.to_bytes(4, "big"), self._population.now)

    def _note(self, _now: float, node: Node, event: Event) -> None:
        node_id = node.peer.node_id
        if isinstance(event, Joined):
            self._joining.pop(node_id, None)
            self._active.add(node_id)
            self._ring = Ring(self._active)
        elif isinstance(event, Delivered):
            sent = self.sent[int.from_bytes(event.payload, "big")]
            sent.times_applied_twice += sent.last_by in self._population.live
            sent.last_by = node_id
            sent.deliveries += 1
            sent.right_deliveries += node_id in (sent.right, self._ring.closest(sent.key))


def run(name: str, kind: Callable[[float], Sessions], nodes: int, seconds: float, seed: int) -> list[Comparison]:
    """Correctness and cost under churn of one kind."""
    population = Population(seed)
    population.grow(nodes)
    churn = Churn(population, kind(MEDIAN_S))
    churn.run(WARM_UP_S)
    before, deaths = churn.totals(), churn.deaths
    churn.run(seconds, with_routes=True)
    totals, deaths = churn.totals(), churn.deaths - deaths
    churn.run(DRAIN_S)
    progress(
        f"{name} churn, {nodes:,} nodes, seed {seed}: {len(churn.sent):,} routes, {deaths:,} deaths in {seconds:g} s"
    )
    rates = {counter: (totals[counter] - before[counter]) / nodes / seconds for counter in COUNTERS}
    counted = [one for one in churn.sent if one.deliveries or one.origin in population.live]
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
