"""Jobs: how soon all agents run a change of one (Figure 10b), as processes and simulated; how soon a job answers.

`python -m benchmarks.jobs [--quick] [--json FILE]`
"""

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import elf
from elf.client import ClientError, SyncClient
from elf.demo import DemoError
from elf.demo.agents import AgentFleet

from .agents import LIVE, live_logs, running_agents, until_all_run
from .environment import use_two_cores
from .jobs_simulated import SimulatedAgents
from .overlay.pool import Figure, run_all
from .race import BenchmarkError
from .replay import Replay
from .report import Comparison, main, within

AGENTS = 8
MANY = 32
RATE = 2_000
"""Live events a second, of all agents together."""
TARGET_AGENTS = 1280
FILTER_TARGET_MS = 210.0
"""For that many simulated agents, as in the paper's Figure 10b."""
ASK_P50_TARGET_MS = 20.0
ASK_P99_TARGET_MS = 100.0
APP = "clicks"
_START_TIMEOUT_S = 20.0
_FIRST_WINDOW_S = 8.0
_PERCENTILES = 100
_SELECT = f"SELECT product, SUM(clicks_count) AS clicks FROM {LIVE}"
_GROUPS = "GROUP BY product WINDOWING 1 SECOND"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    fleets: tuple[int, ...]
    updates: int
    questions: int
    simulated: tuple[int, ...]
    simulated_updates: int


FULL = Extent((AGENTS, MANY), 20, 500, (64, TARGET_AGENTS), 3)
QUICK = Extent((AGENTS,), 4, 100, (64,), 3)


def run(quick: bool) -> list[Comparison]:
    """Everything, in turn. Raises BenchmarkError when a fleet or a job does not work."""
    use_two_cores()
    extent = QUICK if quick else FULL
    lines: list[Comparison] = []
    try:
        for agents in extent.fleets:
            with (
                running_agents(agents) as (fleet, folder, _),
                Replay(folder / "sample", live_logs(fleet, folder), RATE),
            ):
                lines += _changing(fleet, extent)
                if agents == AGENTS:
                    lines += _asking(fleet, extent)
    except (DemoError, ClientError) as error:
        raise BenchmarkError(str(error)) from error
    simulations = [
        Figure(f"{agents:,} simulated agents", partial(_simulated, agents, extent.simulated_updates), agents)
        for agents in extent.simulated
    ]
    return lines + run_all(simulations)


def _simulated(agents: int, updates: int) -> list[Comparison]:
    fleet = SimulatedAgents(seed=1, size=agents)
    key = fleet.run_job()
    times = [fleet.change_filter(key, number) for number in range(1, updates + 1)]
    ran_ms, told_ms = ([1000 * seconds for seconds in column] for column in zip(*times, strict=True))
    target = FILTER_TARGET_MS if agents == TARGET_AGENTS else None
    case = f"simulated, links of 0.5 ms: a filter changed until all {agents:,} agents"
    return [
        within("jobs", f"{case} run it, p50", statistics.median(ran_ms), "ms", target),
        within("jobs", f"{case} have acknowledged it, p50", statistics.median(told_ms), "ms"),
    ]


@contextmanager
def _running_job(fleet: AgentFleet) -> Iterator[None]:
    """A live job that all agents run."""
    with elf.connect_sync(fleet.socket(fleet.names[0])) as client, client.query(f"{_SELECT} {_GROUPS}", app=APP) as job:
        until_all_run(job, len(fleet.names), _START_TIMEOUT_S)
        yield


def _changing(fleet: AgentFleet, extent: Extent) -> list[Comparison]:
    """The time until "n of n" agents run another filter; the agent that is asked is not that of the job."""
    agents = len(fleet.names)
    took_ms = []
    with _running_job(fleet), elf.connect_sync(fleet.socket(fleet.names[-1])) as client:
        for number in range(extent.updates):
            # Versions of windows that are not out yet are limited.
            time.sleep(1.0)
            took_ms.append(_update(client, agents, f"{_SELECT} WHERE clicks_count > {number} {_GROUPS}"))
    case = f"a filter changed until {agents} of {agents} agents run it"
    return [
        within("jobs", f"{case}, p50", statistics.median(took_ms), "ms"),
        within("jobs", f"{case}, slowest of {len(took_ms)}", max(took_ms), "ms"),
    ]


def _update(client: SyncClient, agents: int, query: str) -> float:
    began = time.monotonic()
    updated = client.update(APP, query, reset=True)
    took_ms = 1000 * (time.monotonic() - began)
    if (updated.agents, updated.expected) != (agents, agents):
        raise BenchmarkError(f"{updated.agents} of {updated.expected} agents run version {updated.version}")
    return took_ms


def _asking(fleet: AgentFleet, extent: Extent) -> list[Comparison]:
    """Questions to every agent in turn, each over a connection of its own, as `elf ask` puts them."""
    took_ms = []
    with _running_job(fleet):
        time.sleep(_FIRST_WINDOW_S)
        for number in range(extent.questions):
            with elf.connect_sync(fleet.socket(fleet.names[number % len(fleet.names)])) as client:
                began = time.monotonic()
                answer = client.ask(APP)
                took_ms.append(1000 * (time.monotonic() - began))
            if not answer.windows:
                raise BenchmarkError("a job that runs had no window to tell")
    percentiles = statistics.quantiles(took_ms, n=_PERCENTILES, method="inclusive")
    case = f"a running job asked for its last window, {AGENTS} agents, {RATE:,} events/s"
    return [
        within("jobs", f"{case}, p50", percentiles[49], "ms", ASK_P50_TARGET_MS),
        within("jobs", f"{case}, p99", percentiles[98], "ms", ASK_P99_TARGET_MS),
    ]


if __name__ == "__main__":
    sys.exit(main("jobs", run))
