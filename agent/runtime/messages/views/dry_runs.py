"""Messages on what a query's work would cost agents, by the last lines of their logs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from agent.runtime.messages.views.descriptions import Refusal
from agent.runtime.model.fields import Count, Message, Name
from query.latency.phases import Phase
from query.latency.statistics import STATISTICS_BYTES_MAX

CostParts = tuple[Annotated[int, msgspec.Meta(ge=0, lt=len(Phase))], float, float, float, float, float, float]
"""A phase, and the parts of its `LinearCost`, to be checked."""


class DryRun(Message, frozen=True, tag=True):
    """Agent → agent: run this plan over the last lines of your logs, and send what that has shown. `owner`:
    the client who asks, as owners of jobs are spelled."""

    question: Count
    plan: dict[str, Any]
    owner: str


class DryRunView(Message, frozen=True, tag=True):
    """Agent → asker: `rate` lines a second, or the `doubt` why that is not known; the number of `lines` that were run;
    the growth of groups with lines; bytes of a group on its way; statistics of how late lines are; costs of phases; and
    the share of a processor that the work got. `refusal`: the reason for there being none. Numbers may be anything.
    """

    question: Count
    agent: Name
    refusal: Refusal = ""
    lines: Count = 0
    rate: float = 0.0
    doubt: Annotated[str, msgspec.Meta(max_length=32)] = ""
    groups: tuple[float, float, float] = (1.0, 1.0, 0.0)
    group_bytes: float = 0.0
    late: Annotated[bytes, msgspec.Meta(max_length=STATISTICS_BYTES_MAX)] = b""
    costs: Annotated[list[CostParts], msgspec.Meta(max_length=len(Phase))] = []  # noqa: RUF012
    share: float = 1.0
