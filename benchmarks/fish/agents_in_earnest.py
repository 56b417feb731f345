"""Agents in earnest whose elements wait for each event: time by grouping, beside what a rehearsal tells.

Agents, TLS, programs and edges are those of production. Each agent is a source, and hosts workers. Clients have the
events in memory, and send each agent its share at once.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import polars as pl

import elf
from benchmarks.agents import running_agents
from benchmarks.jobs.fleets import program, running_program
from benchmarks.overlay.population import progress
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison
from elf.client import SyncClient
from elf.client.errors import AnswerTimeoutError, RefusedError
from elf.demo.agents.agents import AgentFleet
from elf.rehearsal.full_load import serve_at_full_load
from elf.rehearsal.plant import Crew, Plant

from .lines import OURS, at_most, less
from .runs import CONTENDERS
from .streams import Rows, Stream

PROGRAMS = Path(__file__).parent / "programs"
GROUPINGS = (OURS, "shuffle", "fields", "pkg")
WAIT_S = 0.004
WORKERS_EACH = 4
"""Workers for each agent: they are spread by nodes, which are as even as so many allow."""
GAINS = {"shuffle": 0.95, "fields": 3.5, "pkg": 1.6}
"""Least ratios of rivals' times over ELF's on as many agents as there are at most."""
NEAR = 0.1
"""Most difference between a time in earnest and one rehearsed. The rehearsal does not know which workers are on one
agent: that matters where a key has one worker."""
TIMEOUT_S, POLL_S = 900.0, 0.2


def run(stream: Stream, agents: int, times_over: int, with_targets: bool) -> list[Comparison]:
    """The time of each grouping until all events are processed, on so many agents."""
    rows = stream.rows_of_run(0)
    keys = np.tile(rows.keys, times_over)
    shares = [pl.DataFrame({"key": pl.Series(keys[place::agents]).cast(pl.String)}) for place in range(agents)]
    taken: dict[str, float] = {}
    idle: dict[str, float] = {}
    hosted: np.ndarray = np.zeros(agents)
    with running_agents(agents) as (fleet, _, _):
        for grouping in GROUPINGS:
            code = program("waits", PROGRAMS, GROUPING=grouping, WORKERS=agents * WORKERS_EACH, WAIT_S=WAIT_S)
            with running_program(fleet, "waits", code), idle_share() as share:
                taken[grouping], hosted = _processed(fleet, shares, len(keys))
            idle[grouping] = share[0]
            progress(f"{grouping}, {agents} agents: {taken[grouping]:.1f} s, processors idle {share[0]:.0%}")
    return _lines(agents, taken, idle, _rehearsed(rows, times_over, hosted), with_targets)


def _lines(
    agents: int, taken: Mapping[str, float], idle: Mapping[str, float], rehearsed: Mapping[str, float], aims: bool
) -> list[Comparison]:
    case = f"seconds, agents in earnest, {1000 * WAIT_S:g} ms an event: {agents} agents"
    beside = (less(case, taken[OURS], "s", name, taken[name], GAINS[name] if aims else None) for name in GAINS)
    near = dict.fromkeys(GROUPINGS) | ({OURS: NEAR} if aims else {})
    apart = f"time in earnest over that rehearsed: {agents} agents"
    told = (
        at_most(f"{apart}, {name}", abs(taken[name] / rehearsed[name] - 1), "difference", near[name]) for name in near
    )
    idling = f"idle share of the processors: {agents} agents"
    return [*beside, *told, *(at_most(f"{idling}, {name}", idle[name], "of 1") for name in GROUPINGS)]


def _processed(fleet: AgentFleet, shares: Sequence[pl.DataFrame], events: int) -> tuple[float, np.ndarray]:
    """The seconds until all events have been processed, and how many nodes of workers each agent had."""
    with (
        elf.connect_sync(fleet.socket(fleet.names[0]), timeout_s=TIMEOUT_S) as client,
        ThreadPoolExecutor(len(shares)) as pool,
    ):
        _warm_up(client, fleet, shares)
        began, before = time.perf_counter(), _done(client)[0]
        sent = [pool.submit(_send, fleet, name, rows) for name, rows in zip(fleet.names, shares, strict=True)]
        while (found := _done(client))[0] - before < events:
            if time.perf_counter() > began + TIMEOUT_S:
                raise BenchmarkError(f"{found[0] - before:,} of {events:,} events are done after {TIMEOUT_S:g} s")
            time.sleep(POLL_S)
        took_s = time.perf_counter() - began
        for one in sent:
            one.result()
        return took_s, found[1]


def _warm_up(client: SyncClient, fleet: AgentFleet, shares: Sequence[pl.DataFrame]) -> None:
    """Lets all agents find the hosts of all workers, and load the code."""
    few = sum(_send(fleet, name, rows.unique().head(200)) for name, rows in zip(fleet.names, shares, strict=True))
    deadline = time.perf_counter() + TIMEOUT_S
    while _done(client)[0] < few:
        if time.perf_counter() > deadline:
            raise BenchmarkError(f"agents do not begin within {TIMEOUT_S:g} s")
        time.sleep(POLL_S)


def _send(fleet: AgentFleet, name: str, rows: pl.DataFrame) -> int:
    with elf.connect_sync(fleet.socket(name), timeout_s=TIMEOUT_S) as client:
        client.emit("waits", "Hit", rows)
    return rows.height


def _done(client: SyncClient) -> tuple[int, np.ndarray]:
    """The events that are done, as far as is known, and the nodes of each agent."""
    with suppress(RefusedError, AnswerTimeoutError):
        found = [one for one in client.elements("waits").elements if one.grouping]
        return sum(one.emitted for one in found), np.array([one.nodes for one in found])
    return 0, np.zeros(0)


def _rehearsed(rows: Rows, times_over: int, hosted: np.ndarray) -> dict[str, float]:
    """The seconds that a rehearsal tells, of workers on agents that have as many as these had."""
    servers = np.repeat(np.arange(len(hosted)), hosted.astype(int)).astype(np.int16)
    names = tuple(f"node {node}".encode() for node in range(len(servers)))
    crew = Crew(Crew.of(names).assignment, servers)
    plant = Plant(len(hosted), crew, np.full(len(hosted), WAIT_S))
    hashes = np.tile(rows.hashes, times_over)
    return {name: serve_at_full_load(hashes, plant, CONTENDERS[name]).makespan_s for name in GROUPINGS}


@contextmanager
def idle_share() -> Iterator[list[float]]:
    """The share of processors' time in which they had nothing to do, once the block is over."""
    found: list[float] = []
    before = _processor_times()
    yield found
    passed = _processor_times() - before
    found.append(float(passed[3] / passed.sum()))


def _processor_times() -> np.ndarray:
    """Times of user, nice, system, idle, ... of all processors together."""
    first = Path("/proc/stat").read_text().splitlines()[0]
    return np.array([float(one) for one in first.split()[1:9]])
