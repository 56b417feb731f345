"""Decides how a job's windows are computed, from what was measured (Enorm, sections 5.1.1 and 5.1.2).

The paper has two ways, split and combined: one decision says whether rows are counted per partial window, and whether
states are shipped. Here these are three decisions, each apart from the others:

- *counting*: once into the state of its pane, or into the state of each window that a row is in;
- *sending*: each pane as it is sealed, or, consolidated at the agents, at the next edge of a window;
- *merging*: windows at the owners of key groups, or all at the master.

Whoever counts per window has nothing to send before an edge, so there are six ways. All are priced; each decision
shows the cost of the best way of either choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum
from math import inf, isinf
from typing import NamedTuple

from agent.placement.amounts import check_amount
from agent.placement.window_counts import Intervals, WindowCounts, copies

KEEP_GAIN = 0.05
"""Share of its processor time that a present way may cost more than the cheapest, and is kept."""
LOAD_MAX = 0.7
"""Share of a period for which a root may be busy with a job, unless told otherwise."""
_RECEIVED = 0.5
"""Share of the time to ship a state that its receiver takes."""


class Counting(Enum):
    """Says into which states a row is counted."""

    PANES = "per pane"
    WINDOWS = "per window"


class Sending(Enum):
    """Says when agents send states to owners."""

    PANES = "each pane"
    EDGES = "at edges of windows"


class Merging(Enum):
    """Says where windows are made."""

    OWNERS = "at owners"
    MASTER = "at the master"


class Way(NamedTuple):
    """One way to compute windows; panes at owners is the one that needs no statistics."""

    counting: Counting = Counting.PANES
    sending: Sending = Sending.PANES
    merging: Merging = Merging.OWNERS


WAYS = tuple(
    Way(counting, sending, merging)
    for counting, sending in (
        (Counting.PANES, Sending.PANES),
        (Counting.PANES, Sending.EDGES),
        (Counting.WINDOWS, Sending.EDGES),
    )
    for merging in Merging
)
"""All ways; of equal ones the first is taken."""


@dataclass(frozen=True, slots=True)
class WindowJob:
    """The part of a job that statistics do not change: its windows, in periods of so many seconds, key groups, agents
    that send their states, and owners of groups.

    `is_rigid`: its states do not combine, so rows are counted per window, at owners, and groups move with a pause.
    `latency_max_s`: the longest that moves may hold it up in a period. `load_max`: the share of a period for which a
    root may be busy with it. Raises ValueError, which names the field.
    """

    windows: WindowCounts
    period_s: float
    groups: int = 64
    agents: int = 1
    owners: int = 1
    is_rigid: bool = False
    latency_max_s: float = inf
    load_max: float = LOAD_MAX

    def __post_init__(self) -> None:
        check_amount("period_s", self.period_s, 1e-3)
        for field in ("groups", "agents", "owners"):
            check_amount(field, getattr(self, field), 1)
        if not isinf(self.latency_max_s):
            check_amount("latency_max_s", self.latency_max_s)
        check_amount("load_max", self.load_max)


@dataclass(frozen=True, slots=True)
class WindowWork:
    """Measurements of a job over a period, smoothed over some; the paper's letters in brackets.

    `rows`: those that all agents count (T). `row_s`: seconds to count one into one state (E). `copy_s`: seconds to ship
    one key group's state of a pane from an agent into its owner's (K₁). `input_s`: seconds to merge one group's state
    of a pane into a window's. `moves`: groups that move (MK). `pause_s`: seconds for which a rigid one stands still
    (L). `growth`: exponent by which the keys of n panes grow with n, 0 to 1. `spread`: a group's keys of a pane of all
    agents, in those of one. `shown`: share of a window's groups that HAVING and LIMIT leave, 0 to 1. Raises ValueError,
    which names the field.
    """

    rows: float
    row_s: float
    copy_s: float
    input_s: float = 0.0
    moves: float = 0.0
    pause_s: float = 0.0
    growth: float = 0.0
    spread: float = 1.0
    shown: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 1.0 if field.name == "spread" else 0.0
            most = {"growth": 1.0, "shown": 1.0}.get(field.name)
            check_amount(field.name, getattr(self, field.name), least, *([] if most is None else [most]))


@dataclass(frozen=True, slots=True)
class WayCost:
    """Seconds that a way takes in a period: to count rows, to send states to owners, between owners and the master, to
    merge panes into slices and windows, and for states that are in two places after moves.

    `root_s`: seconds of the busiest root. `latency_s`: for which moves hold the job up.
    """

    count_s: float
    send_s: float
    relay_s: float
    merge_s: float
    move_s: float
    root_s: float
    latency_s: float

    @property
    def cpu_s(self) -> float:
        """Processor time of all agents."""
        return self.count_s + self.send_s + self.relay_s + self.merge_s + self.move_s


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice, the best cost with it, and the best cost with the other; None where it is not known or there is no
    other."""

    choice: Counting | Sending | Merging
    cost: WayCost | None = None
    other_cost: WayCost | None = None


@dataclass(frozen=True, slots=True)
class Decisions:
    """The way that a job's windows are computed from now on, and why."""

    way: Way
    counting: Decision
    sending: Decision
    merging: Decision

    def lines(self) -> Iterator[str]:
        """Yields a line for each decision, as EXPLAIN shows it: the choice, and both costs."""
        for decision in (self.counting, self.sending, self.merging):
            if decision.cost is None:
                yield f"{decision.choice.value}: no statistics yet"
            elif decision.other_cost is None:
                yield f"{decision.choice.value}: {decision.cost.cpu_s:.3g} s, there is no other way"
            else:
                yield f"{decision.choice.value}: {decision.cost.cpu_s:.3g} s, not {decision.other_cost.cpu_s:.3g} s"


def way_cost(job: WindowJob, work: WindowWork, way: Way) -> WayCost:
    """The cost of one way. O(sizes of windows)."""
    windows, growth, group_copy_s = job.windows, work.growth, job.groups * work.copy_s
    per_window, per_slice = way.counting is Counting.WINDOWS, way.sending is Sending.EDGES
    sent = copies(_sent(windows, way), growth)
    away = 1 - 1 / job.owners
    relayed = sent if way.merging is Merging.MASTER else work.shown * copies(windows.windows, growth)
    send_s = job.agents * group_copy_s * sent
    relay_s = away * work.spread * group_copy_s * relayed
    inputs = 0.0 if per_window else windows.slice_inputs if per_slice else windows.pane_inputs
    root_merge_s = job.groups * work.spread * work.input_s * inputs * _slice_weight(windows, growth, way)
    held = 0.0 if per_window or not per_slice else sum(n * span for n, span in windows.slices if span > 1)
    has_open = way.merging is Merging.OWNERS and (not per_window or job.is_rigid)
    shared_s = root_merge_s if way.merging is Merging.MASTER else root_merge_s / job.owners
    return WayCost(
        count_s=work.rows * work.row_s * (windows.overlap if per_window else 1.0),
        send_s=send_s,
        relay_s=relay_s,
        merge_s=root_merge_s + job.agents * job.groups * work.input_s * held,
        move_s=work.moves * work.spread * work.copy_s * windows.extra_copies(growth) if has_open else 0.0,
        root_s=shared_s + _RECEIVED * (send_s / job.owners + relay_s),
        latency_s=work.moves * work.pause_s if job.is_rigid and has_open else 0.0,
    )


def _sent(windows: WindowCounts, way: Way) -> tuple[Intervals, ...]:
    """The intervals whose states an agent sends in a period."""
    if way.sending is Sending.PANES:
        return (Intervals(windows.panes, 1),)
    return windows.slices if way.counting is Counting.PANES else windows.windows


def _slice_weight(windows: WindowCounts, growth: float, way: Way) -> float:
    """The mean size of the states that windows are made of, in those of panes."""
    if way.sending is Sending.PANES:
        return 1.0
    return copies(windows.slices, growth) / sum(one.number for one in windows.slices)


def decide(job: WindowJob, work: WindowWork | None, present: Way | None = None) -> Decisions:
    """The way with the least processor time of those that hold moves and roots within their bounds.

    Where none does, the one that exceeds them least. Without statistics (None), panes at owners. The `present` way is
    kept unless it exceeds a bound, or another saves KEEP_GAIN of its time.

    >>> from cbt.windows import WindowSize
    >>> counts = WindowCounts.of([WindowSize(10_000, 1_000)], 60_000)
    >>> work = WindowWork(rows=2e6, row_s=1e-6, copy_s=1e-4, input_s=1e-5, shown=0.5)
    >>> for line in decide(WindowJob(counts, 60, agents=8, owners=4), work).lines():
    ...     print(line)
    per pane: 5.45 s, not 23.2 s
    each pane: 5.45 s, not 5.45 s
    at owners: 5.45 s, not 5.59 s
    """
    ways = [way for way in WAYS if not job.is_rigid or way.counting is Counting.WINDOWS]
    if work is None:
        way = ways[0]
        return Decisions(way, Decision(way.counting), Decision(way.sending), Decision(way.merging))
    costs = {way: way_cost(job, work, way) for way in ways}
    ranks = {way: _rank(job, cost) for way, cost in costs.items()}
    best = min(ways, key=lambda way: ranks[way])
    if present in costs and ranks[present][:2] <= ranks[best][:2]:
        is_kept = costs[present].cpu_s * (1 - KEEP_GAIN) <= costs[best].cpu_s
        best = present if is_kept else best

    def decision(place: int) -> Decision:
        others = [way for way in ways if way[place] is not best[place]]
        other = min(others, key=lambda way: ranks[way], default=None)
        return Decision(best[place], costs[best], None if other is None else costs[other])

    return Decisions(best, *map(decision, range(3)))


def _rank(job: WindowJob, cost: WayCost) -> tuple[float, float, float]:
    """Seconds beyond the bounds of moves and of roots, and processor time: less is better, in this order."""
    late_s = 0.0 if isinf(job.latency_max_s) else max(0.0, cost.latency_s - job.latency_max_s)
    return late_s, max(0.0, cost.root_s - job.load_max * job.period_s), cost.cpu_s
