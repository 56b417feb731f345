"""How long nodes take to join, and how many messages: all at once from cold, and one at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from benchmarks.report import Comparison
from overlay import Event, Joined, Node

from .lines import at_most, quantile, size
from .population import SEEDS, Population

TIME_TARGET_S = 60.0
WAYS = AT_ONCE, IN_TURN = "all at once", "one at a time"
SHARES = {"p50": 0.5, "p99": 0.99, "most": 1.0}
NEWCOMER_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Joins:
    """Seconds until all of a cold start were in; messages that joiners sent and received until they were."""

    cold_s: float
    cold_messages: list[int]
    later_messages: list[int]


class _Counting:
    """Counts a joiner's messages at the moment it has joined."""

    def __init__(self) -> None:
        self.messages: list[int] = []

    def note(self, _now: float, node: Node, event: Event) -> None:
        if isinstance(event, Joined):
            counters = node.statistics()
            self.messages.append(counters.sent + counters.received)


def measure(population: Population, nodes: int, later_joins: int) -> Joins:
    """Let the nodes join from cold; then some more come one at a time, and leave again."""
    cold, later = _Counting(), _Counting()
    population.observe(cold.note)
    took_s = population.grow(nodes)
    population.observe(later.note)
    for _ in range(later_joins):
        node = population.add()
        population.run_until(lambda node=node: node.is_active, "no way in", NEWCOMER_LIMIT_S)  # type: ignore[misc]
        population.dismiss(node)
    population.observe(None)
    return Joins(took_s, cold.messages, later.messages)


def messages(when: str, share: str) -> str:
    """The label of a curve."""
    return f"messages of a join, {when}, {share}"


def lines(nodes: int, joins: Sequence[Joins]) -> list[Comparison]:
    """The slowest seed, and the messages of all seeds."""
    slowest = max(one.cold_s for one in joins)
    report = [at_most(f"join from cold through {SEEDS} seeds: {size(nodes)}", slowest, "s", TIME_TARGET_S)]
    most = 3 * 16 * log(nodes, 16)
    for when, counts in (
        (AT_ONCE, [count for one in joins for count in one.cold_messages]),
        (IN_TURN, [count for one in joins for count in one.later_messages]),
    ):
        for name, share in SHARES.items():
            case = f"{messages(when, name)}: {size(nodes)}"
            report.append(at_most(case, quantile(counts, share), "messages", most if share == 1 else None))
    return report
