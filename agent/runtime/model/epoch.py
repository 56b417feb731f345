"""Orders all masters a job has ever had, so that only the last one is listened to (DESIGN §4.5)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from overlay import Id

Counter = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
JUMP_MAX = 1_000_000
"""Upper bound on the counters that a master may leave out: nobody may use up the counters of those to come."""


class JobEpoch(msgspec.Struct, frozen=True, order=True, array_like=True, forbid_unknown_fields=True):
    """One master's time in office.

    Among jobs of one name the one born last counts (epoch ms), among masters of a job the one with the highest counter;
    the node id settles the rest.
    """

    born_ms: Counter
    counter: Counter
    master: Id

    def is_same_job(self, other: JobEpoch) -> bool:
        """Whether both are of one submission, and not of two jobs that have one name."""
        return self.born_ms == other.born_ms

    def is_jump_from(self, before: JobEpoch) -> bool:
        """Whether no sequence of masters can have led from that epoch to this one."""
        since = before.counter if self.is_same_job(before) else 0
        return self.counter - since > JUMP_MAX

    def next(self, master: Id) -> JobEpoch:
        """The epoch of the master that takes over."""
        return JobEpoch(self.born_ms, self.counter + 1, master)


class JobTerm(NamedTuple):
    """A job from its submission to its end; a later job of the same name is another one."""

    app_id: int
    born_ms: int
