"""ELF's own program in the count: DATA_FOLDER WARM_UPS declared|code, and one agent for each file of keys.

Cores and elements of all agents are in one process, on a ring in memory: rows are framed, sent, checked and counted as
between agents, without sockets, TLS and programs' processes.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl

from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.elements.runtime import EVENT_TIME, SEQ, SOURCE, ElementRuntime
from agent.runtime.keyed.hosting.options import KeyedOptions
from benchmarks.contender import Answer
from benchmarks.rivals.keys import read_keys

from .graphs import COUNTED, HIT, counting
from .simulated_hosts import WALL_MS, SimulatedHost, SimulatedHosts

LEVEL = "cores on a ring in memory, without TLS"
BATCH_ROWS = 32_768
LIMIT_S = 600.0
RETRY_S = 0.001
PRACTICE_ROWS = 8_192
SEQ_SHIFT = 20


class CountingRun:
    """A fleet that counts the keys of these files, each at an agent of its own. `rows`, `total`: what has come out.

    Before, every agent sends some keys of its own, so that it knows where logical nodes are.
    """

    def __init__(self, shares: list[pl.Series], kind: str, *, guaranteed: bool = False, measured: bool = False) -> None:
        self._graph = counting(kind, guaranteed=guaranteed)
        self.rows = self.total = 0
        self._shares = shares
        compact = {name: declared.compact(one) for name, one in self._graph.elements.items()}
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

    def _runtimes(self, _: SimulatedHost) -> dict[str, ElementRuntime]:
        graph = self._graph
        return {name: declared.runtime_of(one, graph.types, None) for name, one in graph.elements.items()}

    def _take(self, _: SimulatedHost, type_: str, rows: pl.DataFrame) -> None:
        assert type_ == COUNTED
        self.rows += rows.height
        self.total += int(rows["n"].sum())


def truth_of(shares: list[pl.Series]) -> Answer:
    """What counting comes to: a row an event, with the number of events of its key so far."""
    counts = pl.concat(shares).value_counts()["count"].cast(pl.Int64)
    return Answer(sum(map(len, shares)), int((counts * (counts + 1) // 2).sum()), 0)


def main() -> None:
    """Counts once a few batches to warm up, and once all."""
    folder, kind = Path(sys.argv[1]), sys.argv[3]
    shares = [pl.Series("key", read_keys(path)) for path in sorted(folder.iterdir())]
    CountingRun([keys[:BATCH_ROWS] for keys in shares], kind).run()
    counting_run = CountingRun(shares, kind)
    began = time.perf_counter()
    counting_run.run()
    took_s = time.perf_counter() - began
    answer = Answer(counting_run.rows, counting_run.total, 0)
    if answer != truth_of(shares):
        sys.exit(f"the fleet has counted {answer}, and there are {truth_of(shares)}")
    print(json.dumps({"seconds": took_s, "answer": asdict(answer)}))


if __name__ == "__main__":
    main()
