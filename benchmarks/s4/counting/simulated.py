"""The count by simulated hosts: cores and elements of all agents are in one process, on a ring in memory.

Rows are framed, sent, checked and counted as between agents, without sockets, TLS and programs' processes.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from agent.runtime.keyed.elements import code, declared
from agent.runtime.keyed.elements.runtime import EVENT_TIME, SEQ, SOURCE, ElementRuntime
from agent.runtime.keyed.hosting.options import KeyedOptions
from benchmarks.contender import Answer
from benchmarks.s4.graphs import CODE, COUNTED, HIT, UPDATE, count_program, counting

from .program_beside import ProgramBeside
from .simulated_hosts import WALL_MS, SimulatedHost, SimulatedHosts

BATCH_ROWS = 32_768
LIMIT_S = 600.0
RETRY_S = 0.001
PRACTICE_ROWS = 4_096
SEQ_SHIFT = 20


class CountingRun:
    """A fleet that counts the keys of these files, each at an agent of its own. `rows`, `total`: what has come out.

    Before, every agent sends some keys of its own, so that it knows where logical nodes are.
    """

    def __init__(self, shares: list[pl.Series], kind: str, *, guaranteed: bool = False, measured: bool = False) -> None:
        self._is_code = kind == CODE
        self._graph = counting(kind, guaranteed=guaranteed)
        self.rows = self.total = 0
        self._shares = shares
        compact_of = code.compact if self._is_code else declared.compact
        compact = {name: compact_of(one) for name, one in self._graph.elements.items()}
        options = KeyedOptions(standbys=min(2, len(shares) - 1), needs_time=False, compact=compact)
        self.fleet = SimulatedHosts(self._graph, self._runtimes, len(shares), options, self._take, measured=measured)
        self._count([pl.Series([f"{host.number} {n}" for n in range(PRACTICE_ROWS)]) for host in self.fleet.hosts], 0)
        self.rows = self.total = 0

    def run(self) -> None:
        """Until an update of every event is out."""
        self._count(self._shares, PRACTICE_ROWS)

    def _count(self, shares: list[pl.Series], first: int) -> None:
        for host, keys in zip(self.fleet.hosts, shares, strict=True):
            batches = self._batches(host, keys, first)
            self.fleet.give(host, lambda host=host, batches=batches: self._insert(host, batches))  # type: ignore[misc]
        expected = sum(map(len, shares))
        self.fleet.run_until(lambda: self.rows >= expected, LIMIT_S)

    def _insert(self, host: SimulatedHost, batches: Iterator[pl.DataFrame]) -> None:
        rows = next(batches, None) if host.job.has_room else pl.DataFrame()
        if rows is None:
            return
        if rows.height:
            host.job.insert(HIT, rows, self.fleet.now)
        self.fleet.give(host, lambda: self._insert(host, batches), self.fleet.now + (0.0 if rows.height else RETRY_S))

    def _batches(self, host: SimulatedHost, keys: pl.Series, first: int) -> Iterator[pl.DataFrame]:
        source, count = host.job.channel(HIT), len(keys)
        numbers = np.arange(first + 1, first + count + 1) << SEQ_SHIFT
        frame = pl.DataFrame(
            {EVENT_TIME: np.full(count, WALL_MS), SOURCE: np.full(count, source), SEQ: numbers, "key": keys},
            schema_overrides=dict.fromkeys((EVENT_TIME, SOURCE, SEQ), pl.Int64),
        )
        return iter([frame[start : start + BATCH_ROWS] for start in range(0, count, BATCH_ROWS)])

    def _runtimes(self, host: SimulatedHost) -> Mapping[str, ElementRuntime]:
        graph = self._graph
        if self._is_code:
            return ProgramBeside(count_program(), lambda answer: host.later(answer, host.now)).runtimes
        return {name: declared.runtime_of(one, graph.types, None) for name, one in graph.elements.items()}

    def _take(self, _: SimulatedHost, type_: str, rows: pl.DataFrame) -> None:
        assert type_ in (COUNTED, UPDATE)
        self.rows += rows.height
        self.total += int(rows["n"].sum())


def truth_of(shares: list[pl.Series]) -> Answer:
    """What counting comes to: a row an event, with the number of events of its key so far."""
    counts = pl.concat(shares).value_counts()["count"].cast(pl.Int64)
    return Answer(sum(map(len, shares)), int((counts * (counts + 1) // 2).sum()), 0)
