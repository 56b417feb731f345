"""How long data shuffling takes (Figures 12a and 12b): from the first snapshot's fetching to the result at the root."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.agents import running_agents
from benchmarks.environment import use_two_cores
from benchmarks.overlay.lines import quantile
from benchmarks.overlay.population import progress
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison
from elf.demo.agents.agents import AgentFleet

from .fleets import RunningProgram, program, running_program
from .lines import at_most

KEYS = 1_000
OPERATORS = ("MAX", "MIN", "SUM", "AVG")
TARGET_MS = 100.0
TIMEOUT_S = 120.0


def query_of(operator: str) -> str:
    """What a job computes of all keys."""
    return f"SELECT product, {operator}(clicks) AS clicks FROM web GROUP BY product"


def run(agents: int, batches: int) -> list[Comparison]:
    """Each operator alone, then all four at the same moments."""
    use_two_cores()
    report: list[Comparison] = []
    with running_agents(agents) as (fleet, _, _):
        for operator in OPERATORS:
            progress(f"{operator} alone")
            report += _lines(fleet, "alone", _measure(fleet, [operator], batches))
        progress("all at once")
        return report + _lines(fleet, "all four at once", _measure(fleet, OPERATORS, batches))


def _measure(fleet: AgentFleet, operators: Sequence[str], batches: int) -> dict[str, list[float]]:
    with ExitStack() as jobs:
        running = {}
        for operator in operators:
            code = program("batches", QUERY=query_of(operator), KEYS=KEYS, COUNT=batches)
            running[operator] = jobs.enter_context(running_program(fleet, operator.lower(), code))
        return {operator: _times(fleet, job, operator) for operator, job in running.items()}


def _times(fleet: AgentFleet, job: RunningProgram, operator: str) -> list[float]:
    """Milliseconds of those batches in which all agents' keys are."""
    agents = len(fleet.names)
    said: dict[str, Any] = job.reports(agents, TIMEOUT_S)
    (arrived,) = [one["arrived"] for one in said.values() if one["arrived"]]
    took_ms = []
    for pane, (at, keys, contributors) in arrived.items():
        fetched = [one["fetched"][pane] for one in said.values() if pane in one["fetched"]]
        if (keys, contributors, len(fetched)) == (KEYS, agents, agents):
            took_ms.append(1000 * (at - min(fetched)))
    if not took_ms:
        raise BenchmarkError(f"{operator}: no result of all {agents} agents and {KEYS:,} keys: {arrived}")
    return took_ms


def _lines(fleet: AgentFleet, how: str, took_ms: dict[str, list[float]]) -> list[Comparison]:
    label = f"shuffling {KEYS:,} keys, {len(fleet.names)} agents, {how}"
    return [
        at_most(f"{label}, {share}: {operator}", quantile(times, at), "ms", TARGET_MS if share == "p50" else None)
        for share, at in (("p50", 0.5), ("p99", 0.99))
        for operator, times in took_ms.items()
    ]
