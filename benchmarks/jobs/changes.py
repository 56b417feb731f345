"""How soon all agent processes run a change of a job (Figure 10b): a notice, a filter, code in Python."""

import time

import elf
from benchmarks.agents import live_logs, running_agents
from benchmarks.environment import use_two_cores
from benchmarks.overlay.lines import quantile
from benchmarks.overlay.population import progress
from benchmarks.replay import Replay
from benchmarks.report import Comparison
from elf.client import JobUpdated
from elf.demo.agents.agents import AgentFleet

from .fleets import GROUPS, SELECT, program, running_program, running_query
from .lines import at_least, at_most

RATE = 2_000
"""Live events a second, of all agents together."""
PAUSE_S = 1.0
"""Versions whose windows are not out yet are limited."""
NOTICE = "a master's word (multicast) until the code of all agents has it"
FILTER = "another filter until all agents have acknowledged that they run it"
CODE = "other Python code until all agents have acknowledged that they run it"
REPORT_TIMEOUT_S = 60.0


def run(agents: int, changes: int) -> list[Comparison]:
    """One fleet; the agent that is asked for a change is not that of the job."""
    use_two_cores()
    with running_agents(agents) as (fleet, folder, _), Replay(folder / "sample", live_logs(fleet, folder), RATE):
        progress(f"{agents} agents: notices")
        report = _quantiles(NOTICE, agents, _notices(fleet, changes))
        progress(f"{agents} agents: filters")
        report += _lines(FILTER, agents, _filters(fleet, changes))
        progress(f"{agents} agents: code")
        return report + _lines(CODE, agents, _codes(fleet, changes))


def _lines(label: str, agents: int, changes: list[tuple[JobUpdated, float]]) -> list[Comparison]:
    """Of changes with what was answered; the time of those counts that all agents have acknowledged."""
    took_ms = [took for updated, took in changes if updated.agents == updated.expected == agents]
    share = at_least(f"{label}, of all changes: {agents} agents", 100 * len(took_ms) / len(changes), "%", 100.0)
    return [*_quantiles(label, agents, took_ms), share]


def _quantiles(label: str, agents: int, took_ms: list[float]) -> list[Comparison]:
    return [
        at_most(f"{label}, p50: {agents} agents", quantile(took_ms, 0.5), "ms"),
        at_most(f"{label}, p99: {agents} agents", quantile(took_ms, 0.99), "ms"),
    ]


def _notices(fleet: AgentFleet, count: int) -> list[float]:
    """Until the last has it. Whoever began later has not heard the first of them."""
    code = program("notices", COUNT=count + 2)
    with running_program(fleet, "notices", code) as job:
        said = job.reports(len(fleet.names), REPORT_TIMEOUT_S)
    heard_by_all = set.intersection(*(set(times) for times in said.values()))
    return [1000 * max(times[number] for times in said.values()) for number in heard_by_all]


def _filters(fleet: AgentFleet, count: int) -> list[tuple[JobUpdated, float]]:
    app, changes = "clicks", []
    with (
        running_query(fleet, app, f"{SELECT} {GROUPS}"),
        elf.connect_sync(fleet.socket(fleet.names[-1])) as client,
    ):
        for number in range(count):
            time.sleep(PAUSE_S)
            began = time.monotonic()
            updated = client.update(app, f"{SELECT} WHERE clicks_count > {number} {GROUPS}", reset=True)
            changes.append((updated, 1000 * (time.monotonic() - began)))
    return changes


def _codes(fleet: AgentFleet, count: int) -> list[tuple[JobUpdated, float]]:
    changes, code = [], program("notices", COUNT=1_000_000)
    with running_program(fleet, "coded", code) as job:
        for number in range(count):
            time.sleep(PAUSE_S)
            changes.append(job.update(code + f"# version {number + 2}\n".encode()))
    return changes
