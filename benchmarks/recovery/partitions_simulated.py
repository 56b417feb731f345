"""A network that is cut in two for a minute: what both sides say meanwhile, and when one fleet is whole again."""

from collections import defaultdict

from benchmarks.jobs.simulated_agents import without_collector
from benchmarks.overlay.lines import size
from benchmarks.overlay.population import progress
from benchmarks.report import Comparison

from .crashes import RECOVER
from .lines import HEALED_TARGET_S, SIDE_TARGET_S, at_most
from .simulated_job import SimulatedJob

CUT_S = 60.0
SETTLED_S = 30.0
"""Time after the cut from which on each side has a master, whose windows are looked at."""


@without_collector()
def run(agents: int) -> list[Comparison]:
    """Cuts off every other agent; both sides go on and name the others as missing."""
    job = SimulatedJob(agents, RECOVER)
    progress(f"{agents:,} agents have joined and run the job")
    job.run(3.0)
    job.fleet.results.clear()
    cut_s = job.wall_s
    few = job.fleet.agents[::2]
    job.fleet.cut(few)
    job.run(CUT_S)
    sides: dict[float, list[float]] = defaultdict(list)
    for one in job.windows(cut_s + SETTLED_S):
        sides[one.end_s].append(one.late_s)
    healed_s = job.wall_s
    job.fleet.heal()
    job.until(lambda: job.is_whole(agents, healed_s) and job.masters == 1, "not one fleet again")
    whole_s = min(
        one.at_s for one in job.windows(healed_s) if one.result.contributors == agents and not one.result.partial
    )
    due = [late for end_s, late in sides.items() if end_s < healed_s - 4.0]
    both = 100.0 * sum(len(late) >= 2 for late in due) / max(1, len(due))
    place, slowest_s = size(agents), max(map(max, due))
    return [
        at_most(f"simulated, cut in two, slowest window of either side: {place}", slowest_s, "s", SIDE_TARGET_S),
        at_most(f"simulated, cut in two, windows that both sides publish, of 100: {place}", both, "%"),
        at_most(f"simulated, healed, first window with everybody: {place}", whole_s - healed_s, "s", HEALED_TARGET_S),
    ]
