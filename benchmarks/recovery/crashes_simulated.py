"""The same crashes on simulated agents, up to the fleet of the paper, on which silence is all that tells of a crash."""

from datetime import datetime

from agent import Agent
from benchmarks.jobs.paper_load import PAUSE_S, Posts
from benchmarks.jobs.simulated_agents import LIMIT_S, STREAM, SimulatedAgents, without_collector
from benchmarks.overlay.lines import size
from benchmarks.overlay.population import progress
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison
from overlay import Id

from .crashes import RECOVER, TARGETS_S, WATCHED_WINDOWS
from .lines import crash_lines
from .watching import GRACE_S

QUERY = (
    f"SELECT user, COUNT(*) AS posts FROM {STREAM} WHERE label = 'sales' GROUP BY user ORDER BY posts DESC LIMIT 10 "
    f"WINDOWING 1 SECOND GRACE {GRACE_S:g} SECONDS {RECOVER}"
)
SETTLED_S = 20.0
"""Simulated time between two crashes."""


@without_collector()
def run(agents: int, trials: int) -> list[Comparison]:
    """Kills agents one after the other, of each kind in turn; those killed stay away."""
    fleet, posts = SimulatedAgents(1, agents), Posts(1)
    key = fleet.run_job(QUERY, "recovery")
    _log_for(fleet, posts, SETTLED_S)
    progress(f"{agents:,} agents have joined and run the job")
    late_s: dict[str, list[float]] = {kind: [] for kind in TARGETS_S}
    for _ in range(trials):
        for kind, found in late_s.items():
            found += _trial(fleet, posts, key, kind)
    return [
        line
        for kind, found in late_s.items()
        for line in crash_lines(kind, f"simulated, {size(agents)}", found, TARGETS_S[kind])
    ]


def _trial(fleet: SimulatedAgents, posts: Posts, key: Id, kind: str) -> list[float]:
    victim = next((agent for agent in fleet.agents[1:] if _kind(agent, key) == kind), None)
    if victim is None:
        raise BenchmarkError(f"no agent but the one that is asked is a {kind}")
    fleet.results.clear()
    killed_s = fleet.wall_ms / 1000
    fleet.kill(victim)
    while not any(end_s >= killed_s + WATCHED_WINDOWS for end_s, _ in _publications(fleet)):
        if fleet.wall_ms / 1000 > killed_s + LIMIT_S:
            raise BenchmarkError(f"no windows within {LIMIT_S:g} simulated seconds after a {kind} was killed")
        _log_for(fleet, posts, PAUSE_S)
    late_s = [at_s - end_s - GRACE_S for end_s, at_s in _publications(fleet) if end_s + GRACE_S > killed_s]
    _log_for(fleet, posts, SETTLED_S)
    return late_s


def _log_for(fleet: SimulatedAgents, posts: Posts, seconds: float) -> None:
    """Lets time pass while the servers log."""
    for _ in range(round(seconds / PAUSE_S)):
        fleet.insert(lambda _number, feed: posts.read(feed, fleet.wall_ms))
        fleet.run(PAUSE_S)


def _kind(agent: Agent, key: Id) -> str:
    job = agent.jobs.get(key)
    if job is None:
        return "stranger"
    if job.root is not None:
        return "master"
    return "interior node" if job.nodes.has_children else "leaf"


def _publications(fleet: SimulatedAgents) -> list[tuple[float, float]]:
    """The end of each window, and when it was published, in seconds of the simulated wall clock."""
    offset_s = fleet.wall_ms / 1000 - fleet.now
    return [
        (datetime.fromisoformat(result.window_end).timestamp(), offset_s + at)
        for at, result in fleet.results
        if result.window_end is not None
    ]
