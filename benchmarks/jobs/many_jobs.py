"""Hundreds of jobs at once: whether each brings each of its windows, and what a job costs an agent."""

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path

import elf
from benchmarks.agents import LIVE, job_name, live_logs, running_agents, start_jobs
from benchmarks.environment import use_two_cores
from benchmarks.overlay.population import progress
from benchmarks.processes import cpu_s, usage
from benchmarks.replay import Replay
from benchmarks.report import Comparison
from elf.client import ClientError, Result
from elf.demo.agents.agents import AgentFleet

from .lines import at_least, at_most

QUERIES = 20
"""So many different ones; jobs with an equal query share their operators."""
WINDOW_S = 30
GRACE_S = 5.0
RATE = 400
"""Live events a second, of all agents together, while windows are looked at."""
REST_S = 20.0
"""So long the CPU of agents is looked at where nothing is logged."""
SETTLE_S = 10.0
START_TIMEOUT_S = 900.0
SLACK_S = 10.0
"""A window that is not out so long after its grace is missed."""
ASKED_MAX = 64
ASKED_AT_MOST = 10


@dataclass(frozen=True, slots=True)
class _Rest:
    """What all agents use where nothing is logged: % of a core, and MB."""

    cpu_percent: float
    memory_mb: float


def run(agents: int, jobs: int, seconds: float) -> list[Comparison]:
    """At rest without jobs, then with them; then with events for so long."""
    use_two_cores()
    with running_agents(agents) as (fleet, folder, _):
        clients = [elf.connect_sync(fleet.socket(name)) for name in fleet.names]
        time.sleep(SETTLE_S)
        before = _rest(fleet)
        started_s = start_jobs(clients, [_query(number) for number in range(jobs)], agents, START_TIMEOUT_S)
        progress(f"{jobs} jobs run on {agents} agents after {started_s:.1f} s")
        time.sleep(SETTLE_S)
        after = _rest(fleet)
        began = time.time()
        with Replay(folder / "sample", live_logs(fleet, folder), RATE):
            time.sleep(WINDOW_S + seconds)
            ended = time.time()
            time.sleep(GRACE_S + SLACK_S)
            whole, expected = _windows(fleet, jobs, began, ended)
        busy = sum(usage(fleet.process(name).pid).cpu_s for name in fleet.names)
        progress(f"{whole} of {expected} windows, {busy:.0f} s of CPU so far")
    place, each = f"{jobs:,} jobs, {agents} agents", jobs * agents
    return [
        at_least(
            f"windows of {WINDOW_S} s that are out in time, with all agents: {place}",
            100 * whole / expected, "%", 100.0,
        ),
        at_most(f"from the first submission until all agents run all jobs: {place}", started_s, "s"),
        at_most(
            f"memory of an idle job on an agent: {place}", 1000 * (after.memory_mb - before.memory_mb) / each, "kB"
        ),
        at_most(
            f"CPU of an idle job on an agent: {place}",
            10_000 * (after.cpu_percent - before.cpu_percent) / each, "µs/s",
        ),
        at_most(f"CPU of an agent with idle jobs: {place}", after.cpu_percent / agents, "% of a core"),
    ]  # fmt: skip


def _rest(fleet: AgentFleet) -> _Rest:
    pids = [fleet.process(name).pid for name in fleet.names]
    used_s = cpu_s(pids)
    time.sleep(REST_S)
    return _Rest(100 * (cpu_s(pids) - used_s) / REST_S, sum(usage(pid).memory_mb for pid in pids))


def _query(number: int) -> str:
    wanted = f"SELECT store, SUM(clicks_count) AS clicks FROM {LIVE} WHERE clicks_count > {number % QUERIES - 15}"
    return f"{wanted} GROUP BY store WINDOWING {WINDOW_S} SECONDS"


def _windows(fleet: AgentFleet, jobs: int, began: float, ended: float) -> tuple[int, int]:
    """How many whole windows of that time are out with all agents in them, and how many should be."""
    first, last = -int(-began // WINDOW_S), int(ended // WINDOW_S)
    wanted = {_instant(window * WINDOW_S) for window in range(first, last)}
    found = 0
    for number, name in zip(range(jobs), cycle(fleet.names)):
        windows = _last_windows(fleet.socket(name), job_name(number))
        whole = (one for one in windows if one.contributors == one.expected == len(fleet.names))
        found += len(wanted & {_start_of(one) for one in whole})
    return found, jobs * len(wanted)


def _last_windows(socket: Path, app: str) -> list[Result]:
    """Asked again where the fleet has too much to do to answer in time; none where it never does."""
    for _ in range(ASKED_AT_MOST):
        with suppress(ClientError), elf.connect_sync(socket) as client:
            return client.ask(app, windows=ASKED_MAX).windows
    return []


def _start_of(window: Result) -> datetime:
    assert window.window_start is not None
    return datetime.fromisoformat(window.window_start)


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
