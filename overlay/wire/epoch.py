"""Epochs: one root's time in office, so that of two that take themselves for the root the later one counts."""

from typing import Annotated, NamedTuple

import msgspec

from overlay.wire.ids import Id

COUNTER_MAX = 1 << 62
JUMP_MAX = 1 << 20
"""No tree has had so many roots since a node last looked: a counter that is further ahead has to be vouched for."""

Counter = Annotated[int, msgspec.Meta(ge=0, le=COUNTER_MAX)]
Sequence = Annotated[int, msgspec.Meta(ge=0, le=COUNTER_MAX)]


class TreeEpoch(NamedTuple):
    """Ordered by the counter, then by the root's id.

    >>> TreeEpoch(2, Id(1)) > TreeEpoch(1, Id(9)) > NEVER
    True
    """

    counter: Counter
    root: Id

    def is_jump_from(self, known: "TreeEpoch") -> bool:
        """Say whether it lies further ahead than roots can have changed."""
        return self.counter > known.counter + JUMP_MAX


NEVER = TreeEpoch(0, Id(0))
