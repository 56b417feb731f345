"""Time and messages of joins: all at once from cold, and one at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from benchmarks.report import Comparison
from overlay import Event, Joined, Node

from .lines import TARGET_NODES, at_most, quantile, size
from .population import SEEDS, Population

TIME_TARGET_S = 60.0
WAYS = AT_ONCE, IN_TURN = "all at once", "one at a time"
SHARES = {"p50": 0.5, "p99": 0.99, "most": 1.0}
NEWCOMER_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Joins:
    """Seconds until a cold start was complete; messages per join, at the cold start and one at a time."""

    cold_s: float
    cold_messages: list[float]
    later_messages: list[float]


class _Counting:
    """Counts the messages of joiners' own joins at the moment they have joined, and those forwarded for them.

    Every joiner gets the same share of the latter: one at a time, that is the messages forwarded for this one.
    """

    def __init__(self, population: Population) -> None:
        self._population = population
        self._messages_of_joins = 0
        self._own: list[int] = []
        population.observe(self._note)
        self._before = population.count("sent_join")

    def _note(self, _now: float, node: Node, event: Event) -> None:
        if isinstance(event, Joined):
            counters = node.statistics()
            self._own.append(counters.join_messages)
            # Its requests and announcements, and the reply, which it has received.
            self._messages_of_joins += counters.sent_join + 1

    def messages(self) -> list[float]:
        """Return the messages of each join."""
        self._population.observe(None)
        passed_on = self._population.count("sent_join") - self._before - self._messages_of_joins
        share = max(0, passed_on) / max(1, len(self._own))
        return [own + share for own in self._own]


def measure(population: Population, nodes: int, later_joins: int) -> Joins:
    """Let the nodes join from cold; then some more join one at a time, and leave again."""
    cold = _Counting(population)
    took_s = population.grow(nodes)
    cold_messages = cold.messages()
    later_messages: list[float] = []
    for _ in range(later_joins):
        later = _Counting(population)
        node = population.add()
        population.run_until(lambda node=node: node.is_active, "no way in", NEWCOMER_LIMIT_S)  # type: ignore[misc]
        later_messages += later.messages()
        population.dismiss(node)
    return Joins(took_s, cold_messages, later_messages)


def messages(when: str, share: str) -> str:
    """Return the label of a curve."""
    return f"join messages, {when}, {share}"


def lines(nodes: int, joins: Sequence[Joins]) -> list[Comparison]:
    """The slowest seed, and the messages of all seeds."""
    slowest = max(one.cold_s for one in joins)
    in_time, most = (TIME_TARGET_S, 3 * 16 * log(nodes, 16)) if nodes == TARGET_NODES else (None, None)
    report = [at_most(f"join from cold through {SEEDS} seeds: {size(nodes)}", slowest, "s", in_time)]
    for when, counts in (
        (AT_ONCE, [count for one in joins for count in one.cold_messages]),
        (IN_TURN, [count for one in joins for count in one.later_messages]),
    ):
        for name, share in SHARES.items():
            case = f"{messages(when, name)}: {size(nodes)}"
            report.append(at_most(case, quantile(counts, share), "messages", most if share == 1 else None))
    return report
