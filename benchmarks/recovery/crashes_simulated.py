"""The same crashes on simulated agents, up to the fleet of the paper, on which silence is all that tells of a crash."""

import random

from agent import Agent
from benchmarks.jobs.simulated_agents import without_collector
from benchmarks.overlay.lines import size
from benchmarks.overlay.population import progress
from benchmarks.report import Comparison

from .crashes import RECOVER, WATCHED_WINDOWS
from .lines import TARGETS_S, crash_lines
from .simulated_job import SimulatedJob

SETTLED_S = 2.0
"""Simulated time after windows are complete again, before the next crash."""


@without_collector()
def run(agents: int, trials: int) -> list[Comparison]:
    """Kills agents one after the other, of each kind in turn that the tree has; those killed stay away."""
    job, source = SimulatedJob(agents, RECOVER), random.Random(1)
    progress(f"{agents:,} agents have joined and run the job")
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in TARGETS_S}
    for _ in range(trials):
        for kind in TARGETS_S:
            job.run(SETTLED_S + source.random())
            victim = next((agent for agent in job.fleet.agents[1:] if job.kind(agent) == kind), None)
            if victim is not None:
                found[kind].append(_trial(job, kind, victim))
    measured = [(kind, trials) for kind, trials in found.items() if trials]
    return [line for kind, trials in measured for line in crash_lines("simulated, ", size(agents), kind, trials)]


def _trial(job: SimulatedJob, kind: str, victim: Agent) -> tuple[float, float]:
    """The delay of the slowest window after one crash, and that of the first with all agents that live."""
    job.fleet.results.clear()
    killed_s = job.wall_s
    job.fleet.kill(victim)
    living = len(job.fleet)
    job.until(
        lambda: any(one.end_s >= killed_s + WATCHED_WINDOWS for one in job.windows()),
        f"no windows after a {kind} was killed",
    )
    job.until(lambda: job.is_whole(living, killed_s), f"no complete window after a {kind} was killed")
    found = job.windows(killed_s)
    whole = next(one for one in found if one.result.contributors == living and not one.result.partial)
    return max(one.late_s for one in found), whole.late_s
