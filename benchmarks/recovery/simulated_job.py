"""A live job on simulated agents that all log, and its windows as its masters publish them.

What is measured here are waits of the protocol; so each agent logs little.
"""

from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from agent import Agent, WindowResult
from agent.parsing import Parsed
from agent.runtime.job.local_job import LocalJob
from benchmarks.jobs.simulated_agents import STREAM, SimulatedAgents
from benchmarks.race import BenchmarkError

from .watching import GRACE_S, end_s_of

PAUSE_S = 0.5
"""So often each agent finds an event in its log."""
LIMIT_S = 90.0
"""Time after which what is waited for is given up."""


class Published(NamedTuple):
    """A window as a master has published it, in seconds of the wall clock."""

    end_s: float
    at_s: float
    result: WindowResult

    @property
    def late_s(self) -> float:
        """The delay after the window's end and grace."""
        return self.at_s - self.end_s - GRACE_S


class SimulatedJob:
    """A job that counts events in windows of a second, with these clauses, on so many agents."""

    def __init__(self, agents: int, clauses: str, seed: int = 1) -> None:
        self.fleet = SimulatedAgents(seed, agents)
        text = f"SELECT COUNT(*) AS events FROM {STREAM} WINDOWING 1 SECOND GRACE {GRACE_S:g} SECONDS {clauses}"
        self.key = self.fleet.run_job(text.strip(), "recovery")
        self.until(lambda: self.is_whole(agents), "no complete window")

    @property
    def wall_s(self) -> float:
        return self.fleet.wall_ms / 1000

    def run(self, seconds: float) -> None:
        """Lets time pass while the servers log."""
        end = self.fleet.now + seconds
        while self.fleet.now < end:
            at_ms = self.fleet.wall_ms
            events = pl.DataFrame({"@time": [at_ms]}, schema={"@time": pl.Int64})
            self.fleet.insert(lambda _number, _feed, events=events: Parsed((events,), 0))  # type: ignore[misc]
            self.fleet.run(min(PAUSE_S, end - self.fleet.now))

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """The same until something is so. Raises BenchmarkError if it does not come about."""
        end = self.fleet.now + LIMIT_S
        while not condition():
            if self.fleet.now >= end:
                raise BenchmarkError(f"{what} within {LIMIT_S:g} simulated seconds")
            self.run(PAUSE_S)

    def windows(self, since_s: float = 0.0) -> list[Published]:
        """The windows whose end and grace were due after a time."""
        offset_s = self.wall_s - self.fleet.now
        found = [Published(end_s_of(result), offset_s + at, result) for at, result in self.fleet.results]
        return [one for one in found if one.end_s + GRACE_S > since_s]

    def is_whole(self, agents: int, since_s: float = 0.0) -> bool:
        """Whether so many agents as a whole are in a window that has ended after a time."""
        windows = (one for one in self.windows(since_s) if one.end_s > since_s)
        return any(one.result.contributors == agents and not one.result.partial for one in windows)

    @property
    def masters(self) -> int:
        """Number of agents that take themselves for the job's master."""
        return sum(agent.masters.get(self.key) is not None for agent in self.fleet.agents)

    def local(self, agent: Agent) -> LocalJob | None:
        """An agent's side of the job."""
        return agent.jobs.get(self.key)

    def kind(self, agent: Agent) -> str:
        """What an agent is in the job's first tree."""
        job = self.local(agent)
        if job is None:
            return "stranger"
        if job.root is not None:
            return "master"
        return "interior node" if job.nodes.has_children else "leaf"
