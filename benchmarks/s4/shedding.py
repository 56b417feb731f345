"""Figure 6 of the paper: the error of estimated click-through rates where more events come than hosts can process.

Cores and declared elements of 16 hosts in virtual time: each row that a host's elements take costs it a time, so what
is shed is decided by the real cores from the queues that come about.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.elements.runtime import EVENT_TIME, SEQ, SOURCE, ElementRuntime
from agent.runtime.keyed.hosting.options import KeyedOptions
from benchmarks.report import Comparison

from .clicks import Traffic, error_of, rates, traffic_of
from .graphs import CLICK, RATE, SERVE, click_rates
from .lines import at_least, at_most
from .simulated_hosts import Pace, Paced, SimulatedHost, SimulatedHosts

HOSTS = 16
LOADS = (0.25, 0.5, 1.0, 1.5, 2.0, 2.75)
"""Rates of events, as multiples of the capacity."""
HOST_ROWS_PER_S = 25_000.0
CUT_S = 0.1
"""Time that rows wait to be sent together; with little data in a simulated second, frames of it would be tiny."""
CHUNK_S = 0.05
"""Time between two looks of a host into its logs."""
RETRY_S = 0.01
SEQ_SHIFT = 20
PAPER_PERCENT = 4.2
"""The error in the paper's table at 2.75 times the rate at which errors begin."""
SINGLY = "events shed singly instead, as a comparison"
LABEL = "Fig. 6"
LIMIT_S = 3_600.0


def run(events: int, loads: Sequence[float], with_targets: bool) -> list[Comparison]:
    """Replays the same events at each rate."""
    traffic = traffic_of(events)
    truth = rates(*traffic)
    capacity = _capacity(traffic)
    lines: list[Comparison] = []
    for load in loads:
        rate = load * capacity
        lines += _lines(_Replaying(traffic, rate, HOST_ROWS_PER_S), truth, load, rate, traffic.events, with_targets)
    lines += _singly(traffic, truth, max(loads))
    return lines


def _lines(
    replaying: "_Replaying", truth: pl.DataFrame, load: float, rate: float, sent: int, aimed: bool
) -> list[Comparison]:
    behind_s = replaying.run()
    error = error_of(replaying.estimates(), truth)
    processed, shed = replaying.processed, replaying.shed
    place = f"{load:g} x capacity"
    aim = None if not aimed or 1.0 < load < max(LOADS) else PAPER_PERCENT if load > 1.0 else 0.0
    whole = f"{sent:,} events sent = {processed:,} processed + {shed:,} shed"
    mbps = replaying.fleet.sent_bytes * 8 / 1e6 / (sent / rate)
    return [
        at_most(f"{LABEL}, error of CTR weighted by serves, {error.pairs} pairs: {place}", error.weighted, "%", aim),
        at_most(f"{LABEL}, error of CTR, plain: {place}", error.plain, "%"),
        at_most(f"{LABEL}, frames between hosts at {rate:,.0f} events/s: {place}", mbps, "Mbps"),
        at_most(f"{LABEL}, all done after the last event: {place}", behind_s, "s"),
        at_least(f"{LABEL}, {whole}: {place}", float(sent == processed + shed), "equal", 1.0),
    ]


def _singly(traffic: Traffic, truth: pl.DataFrame, load: float) -> list[Comparison]:
    """The same share of all events, but each kept or not without a look at its serve."""
    kept = (rows.sample(fraction=1 / load, seed=seed) for seed, rows in enumerate(traffic))
    error = error_of(rates(*kept), truth)
    return [at_most(f"{LABEL}, {SINGLY}, error weighted by serves: {load:g} x capacity", error.weighted, "%")]


def _capacity(traffic: Traffic) -> float:
    """The events a second at which the host with the most rows to process is just busy all the time."""
    replaying = _Replaying(traffic, HOST_ROWS_PER_S, pace=1e12)
    replaying.run()
    busiest = max(sum(pace.rows.values()) for pace in replaying.paces)
    return HOST_ROWS_PER_S * traffic.events / busiest


class _Replaying:
    """All events at one rate, dealt to the hosts in turn, and the click rates that come out at the end.

    A host that has no room for events reads them later, as agents do with logs.
    """

    def __init__(self, traffic: Traffic, rate: float, pace: float) -> None:
        self._graph = click_rates()
        self._rates: list[pl.DataFrame] = []
        self._ends = 0
        self._duration_s = traffic.events / rate
        self.paces = [Pace(pace) for _ in range(HOSTS)]
        options = KeyedOptions(cut_s=CUT_S)
        self.fleet = SimulatedHosts(self._graph, self._runtimes, HOSTS, options, self._take, measured=False)
        for host in self.fleet.hosts:
            chunks = deque(_chunks(traffic, rate, host.number))
            self.fleet.give(host, lambda host=host, chunks=chunks: self._read(host, chunks))  # type: ignore[misc]

    def run(self) -> float:
        """Until everything that was not shed has been processed; the simulated seconds beyond those of the rate."""
        limit_s = self._duration_s + LIMIT_S
        self.fleet.run_until(
            lambda: self._ends == HOSTS and all(host.job.is_quiet for host in self.fleet.hosts), limit_s
        )
        return self.fleet.now - self._duration_s

    @property
    def processed(self) -> int:
        """Serves and clicks that the join has taken."""
        return sum(pace.rows[type_] for pace in self.paces for type_ in (SERVE, CLICK))

    @property
    def shed(self) -> int:
        return sum(host.job.statistics()["shed"] for host in self.fleet.hosts)

    def estimates(self) -> pl.DataFrame:
        """The last CTR of each query and ad."""
        return pl.concat(self._rates).group_by("query", "ad").agg(pl.col("ctr").get(pl.col("serves").arg_max()))

    def _runtimes(self, host: SimulatedHost) -> dict[str, ElementRuntime]:
        pace, types = self.paces[host.number], self._graph.types
        return {
            name: Paced(host, declared.runtime_of(one, types, None), pace) for name, one in self._graph.elements.items()
        }

    def _take(self, _: SimulatedHost, type_: str, rows: pl.DataFrame) -> None:
        if type_ == RATE:
            self._rates.append(rows.select("query", "ad", "serves", "ctr"))

    def _read(self, host: SimulatedHost, chunks: "deque[Chunk]") -> None:
        job, now = host.job, self.fleet.now
        while chunks and chunks[0].at <= now and job.has_room:
            chunk = chunks.popleft()
            for type_, rows in chunk.rows.items():
                source = pl.lit(job.channel(type_), pl.Int64).alias(SOURCE)
                job.insert(type_, rows.with_columns(source), now)
                job.source_time(type_, chunk.watermark_ms)
        if chunks:
            self.fleet.give(host, lambda: self._read(host, chunks), max(chunks[0].at, now + RETRY_S))
        else:
            self._ends += 1
            for type_ in (SERVE, CLICK):
                job.end_of_source(type_)


class Chunk(NamedTuple):
    """Rows of one host by type, as they are read at a time; later ones are not before the watermark."""

    at: float
    rows: dict[str, pl.DataFrame]
    watermark_ms: int


def _chunks(traffic: Traffic, rate: float, host: int) -> Iterator[Chunk]:
    """One host's share of the events, each read when that many were written at this rate."""
    parts = {type_: rows[host::HOSTS] for type_, rows in ((SERVE, traffic.serves), (CLICK, traffic.clicks))}
    times = {type_: rows[EVENT_TIME].to_numpy() for type_, rows in parts.items()}
    every = np.sort(np.concatenate(list(times.values())))
    step = max(1, int(CHUNK_S * rate / HOSTS))
    taken = dict.fromkeys(parts, 0)
    for start in range(0, len(every), step):
        end = min(start + step, len(every))
        bound = int(every[end]) if end < len(every) else int(every[-1]) + 1
        rows = {}
        for type_, part in parts.items():
            upto = int(np.searchsorted(times[type_], bound))
            numbers = pl.Series(SEQ, np.arange(taken[type_], upto, dtype=np.int64) + 1 << SEQ_SHIFT)
            if upto > taken[type_]:
                rows[type_] = part[taken[type_] : upto].with_columns(numbers)
            taken[type_] = upto
        yield Chunk(end * HOSTS / rate, rows, bound)
