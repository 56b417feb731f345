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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from math import inf, isinf
from typing import NamedTuple

from agent.placement.amounts import AMOUNT_MAX, check_amount
from agent.placement.frame_cost import FrameCost
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

    `rows`: those that all agents count (T). Processor time is that of a frame: to `count` rows into a state and seal it
    (for each row: E); to `send` a state, from encoding to decoding it; to `join` it with others of the same time (both,
    with `keys` of a key group: K₁); to take one in, or `merge` one, for windows; and to `show` a window of a root that
    the master has. `keys`: rows of an agent's state of a pane. `input_keys`: rows that come in or go out at all owners,
    for each state that is taken in or merged. `spread`: keys of a pane of all agents, in those of one. `growth`:
    exponent by which the keys of n panes grow with n, 0 to 1. `shown`: share of a window's keys that HAVING and LIMIT
    leave, 0 to 1. `moves`: groups that move (MK). `pause_s`: seconds for which one of a rigid job stands still (L).
    Raises ValueError, which names the field.
    """

    rows: float
    keys: float
    count: FrameCost
    send: FrameCost
    join: FrameCost
    merge: FrameCost
    show: FrameCost
    input_keys: float = 0.0
    spread: float = 1.0
    growth: float = 0.0
    shown: float = 1.0
    moves: float = 0.0
    pause_s: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, FrameCost):
                value.check(field.name)
            else:
                least = 1.0 if field.name == "spread" else 0.0
                check_amount(field.name, value, least, 1.0 if field.name in ("growth", "shown") else AMOUNT_MAX)

    def copy_s(self, job: WindowJob) -> float:
        """Seconds to ship one key group's state of a pane from an agent (K₁)."""
        return self.shipped_s(job.owners, self.keys) / job.groups

    def shipped_s(self, frames: float, rows: float) -> float:
        """Seconds to send states and to join them with others."""
        return self.send.of(frames, rows) + self.join.of(frames, rows)


@dataclass(frozen=True, slots=True)
class WayCost:
    """Processor time of a way in a period (s): to count rows, to send states to owners, between owners and the master,
    to merge panes into slices and windows, and for states that are in two places after moves.

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
class CostedChoice:
    """A choice, the best cost with it, and the best cost with the other; None where it is not known or there is no
    other."""

    choice: Counting | Sending | Merging
    cost: WayCost | None = None
    other_cost: WayCost | None = None


@dataclass(frozen=True, slots=True)
class Decisions:
    """The way that a job's windows are computed from now on, and why."""

    way: Way
    counting: CostedChoice
    sending: CostedChoice
    merging: CostedChoice

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
    windows = job.windows
    per_window, at_master = way.counting is Counting.WINDOWS, way.merging is Merging.MASTER
    counted = sum(one.number for one in windows.windows) if per_window else windows.panes
    count_s = work.count.of(job.agents * counted, work.rows * (windows.overlap if per_window else 1.0))
    sent = _sent(windows, way)
    pieces, sent_keys = sum(one.number for one in sent), work.keys * copies(sent, work.growth)
    send_s = work.shipped_s(job.agents * job.owners * pieces, job.agents * sent_keys)
    relay_s = _shown_s(job, work, roots=1 if at_master else job.owners)
    if at_master:
        others = job.owners - 1
        relay_s += work.shipped_s(others * pieces, others / job.owners * work.spread * sent_keys)
    root_merge_s = 0.0 if per_window else _root_merge_s(job, work, way)
    has_open = not at_master and (not per_window or job.is_rigid)
    root_s = root_merge_s / (1 if at_master else job.owners) + _RECEIVED * (send_s / job.owners + relay_s)
    return WayCost(
        count_s=count_s,
        send_s=send_s,
        relay_s=relay_s,
        merge_s=root_merge_s + (_held_s(job, work) if way[:2] == (Counting.PANES, Sending.EDGES) else 0.0),
        move_s=_move_s(job, work) if has_open else 0.0,
        root_s=root_s,
        latency_s=work.moves * work.pause_s if job.is_rigid and has_open else 0.0,
    )


def _sent(windows: WindowCounts, way: Way) -> tuple[Intervals, ...]:
    """The intervals whose states an agent sends in a period."""
    if way.sending is Sending.PANES:
        return (Intervals(windows.panes, 1),)
    return windows.slices if way.counting is Counting.PANES else windows.windows


def _shown_s(job: WindowJob, work: WindowWork, roots: int) -> float:
    """Seconds to show windows, of which each root has a part, which all but the master's own send it first."""
    number = sum(one.number for one in job.windows.windows)
    shown = work.shown * work.spread * work.keys * copies(job.windows.windows, work.growth)
    others = roots - 1
    return work.show.of(roots * number, shown) + work.send.of(others * number, others / roots * shown)


def _root_merge_s(job: WindowJob, work: WindowWork, way: Way) -> float:
    """Seconds of all roots to merge windows, of panes or of slices."""
    windows = job.windows
    roots = 1 if way.merging is Merging.MASTER else job.owners
    taken, inputs, size = windows.panes, windows.pane_inputs, 1.0
    if way.sending is Sending.EDGES:
        taken, inputs = sum(one.number for one in windows.slices), windows.slice_inputs
        size = copies(windows.slices, work.growth) / taken
    return work.merge.of(roots * (taken + inputs), size * (taken + inputs) * work.input_keys)


def _held_s(job: WindowJob, work: WindowWork) -> float:
    """Seconds of all agents to merge the panes of slices."""
    held = sum(one.number * one.panes for one in job.windows.slices if one.panes > 1)
    return job.agents * work.join.of(held, held * work.keys)


def _move_s(job: WindowJob, work: WindowWork) -> float:
    """Seconds for what groups that have moved have of windows that were open, from old owners to new ones."""
    number = sum(one.number for one in job.windows.windows)
    opened = sum(one.number for one in job.windows.open)
    frames = min(work.moves * opened, number * job.owners * (job.owners - 1))
    rows = work.moves / job.groups * work.spread * work.keys * job.windows.extra_copies(work.growth)
    return work.shipped_s(frames, rows)


def decide(
    job: WindowJob, work: WindowWork | None, present: Way | None = None, among: Sequence[Way] = WAYS
) -> Decisions:
    """The way with the least processor time of those that hold moves and roots within their bounds.

    Where none does, the one that exceeds them least. Without statistics (None), the first of those `among` which to
    choose: panes at owners, of all. The `present` way is kept unless it exceeds a bound, or another saves KEEP_GAIN of
    its time.

    >>> from cbt.windows import WindowSize
    >>> counts = WindowCounts.of([WindowSize(10_000, 1_000)], 60_000)
    >>> send = FrameCost(fixed_s=1e-3, row_s=1e-6)
    >>> work = WindowWork(2e6, 1_000, FrameCost(1e-3, 1e-6), *[send] * 4, input_keys=1_000, shown=0.1)
    >>> for line in decide(WindowJob(counts, 60, agents=8, owners=4), work).lines():
    ...     print(line)
    per pane: 8.64 s, not 25.7 s
    each pane: 8.64 s, not 8.64 s
    at the master: 8.64 s, not 9.81 s
    """
    ways = [way for way in among if not job.is_rigid or way.counting is Counting.WINDOWS]
    if work is None:
        way = ways[0]
        return Decisions(way, CostedChoice(way.counting), CostedChoice(way.sending), CostedChoice(way.merging))
    costs = {way: way_cost(job, work, way) for way in ways}
    ranks = {way: _rank(job, cost) for way, cost in costs.items()}
    best = min(ways, key=lambda way: ranks[way])
    if present in costs and ranks[present][:2] <= ranks[best][:2]:
        is_kept = costs[present].cpu_s * (1 - KEEP_GAIN) <= costs[best].cpu_s
        best = present if is_kept else best

    def decision(place: int) -> CostedChoice:
        others = [way for way in ways if way[place] is not best[place]]
        other = min(others, key=lambda way: ranks[way], default=None)
        return CostedChoice(best[place], costs[best], None if other is None else costs[other])

    return Decisions(best, *map(decision, range(3)))


def _rank(job: WindowJob, cost: WayCost) -> tuple[float, float, float]:
    """Seconds beyond the bounds of moves and of roots, and processor time: less is better, in this order."""
    late_s = 0.0 if isinf(job.latency_max_s) else max(0.0, cost.latency_s - job.latency_max_s)
    return late_s, max(0.0, cost.root_s - job.load_max * job.period_s), cost.cpu_s
