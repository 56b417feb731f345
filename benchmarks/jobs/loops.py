"""How long an iteration of a feedback loop takes (section 5 of the paper: tens of milliseconds)."""

from benchmarks.agents import running_agents
from benchmarks.environment import use_two_cores
from benchmarks.overlay.lines import quantile
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison

from .fleets import program, running_program
from .lines import at_most

CLUSTERS = 4
"""So many sums come from each agent, each of one point."""
LABEL = "an iteration of a feedback loop"
TIMEOUT_S = 120.0


def run(agents: int, steps: int) -> list[Comparison]:
    """The first steps go while agents still come in, and do not count."""
    use_two_cores()
    with (
        running_agents(agents) as (fleet, _, _),
        running_program(fleet, "loop", program("loop", STEPS=steps, CLUSTERS=CLUSTERS)) as job,
    ):
        said = job.reports(1, TIMEOUT_S)
    took_ms = [took for steps in said.values() for took, points in steps if points == CLUSTERS * agents]
    if 2 * len(took_ms) < steps:
        raise BenchmarkError(f"only {len(took_ms)} of {steps} iterations had all {agents} agents in them")
    return [
        at_most(f"{LABEL}, {share}: {agents} agents", quantile(took_ms, at), "ms")
        for share, at in (("p50", 0.5), ("p99", 0.99))
    ]
