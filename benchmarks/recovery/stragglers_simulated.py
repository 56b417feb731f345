"""One simulated agent that reads nothing for a while, or stands still: how late windows are that leap over it."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent.runtime.master.job_master import JobMaster
from agent.runtime.messages.jobs import Lagging
from benchmarks.jobs.simulated_agents import without_collector
from benchmarks.overlay.lines import quantile, size
from benchmarks.overlay.population import progress
from benchmarks.report import Comparison

from .lines import LEAP_TARGET_S, STRAGGLER_TARGET_S, at_most
from .simulated_job import SimulatedJob
from .stragglers import CLAUSES

BEHIND_S = 6.0
"""Time for which the agent is behind."""
SETTLED_S = 3.0


@without_collector()
def run(agents: int, trials: int) -> list[Comparison]:
    """Slows one agent down at a time, and stops one at a time."""
    job = SimulatedJob(agents, CLAUSES)
    progress(f"{agents:,} agents have joined and run the job")
    late_s: dict[str, list[float]] = {"reads nothing": [], "stands still": []}
    leap_s: list[float] = []
    for number in range(trials):
        for what, found in late_s.items():
            with _decisions(job) as decided:
                found.append(_trial(job, number, what))
            if what == "reads nothing":
                leap_s += _delays(job, decided)
    place = size(agents)
    lines = [
        at_most(f"simulated, one agent {what}, slowest window: {place}", max(found), "s", STRAGGLER_TARGET_S)
        for what, found in late_s.items()
    ]
    leap = f"simulated, leap, from decision to publication, p99: {place}"
    return [*lines, at_most(leap, quantile(leap_s, 0.99), "s", LEAP_TARGET_S)]


def _trial(job: SimulatedJob, number: int, what: str) -> float:
    """The delay of the slowest window beside an agent that is behind."""
    leaves = [agent for agent in job.fleet.agents[1:] if job.kind(agent) == "leaf"]
    slow = leaves[number % len(leaves)]
    job.fleet.results.clear()
    began_s = job.wall_s
    if what == "reads nothing":
        job.fleet.mute.add(slow.name)
    else:
        job.fleet.stall(slow, BEHIND_S)
    job.run(BEHIND_S)
    job.fleet.mute.discard(slow.name)
    job.run(SETTLED_S)
    job.until(lambda: job.is_whole(len(job.fleet), job.wall_s - 2.0), "no complete window")
    return max(one.late_s for one in job.windows(began_s))


@contextmanager
def _decisions(job: SimulatedJob) -> Iterator[dict[int, float]]:
    """The panes up to which the master has decided to leap, with the virtual times."""
    decided: dict[int, float] = {}
    original = JobMaster.lagging

    def lagging(master: JobMaster, message: Lagging, now: float) -> None:
        original(master, message, now)
        decided.setdefault(master.leaped_upto, job.fleet.moment)

    JobMaster.lagging = lagging  # type: ignore[method-assign]
    try:
        yield decided
    finally:
        JobMaster.lagging = original  # type: ignore[method-assign]


def _delays(job: SimulatedJob, decided: dict[int, float]) -> list[float]:
    """The time from each decision to the publication of the last pane that it leaps over."""
    published = {round(1000 * one.end_s) - 1000: one.at_s - (job.wall_s - job.fleet.now) for one in job.windows()}
    return [published[upto] - at for upto, at in decided.items() if upto in published and published[upto] >= at]
