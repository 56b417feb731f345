"""The runs of a job that reads another one's results, as they go to whoever is its master next."""

from __future__ import annotations

from typing import Annotated

import msgspec

from agent.runtime.model.fields import Time

SEALED_MAX = 4096
"""Upper bound on the runs of a reader in a descriptor."""
SealedRuns = Annotated[tuple[tuple[Time, bytes], ...], msgspec.Meta(max_length=SEALED_MAX)]


class GivenRuns(msgspec.Struct, frozen=True, array_like=True):
    """The runs of a job that reads another one's results, by their last panes, each as an encoded `Snapshot`.

    `sealed`: those that the receiver lacks and that open windows need, which are of panes after `freed`. `opened`: the
    panes that are not sealed, as they were once the other job's result of the pane `read_upto` had been read; empty if
    the receiver has them.
    """

    sealed: SealedRuns = ()
    freed: Time = -(2**63)
    opened: SealedRuns = ()
    read_upto: Time = -(2**63)


NO_RUNS = GivenRuns()
