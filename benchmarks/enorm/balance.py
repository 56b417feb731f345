"""Key groups that move: how many it takes to balance agents, next to Flux, and the rows that are shipped, next to PoTC
(Enorm, sections 3.2 and 4.4.2).
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean, median
from time import process_time

import numpy as np
import numpy.typing as npt

from agent.grouping import Assignment, make_grouping
from agent.placement import BalanceOptions, GroupMove, PlacementLoads, flux_moves, flux_periods, plan_balance
from benchmarks.fish.streams import REAL_LOGS, Rows, Stream, real_streams, zipf
from benchmarks.report import Comparison, smaller, within
from cbt.algebra.partitions import partitions_of

NAME = "enorm"
GROUPS = 64
"""Key groups of a job."""
AGENTS = 8
"""Agents that own them."""
ORDERS, QUICK_ORDERS = 200, 50
"""Orders of chance in which groups are dealt to agents; the mean counts."""
PANES, WINDOW_PANES = 100, 5
"""Panes of a stream, and of each window."""
ZIPF_ROWS, QUICK_ROWS = 2_000_000, 200_000
EXPONENTS = (0.8, 1.0, 1.4)
QUICK_STREAMS = ("retail words", "wiki users")
SMOOTHING = 0.2
"""Weight of the last pane in the load of a group: with 0.5, moves follow what is chance in a pane."""
PLAN_MS = 50.0
"""Most time that a plan of 64 groups on 1,000 agents may take (ms)."""
PLANS = 20
Ints = npt.NDArray[np.int64]
Rule = Callable[[PlacementLoads], list[GroupMove]]


def balance(*, quick: bool) -> list[Comparison]:
    """All rows."""
    lines = [*_moves_lines(QUICK_ORDERS if quick else ORDERS), *_planning_lines()]
    if not any(real_streams()):
        print(f"no real logs in {REAL_LOGS}: their rows are left out (ELF_REAL_LOGS names the folder)", file=sys.stderr)
    real = [stream for stream in real_streams() if not quick or stream.name in QUICK_STREAMS]
    streams = [*(zipf(one, QUICK_ROWS if quick else ZIPF_ROWS) for one in EXPONENTS), *real]
    return [*lines, *(line for stream in streams for line in _shipping_lines(stream))]


# Moves next to Flux.


def _moves_lines(orders: int) -> Iterator[Comparison]:
    """Yields a line for each number of agents: both begin with the same groups, and reach Flux's imbalance."""
    for agents in (AGENTS, AGENTS // 2, 2 * AGENTS):
        found = [moves_until_balanced(agents, order) for order in range(orders)]
        ours, theirs = (fmean(column) for column in zip(*found, strict=True))
        case = f"groups moved until balanced, {GROUPS} of Zipf 1 on {agents} agents"
        yield smaller(NAME, case, ours, "groups", "Flux", theirs, 2.0)


def moves_until_balanced(agents: int, order: int) -> tuple[int, int]:
    """The moves of ELF and of Flux until the highest load is what Flux ends with."""
    work = np.random.default_rng(order).permutation(1 / np.arange(1.0, GROUPS + 1))
    before = flux = PlacementLoads.of(np.arange(GROUPS) % agents, work, np.zeros(agents))
    made: list[GroupMove] = []
    highest = [before.imbalance]
    for moves in flux_periods(before):
        for move in moves:
            flux = flux.moved([move])
            made.append(move)
            highest.append(flux.imbalance)
    reached = highest[-1]
    first = next(number for number, one in enumerate(highest) if one <= reached * (1 + 1e-9))
    plan = plan_balance(before, BalanceOptions(start=reached, stop=reached, gain_min=0.0))
    if plan.after > reached * (1 + 1e-9):
        return GROUPS, first
    return len(plan.moves), first


def _planning_lines() -> Iterator[Comparison]:
    for agents, speeds in ((AGENTS, "equal"), (1_000, "equal"), (1_000, "different")):
        chance = np.random.default_rng(agents)
        times = []
        for _ in range(PLANS):
            loads = PlacementLoads.of(
                chance.integers(0, agents, GROUPS),
                chance.pareto(1.0, GROUPS),
                chance.uniform(0, 1, agents),
                speeds=None if speeds == "equal" else chance.uniform(0.5, 2, agents),
            )
            began = process_time()
            plan_balance(loads)
            times.append(1e3 * (process_time() - began))
        case = f"processor time of a plan, {GROUPS} groups on {agents:,} agents of {speeds} speeds"
        yield within(NAME, case, median(times), "ms", PLAN_MS)


# Rows shipped next to PoTC.


@dataclass(frozen=True)
class _Dealt:
    """The agent of each row, and the groups that moved."""

    places: Ints
    moves: int = 0


@dataclass(frozen=True)
class _Shipped:
    """Entries (interval, key, agent) of panes and of windows, and the rows of the busiest agent of each pane over the
    mean."""

    panes: int
    windows: int
    busiest: float


def _shipping_lines(stream: Stream) -> Iterator[Comparison]:
    rows = stream.rows_of_run(0)
    panes = np.linspace(0, PANES, len(rows.hashes), endpoint=False).astype(np.int64)
    dealt = {
        "PoTC": by_two_choices(rows, panes),
        "groups that stay": by_groups(rows, panes, lambda _: []),
        "Flux": by_groups(rows, panes, flux_moves),
        "ELF": by_groups(rows, panes, lambda loads: plan_balance(loads).moves),
    }
    shipped = {name: entries_shipped(rows, panes, one.places) for name, one in dealt.items()}
    ours = shipped["ELF"]
    for rival, target in (("PoTC", 1.0), ("Flux", 1.0), ("groups that stay", None)):
        theirs = shipped[rival]
        case = f"rows shipped in windows of {WINDOW_PANES} panes, {AGENTS} agents: {stream.name}"
        yield smaller(NAME, case, ours.windows, "rows", rival, theirs.windows, target)
        if rival == "PoTC":
            case = f"rows shipped in panes, {AGENTS} agents: {stream.name}"
            yield smaller(NAME, case, ours.panes, "rows", rival, theirs.panes, target)
        case = f"rows of the busiest agent over the mean, by panes: {stream.name}"
        yield smaller(NAME, case, ours.busiest, "times", rival, theirs.busiest, 1.0)
    case = f"groups moved in {PANES} panes: {stream.name}"
    yield smaller(NAME, case, max(1, dealt["ELF"].moves), "groups", "Flux", dealt["Flux"].moves, 2.0)


def by_two_choices(rows: Rows, panes: Ints) -> _Dealt:
    """The power of two choices: a row goes to that of its key's two agents which its source has sent less to."""
    workers = Assignment(1, 1, tuple(f"owner-{one}".encode() for one in range(AGENTS)))
    groupings = [make_grouping("pkg", workers, source) for source in range(rows.sources)]
    places = np.empty(len(rows.hashes), np.int64)
    sources = np.arange(len(rows.hashes)) % rows.sources
    for pane in range(PANES):
        first, end = panes.searchsorted([pane, pane + 1])
        for source, grouping in enumerate(groupings):
            own = first + np.flatnonzero(sources[first:end] == source)
            places[own] = grouping.assign(rows.hashes[own], float(pane))
    return _Dealt(places)


def by_groups(rows: Rows, panes: Ints, rule: Rule) -> _Dealt:
    """Key groups whose owners a rule changes between panes, by the rows that each group has had."""
    groups = partitions_of(rows.hashes, GROUPS).astype(np.int64)
    owners = np.arange(GROUPS) % AGENTS
    places = np.empty(len(groups), np.int64)
    work = np.zeros(GROUPS)
    moved = 0
    for pane in range(PANES):
        first, end = panes.searchsorted([pane, pane + 1])
        places[first:end] = owners[groups[first:end]]
        now = np.bincount(groups[first:end], minlength=GROUPS)
        work = now if pane == 0 else SMOOTHING * now + (1 - SMOOTHING) * work
        opened = panes.searchsorted((pane + 1) // WINDOW_PANES * WINDOW_PANES)
        loads = PlacementLoads.of(
            owners, work, np.zeros(AGENTS), costs=1 + _keys_of_groups(groups[opened:end], rows.keys[opened:end])
        )
        moves = rule(loads)
        owners = loads.moved(moves).owners
        moved += len(moves)
    return _Dealt(places, moved)


def _keys_of_groups(groups: Ints, keys: npt.NDArray[np.int32]) -> Ints:
    """The number of different keys of each group: rows that become extra if it moves now."""
    different, first = np.unique(keys, return_index=True)
    return np.bincount(groups[first], minlength=GROUPS) if len(different) else np.zeros(GROUPS, np.int64)


def entries_shipped(rows: Rows, panes: Ints, places: Ints) -> _Shipped:
    keys = rows.keys.astype(np.int64) * AGENTS + places
    entries = int(rows.keys.max() + 1) * AGENTS
    by_pane = np.bincount(panes * AGENTS + places, minlength=PANES * AGENTS).reshape(PANES, AGENTS)
    return _Shipped(
        len(np.unique(panes * entries + keys)),
        len(np.unique(panes // WINDOW_PANES * entries + keys)),
        float(by_pane.max(axis=1).sum() / by_pane.mean(axis=1).sum()),
    )
