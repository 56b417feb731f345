"""The patience of a live job with agents that are late: plain data, beside the plan's other parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

LEAP_PANES_MIN = 2
"""Least panes by which an agent lags before it is leaped over: for a moment, those that are well are one behind."""
LEAP_PANES_MAX = 1_000
"""Upper bound on the panes by which an agent may lag: trees keep them meanwhile."""
RECOVER_MS_MAX = 3_600_000
"""Longest time for which windows wait for the part of a dead agent."""


@dataclass(frozen=True, slots=True)
class Stragglers:
    """The clauses of a query: it `waits` for them as long as they live, or leaps over those `leap_panes` behind;
    neither leaves it to the job. `recover_ms`: how long a window waits for the part of a dead agent. `mirrors`: what
    others hold of the parts of those it leaps over is taken from them.
    """

    waits: bool = False
    leap_panes: int | None = None
    recover_ms: int | None = None
    mirrors: bool = False


UNSTATED = Stragglers()


class StragglersMessage(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The form of `Stragglers` on the wire."""

    waits: bool = False
    leap_panes: Annotated[int, Meta(ge=LEAP_PANES_MIN, le=LEAP_PANES_MAX)] | None = None
    recover_ms: Annotated[int, Meta(ge=0, le=RECOVER_MS_MAX)] | None = None
    mirrors: bool = False

    @classmethod
    def of(cls, stated: Stragglers) -> object:
        """The clauses as plain data."""
        return msgspec.to_builtins(cls(stated.waits, stated.leap_panes, stated.recover_ms, stated.mirrors))

    def read(self) -> Stragglers:
        """The clauses."""
        return Stragglers(self.waits, self.leap_panes, self.recover_ms, self.mirrors)
