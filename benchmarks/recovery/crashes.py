"""Agents that are killed: a leaf of the job's tree, an interior node, and the master.

Each trial kills one agent of that kind while the servers log on, measures how late windows come from then on, starts
the agent again, and waits for a complete window.
"""

import time
from collections.abc import Sequence

import elf
from benchmarks.agents import running_agents
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison
from elf.client import ClientError
from elf.demo.agents.agents import AgentFleet

from .lines import TARGETS_S, at_most, crash_lines
from .watching import Publication, WindowWatch, has_all, is_complete, watched_job

RECOVER = "RECOVER FOR 0 SECONDS"
WATCHED_WINDOWS = 6
"""Number of windows after a crash among which the slowest is looked for."""


def run(agents: int, trials: int) -> list[Comparison]:
    """Kills one agent at a time. Agents of a kind that the tree does not have are not measured."""
    with running_agents(agents) as (fleet, folder, _):
        for observer in reversed(fleet.names):
            with watched_job(fleet, folder, RECOVER, observer=observer) as (app, watch):
                watch.wait(is_complete(agents), "no complete window")
                if _kinds(fleet, app).get(observer) != "master":  # which could not be killed
                    return _measured(fleet, app, watch, observer, trials)
    raise BenchmarkError("each agent that was asked for a job became its master")


def _measured(fleet: AgentFleet, app: str, watch: WindowWatch, observer: str, trials: int) -> list[Comparison]:
    lines: list[Comparison] = []
    for kind in TARGETS_S:
        found = [one for _ in range(trials) for one in _trial(fleet, app, watch, kind, observer)]
        place = f"{len(fleet.names)}"
        lines += crash_lines("", place, kind, found) if found else [_none(kind, f"{place} agents")]
    return lines


def _none(kind: str, place: str) -> Comparison:
    return at_most(f"{kind} killed: {place}, no agent was one", 0.0, "crashes")


def _trial(fleet: AgentFleet, app: str, watch: WindowWatch, kind: str, observer: str) -> Sequence[tuple[float, float]]:
    """The delay of the slowest window after one crash, and that of the first with all agents that live; nothing if
    there is no such agent."""
    victim = next((name for name, is_it in _kinds(fleet, app).items() if is_it == kind and name != observer), None)
    if victim is None:
        return []
    killed_s = time.time()
    fleet.kill(victim)

    def is_last(found: Publication) -> bool:
        return found.window_end_s >= killed_s + WATCHED_WINDOWS

    watch.wait(is_last, f"no windows after the {kind} was killed")
    living = len(fleet.names) - 1
    whole = watch.wait(has_all(living, killed_s), "no window with all that live")
    slowest_s = max(found.late_s for found in watch.since(killed_s))
    restarted_s = time.time()
    fleet.restart(victim)
    watch.wait(is_complete(len(fleet.names), restarted_s), "no complete window any more")
    return [(slowest_s, whole.late_s)]


def _kinds(fleet: AgentFleet, app: str) -> dict[str, str]:
    """The kind of each agent in the job's first tree."""
    kinds = {}
    for name in fleet.names:
        try:
            with elf.connect_sync(fleet.socket(name)) as client:
                jobs = [job for job in client.status().jobs if job.app == app]
        except ClientError as error:
            raise BenchmarkError(f"{name}: {error}") from error
        for job in jobs:
            inner = "interior node" if job.children else "leaf"
            kinds[name] = "master" if "master" in job.roles else inner
    return kinds
