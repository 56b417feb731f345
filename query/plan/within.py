"""The latency constraint of a live job: plain data, beside the plan's other parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from query.model.limits import DAY_MS, LATENCY_MS_MAX, PERCENT_MAX, PERCENT_MIN

PERCENT_DEFAULT = 99.0
"""Percentage of results that come in time where a query does not say another one."""
GRACE_DEFAULT_MS = 5_000
"""Time for which late events are awaited where neither a query nor its job says it."""

LOOK_MS_DEFAULT = 100
"""Interval at which agents look at logs where no longer one is chosen."""
LOOK_MS_MAX = 1_000
"""Upper bound on the interval at which logs are looked at: of one that is cut off, what is not read by then is gone."""

LookMs: TypeAlias = Annotated[int, Meta(ge=LOOK_MS_DEFAULT, le=LOOK_MS_MAX)]
"""An interval of looks on the wire: nobody makes agents look more often than they do by themselves."""
OnMiss: TypeAlias = Literal["late", "partial"]


@dataclass(frozen=True, slots=True)
class Within:
    """WITHIN: results come at most `limit_ms` after the end of their window, grace included; with EMIT CHANGES, after
    the time of an event that they are the first to have.

    That holds for `percent` of results (50 to 99.9) or, where it is None, for their mean. `on_miss`: a result that is
    not ready then comes late, or is published as it is. `grace_ms`: the grace that was chosen, at most; None where none
    had to be, since the query states it or results do not wait for it. `look_ms`: the interval at which logs are looked
    at, beside the look when a pane is due.
    """

    limit_ms: int
    percent: float | None = PERCENT_DEFAULT
    on_miss: OnMiss = "late"
    grace_ms: int | None = None
    look_ms: int = LOOK_MS_DEFAULT


def chosen_grace_ms(limit_ms: int) -> int:
    """The time for which late events are awaited under a limit where the query states none (ms).

    It is a quarter of the limit, which leaves the rest to agents and their trees, and the default at most.

    >>> chosen_grace_ms(500), chosen_grace_ms(60_000)
    (125, 5000)
    """
    return min(GRACE_DEFAULT_MS, limit_ms // 4)


class WithinMessage(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The form of `Within` on the wire."""

    limit_ms: Annotated[int, Meta(ge=1, le=LATENCY_MS_MAX)]
    percent: Annotated[float, Meta(ge=PERCENT_MIN, le=PERCENT_MAX)] | None = PERCENT_DEFAULT
    on_miss: OnMiss = "late"
    grace_ms: Annotated[int, Meta(ge=0, le=DAY_MS)] | None = None
    look_ms: LookMs = LOOK_MS_DEFAULT

    @classmethod
    def of(cls, within: Within) -> object:
        """The constraint as plain data."""
        return msgspec.to_builtins(
            cls(within.limit_ms, within.percent, within.on_miss, within.grace_ms, within.look_ms)
        )

    def read(self) -> Within:
        """The constraint."""
        return Within(self.limit_ms, self.percent, self.on_miss, self.grace_ms, self.look_ms)
