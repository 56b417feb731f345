"""The latency of a job's results, as the control socket carries it to clients.

Clients import this module, so it imports no frames.
"""

from __future__ import annotations

import msgspec


class DurationEntry(msgspec.Struct, frozen=True, tag="duration"):
    """Durations (ms) of one kind: how many, their mean, and quantiles within 5 %."""

    what: str
    count: int
    mean_ms: float
    p50_ms: float
    p99_ms: float


class SlowAgentEntry(msgspec.Struct, frozen=True, tag="agent"):
    """An agent: its parts of panes, the mean time (ms) for one after its grace, and how often its part was the last."""

    agent: str
    parts: int
    mean_ms: float
    last: int


class PlanEntry(msgspec.Struct, frozen=True, tag="plan"):
    """The setting that a job with a limit runs with, and what was planned of it: milliseconds until results are out on
    average (`mean_ms`; 0 where nothing is planned yet), until clients have them for the share that the limit is for,
    and in each phase. `now_ms`: the median of the last results; `drift_ms`: by how much that is more than planned.
    `remark`: what was not planned, and what follows from it; "" where all is as planned. `look_ms`: the interval at
    which agents look at logs, beside the looks when panes are due.
    """

    grace_ms: int
    cuts: int
    trees: int
    mean_ms: float
    quantile_ms: float
    phases: dict[str, float]
    now_ms: float
    drift_ms: float
    remark: str
    look_ms: int


class JobLatency(msgspec.Struct, frozen=True, tag="latency"):
    """The time that the latest results of a job have taken, from the end of their windows to their publication.

    `within_ms`: the time in which they are to be out, 0 without WITHIN; `percent`: the share of them, None for their
    mean. Of `results`, `met` were in time and `missed` were not. `total`: of them all; `phases`: of each phase on the
    way of the part that came last, which sum up to it, but for `skew`: clocks that differ, mostly. The last phase,
    `deliver`, is no part of it: from the master to the agents whose clients follow now. `slowest_phase`: the one with
    the longest mean, but for the grace; "" where none is known. `parts`: phases of all agents' own parts. `agents`: the
    slowest, the slowest first. `last`: milliseconds of the last result, by phase. `events_s`: events a second;
    `contributors`: the agents that take part. `path_statistics`, `part_statistics`: those that `phases` and `parts` are
    made of, as `query.latency.phases_from_bytes` reads them. `clipped`: durations that cannot be, which count as the
    nearest that can, and statistics that are none. `total_statistics`: those that `total` is made of. `plan`: None
    without a limit. `group_points`: the events and groups of some of the last panes.
    """

    app: str
    master: str
    query: str
    within_ms: int
    percent: float | None
    results: int
    met: int
    missed: int
    total: DurationEntry
    skew: DurationEntry
    phases: list[DurationEntry]
    parts: list[DurationEntry]
    agents: list[SlowAgentEntry]
    last_ms: float
    last: dict[str, float]
    events_s: float = 0.0
    contributors: int = 0
    path_statistics: bytes = b""
    part_statistics: bytes = b""
    slowest_phase: str = ""
    clipped: int = 0
    total_statistics: bytes = b""
    plan: PlanEntry | None = None
    group_points: list[tuple[int, int]] = []


CostParts = tuple[float, float, float, float, float, float]
"""The parts of a `query.latency.LinearCost`."""


class AgentSample(msgspec.Struct, frozen=True):
    """The findings of a dry run on one agent: `rate` lines a second, or the `doubt` why that is not known; the number
    of `lines` that were run; factor, exponent and points of the law by which groups grow with lines; bytes of a group
    on its way; encoded statistics of how late lines are; for each phase, by its number, the parts of its cost; and the
    share of a processor that the work got.
    """

    agent: str
    lines: int = 0
    rate: float = 0.0
    doubt: str = ""
    groups: tuple[float, float, float] = (1.0, 1.0, 0.0)
    group_bytes: float = 0.0
    late: bytes = b""
    costs: dict[int, CostParts] = {}
    share: float = 1.0


class DryRuns(msgspec.Struct, frozen=True, tag="dry_runs"):
    """Dry runs of a query: `agents` have its stream, of `asked` ones, of which `silent` have not answered. Some of them
    have run it: `samples`; others say why not: `refused`; `unanswered` ones have not answered in time. `clipped`:
    numbers that cannot be, which count as the nearest that can.
    """

    agents: int
    asked: int
    silent: int
    samples: list[AgentSample] = []
    refused: dict[str, str] = {}
    unanswered: int = 0
    clipped: int = 0
