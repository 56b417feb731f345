"""Messages on how long a job's results take."""

from __future__ import annotations

from typing import Annotated

import msgspec

import query
from agent.runtime.model.fields import Amount, Count, Message, Name, Text
from agent.runtime.model.latency.critical_path import Micros
from agent.runtime.model.latency.part_meter import PartBytes
from query.latency.phases import Phase
from query.latency.statistics import STATISTICS_BYTES_MAX
from query.plan.within import LOOK_MS_DEFAULT, LookMs

Statistics = Annotated[bytes, msgspec.Meta(max_length=STATISTICS_BYTES_MAX)]
GroupPoints = Annotated[list[tuple[Count, Count]], msgspec.Meta(max_length=16)]
AgentCounts = Annotated[list[tuple[Name, Count]], msgspec.Meta(max_length=128)]


class LatencyRequest(Message, frozen=True, tag=True):
    """Agent → master, as a request to the appId: how long do your results take?"""


class SlowAgent(msgspec.Struct, frozen=True):
    """An agent, the parts of panes that it had, and the microseconds of all of them after their graces."""

    agent: Name
    parts: Count
    spent_us: Amount


class PlanView(msgspec.Struct, frozen=True):
    """The setting that a job with a limit runs with: its grace, the panes that each is cut into, its trees, and the
    interval of looks at logs. What was planned of it: microseconds until results are out, on average, and until clients
    have them, for the share that the limit is for; and those of each phase, none where nothing is planned yet.
    `now_us`: the median of the last results. `remark`: what was not planned, and what follows from it, in words.
    """

    grace_ms: Count
    cuts: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    trees: Annotated[int, msgspec.Meta(ge=1, le=query.TREES_MAX)]
    mean_us: Micros
    quantile_us: Micros
    phases: Annotated[list[Micros], msgspec.Meta(max_length=len(Phase))]
    now_us: Micros
    remark: Text = ""
    look_ms: LookMs = LOOK_MS_DEFAULT


class LatencyView(Message, frozen=True, tag=True):
    """Master → agent, in response to LatencyRequest: the latest results, from the ends of their windows.

    `within_ms`: the time in which they are to be out, 0 if none is stated; `percent`: the share that is to be, None for
    their mean. `results`, of which `met` were in time and `missed` were not. `total`, `skew`: statistics of their
    latency, and of what no phase accounts for; `phases`: of each phase on the path of the last part. `last_us`: the
    latency of the last one, and that in each phase. `last_parts`: how often the last part was an agent's. `parts`,
    `slowest`: statistics of all agents' own parts, and the slowest agents. `events_s`: events a second of late;
    `agents`: those that take part. `plan`: that of a job with a limit. `group_points`: events and groups of some of the
    last panes.
    """

    name: Name
    master: Name
    text: Text
    within_ms: Count
    percent: float | None
    results: Count
    met: Count
    missed: Count
    total: Statistics
    skew: Statistics
    phases: PartBytes
    last_us: Micros
    last_phases: Annotated[list[Micros], msgspec.Meta(max_length=len(Phase))]
    last_parts: AgentCounts
    parts: PartBytes
    slowest: Annotated[list[SlowAgent], msgspec.Meta(max_length=8)]
    events_s: float = 0.0
    agents: Count = 0
    plan: PlanView | None = None
    group_points: GroupPoints = []  # noqa: RUF012
