"""How data shuffling time grows with the fleet (Figures 12a and 12b), among simulated agents."""

from collections.abc import Sequence

import polars as pl

from agent import Feed, WindowResult
from agent.parsing import Parsed
from benchmarks.overlay.lines import quantile, size
from benchmarks.overlay.population import progress
from benchmarks.report import Comparison
from overlay import Id

from .lines import at_most
from .shuffling import KEYS, OPERATORS, query_of
from .simulated_agents import GRACE_S, SimulatedAgents, without_collector

WINDOW_MS = 10_000
HOW = ("alone", "all four at once")
GROWTH_TARGET = 1.5
"""The largest fleet may take so many times as long as a line through the smallest and the one before says."""


def label(operator: str, how: str) -> str:
    """A curve's name."""
    return f"simulated, links of 0.5 ms, shuffling {KEYS:,} keys, {operator} {how}"


CURVES = {how: [label(operator, how) for operator in OPERATORS] for how in HOW}


@without_collector()
def run(sizes: Sequence[int], batches: int) -> list[Comparison]:
    """From the moment in which all agents fetch a window's snapshot until the root publishes the result."""
    curves: dict[str, dict[int, float]] = {}
    for agents in sizes:
        fleet = SimulatedAgents(1, agents)
        for operators, how in [*(([operator], HOW[0]) for operator in OPERATORS), (OPERATORS, HOW[1])]:
            for operator, times in _measure(fleet, operators, batches).items():
                curves.setdefault(label(operator, how), {})[agents] = 1000 * quantile(times, 0.5)
            progress(f"{agents:,} agents, {', '.join(operators)}: {fleet.now:.0f} s simulated")
    report = [
        at_most(f"{name}: {size(agents)}", took_ms, "ms")
        for name, curve in curves.items()
        for agents, took_ms in curve.items()
    ]
    return report + [line for name, curve in curves.items() for line in growth(name, curve)]


def growth(name: str, curve: dict[int, float]) -> list[Comparison]:
    """How the time of the largest fleet compares with what it would be if it grew by as much each time as before.

    Sizes grow by the same factor each time. Of less than three there is nothing to say.
    """
    if len(curve) < 3:
        return []
    (smallest, first), *_, (larger, before), (largest, last) = curve.items()
    straight = before + max(before - first, 0.0) / (len(curve) - 2)
    case = f"{name}, {largest:,} agents over a line through {smallest:,} and {larger:,} on a logarithmic axis"
    return [at_most(case, last / straight, "x", GROWTH_TARGET)]


def _measure(fleet: SimulatedAgents, operators: Sequence[str], batches: int) -> dict[str, list[float]]:
    """Seconds of each batch, by operator."""
    fleet.reads_on = True
    jobs: dict[str, Id] = {
        operator: fleet.run_job(f"{query_of(operator)} WINDOWING {WINDOW_MS // 1000} SECONDS", operator.lower())
        for operator in operators
    }
    fleet.skip_to((fleet.wall_ms // WINDOW_MS + 1) * WINDOW_MS + int(1000 * GRACE_S) + 1)
    fleet.run(2.0)
    fleet.reads_on = False
    times: dict[str, list[float]] = {operator: [] for operator in operators}
    for _ in range(batches):
        for operator, took_s in _batch(fleet, operators).items():
            times[operator].append(took_s)
    for key in jobs.values():
        fleet.stop_job(key)
    return times


def _batch(fleet: SimulatedAgents, operators: Sequence[str]) -> dict[str, float]:
    begins = (fleet.wall_ms // WINDOW_MS + 1) * WINDOW_MS
    fleet.skip_to(begins)
    fleet.insert(lambda _number, feed: _block(begins, feed))
    fleet.until_idle()
    fleet.results.clear()
    fleet.skip_to(begins + WINDOW_MS + int(1000 * GRACE_S) + 1)
    fetched_at = fleet.close_panes()
    arrived: dict[str, float] = {}

    def all_are_there() -> bool:
        arrived.update((result.app.upper(), at) for at, result in fleet.results if _is_whole(result, len(fleet)))
        return len(arrived) == len(operators)

    fleet.run_until(all_are_there, f"not all results of {len(fleet)} agents are there")
    return {operator: at - fetched_at for operator, at in arrived.items()}


def _block(at_ms: int, feed: Feed) -> Parsed:
    """An event for each key, with the columns that the feed's jobs want."""
    values = {"product": [f"product {key}" for key in range(KEYS)], "clicks": [key % 7 + 1 for key in range(KEYS)]}
    columns = {column.name: values[column.field] for column in feed.columns}
    frame = pl.DataFrame({"@time": pl.Series([at_ms] * KEYS, dtype=pl.Int64), **columns})
    return Parsed((frame,), malformed=0)


def _is_whole(result: WindowResult, agents: int) -> bool:
    return (len(result.rows), result.contributors, result.expected) == (KEYS, agents, agents)
