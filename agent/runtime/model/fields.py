"""The base of all job messages, and the types of their fields."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from overlay import Id

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Text = Annotated[str, msgspec.Meta(max_length=1 << 20)]
Bitmap = Annotated[bytes, msgspec.Meta(max_length=8192)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Number = Annotated[int, msgspec.Meta(ge=0, lt=65536)]
Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
AMOUNT_MAX = 1 << 40
"""Upper bound on a number of frames, rows or microseconds of work that is told of."""
Amount = Annotated[int, msgspec.Meta(ge=0, le=AMOUNT_MAX)]
WorkDone = Annotated[list[tuple[Amount, Amount, Amount]], msgspec.Meta(max_length=64)]
"""Frames, rows and microseconds of each kind of work, in their order (`agent.runtime.model.meters.Work`)."""
WORK_BYTES = 256
"""Upper bound on the encoded size of the work that a run tells of, which is noted as it leaves."""
GROUPS = 64
"""Number of groups that the keys of a job are in, by the upper bits of their hashes."""
Group = Annotated[int, msgspec.Meta(ge=0, lt=GROUPS)]
Mode = Literal["instant", "smooth", "disruptive"]
"""The way in which a group's open windows go on when it moves: its old and new owner each have their panes of them, and
the master merges these; the old owner has them to their ends, of panes that both get; or the new owner is given what
the old one has, while everybody waits."""
Reason = Literal["finished", "stopped", "nobody", "failed"]
"""The reason why a job is over; nobody: it was bounded, and no agent has its stream; failed: it cannot go on."""


PaneCounts = tuple[Time, Time, Time, Time, Time, Time, Time]
"""A pane and its `Counts`, to be checked."""
PANES_COUNTED_MAX = 4096
"""Upper bound on the panes with counts in one snapshot; a run of more goes as several."""
PatchCounts = tuple[Time, Time, Time, Time, Time, Time, Time, Bitmap]
"""A pane, its `Counts` and the agents whose late events it has, to be checked."""
WirePatch = tuple[Time, bytes, Annotated[list[PatchCounts], msgspec.Meta(max_length=PANES_COUNTED_MAX)], Bitmap]
"""The pane with which late events of earlier panes go, their state, their counts, and who lacks some: see `Patch`."""
WireOldPanes = tuple[
    Count, Time, Time, bytes, Annotated[list[PaneCounts], msgspec.Meta(max_length=PANES_COUNTED_MAX)], Bitmap, Bitmap
]
"""A version, the run's panes (after, upto] that they go with, their state (empty: of no events), their counts, and who
has contributed, as a whole or in part: see `OldPanes`."""
LossReason = Annotated[str, msgspec.Meta(max_length=256)]
Stage = Literal["panes", "report", "windows", "given"]
"""The part of the protocol that a snapshot belongs to."""
WireWindow = tuple[Time, Annotated[int, msgspec.Meta(gt=0)], bytes]
"""The start and the length (ms) of a window, and its state in one tree."""
WireOldWindow = tuple[Count, Time, Annotated[int, msgspec.Meta(gt=0)], bytes]
"""A window of an older version, by its number: its start, its length (ms), and its state in one tree."""


class Message(msgspec.Struct, frozen=True, tag=True):
    """Base of all job messages."""

    app_id: Id
