"""An agent that stops for a while (SIGSTOP) and lives on: how late windows are that leap over it."""

import signal
import time

from benchmarks.agents import running_agents
from benchmarks.report import Comparison

from .crashes import WATCHED_WINDOWS
from .lines import STRAGGLER_TARGET_S, at_most
from .watching import Publication, is_complete, watched_job

CLAUSES = "ON STRAGGLER LEAP AFTER 2 PANES RECOVER FOR 0 SECONDS"
"""An agent that has stood still for three seconds counts as dead."""


def run(agents: int, trials: int) -> list[Comparison]:
    """Stops one agent at a time, and lets it go on."""
    late_s: list[float] = []
    with running_agents(agents) as (fleet, folder, _):
        observer, straggler = fleet.names[0], fleet.names[-1]
        with watched_job(fleet, folder, CLAUSES, observer=observer) as (_, watch):
            watch.wait(is_complete(agents), "no complete window")
            for _ in range(trials):
                stopped_s = time.time()
                fleet.process(straggler).signal(signal.SIGSTOP)
                try:

                    def is_last(found: Publication, since: float = stopped_s) -> bool:
                        return found.window_end_s >= since + WATCHED_WINDOWS

                    watch.wait(is_last, "no windows beside an agent that stands still")
                finally:
                    fleet.process(straggler).signal(signal.SIGCONT)
                late_s += [found.late_s for found in watch.since(stopped_s)]
                watch.wait(is_complete(agents, time.time()), "no complete window")
    case = f"one agent stopped, slowest window: {agents} agents, {trials} stops"
    return [at_most(case, max(late_s), "s", STRAGGLER_TARGET_S)]
