"""Ad-hoc queries with windows of different lengths over what a fleet's logs hold (Figure 10a, of a whole fleet)."""

import statistics
import time

import elf
from benchmarks.agents import BACKLOG, running_agents, write_events
from benchmarks.environment import use_two_cores
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison
from elf.demo.agents.agents import AgentFleet

from .lines import at_most

WINDOWS_S = (30, 60, 120, 300)
ROUNDS = 3


def run(agents: int, events: int) -> list[Comparison]:
    """From asking to the last window, the logs of all agents read; lengths take turns."""
    use_two_cores()
    took_s: dict[int, list[float]] = {length: [] for length in WINDOWS_S}
    with running_agents(agents) as (fleet, folder, _):
        write_events(folder, fleet.names, BACKLOG, events)
        _ask(fleet, WINDOWS_S[0], events)
        for _ in range(ROUNDS):
            for length in WINDOWS_S:
                took_s[length].append(_ask(fleet, length, events))
    label = f"an ad-hoc query over {events / 1e6:g} million events of ten minutes, {agents} agents"
    return [at_most(f"{label}: {length} s windows", statistics.median(times), "s") for length, times in took_s.items()]


def _ask(fleet: AgentFleet, length_s: int, events: int) -> float:
    text = f"SELECT user.name, COUNT(*) AS n FROM {BACKLOG} GROUP BY user.name ORDER BY n DESC LIMIT 10"
    began = time.monotonic()
    with (
        elf.connect_sync(fleet.socket(fleet.names[0])) as client,
        client.query(f"{text} WINDOWING {length_s} SECONDS", once=True) as job,
    ):
        counted = sum(window.events for window in job)
    if counted != events:
        raise BenchmarkError(f"{counted:,} of {events:,} events were counted")
    return time.monotonic() - began
