"""Epochs: terms of office of a group's root. When two nodes both believe they are the root, the later epoch wins."""

from typing import Annotated, NamedTuple

import msgspec

from overlay.wire.ids import Id

COUNTER_MAX = 1 << 62
JUMP_MAX = 1 << 20
"""Largest plausible number of root changes since a node last looked; a counter further ahead has to be verified."""

Counter = Annotated[int, msgspec.Meta(ge=0, le=COUNTER_MAX)]
Sequence = Annotated[int, msgspec.Meta(ge=0, le=COUNTER_MAX)]


class TreeEpoch(NamedTuple):
    """A root's term, ordered by the counter, then by the root's id.

    >>> TreeEpoch(2, Id(1)) > TreeEpoch(1, Id(9)) > NEVER
    True
    """

    counter: Counter
    root: Id

    def is_jump_from(self, known: "TreeEpoch") -> bool:
        """Say whether the epoch is further ahead than roots can plausibly have changed."""
        return self.counter > known.counter + JUMP_MAX


NEVER = TreeEpoch(0, Id(0))
