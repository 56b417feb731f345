"""What nodes say of themselves in a tree: the parts of the messages of Scribe."""

from typing import Annotated, NamedTuple

import msgspec

from overlay.wire.epoch import COUNTER_MAX, Sequence, TreeEpoch
from overlay.wire.ids import Id
from overlay.wire.peer import Peer

PATH_LENGTH_MAX = 64
LOG_ENTRIES_MAX = 64
EPOCHS_MAX = 4
ACKNOWLEDGE_MS_MAX = 600_000
ENTRY_BYTES = 200
"""Approximate memory of an entry beside its payload."""

AcknowledgeMs = Annotated[int, msgspec.Meta(ge=0, le=ACKNOWLEDGE_MS_MAX)]
Frontier = Annotated[tuple[tuple[TreeEpoch, Sequence], ...], msgspec.Meta(max_length=EPOCHS_MAX)]


class MulticastEntry(NamedTuple):
    """One multicast of its epoch, counted from 1.

    `acknowledge_ms`: for how long its root waits to hear who has it; 0: not at all.
    """

    epoch: TreeEpoch
    sequence: Annotated[int, msgspec.Meta(ge=1, le=COUNTER_MAX)]
    message_id: Annotated[int, msgspec.Meta(ge=0)]
    acknowledge_ms: Annotated[int, msgspec.Meta(ge=0, le=ACKNOWLEDGE_MS_MAX)]
    payload: bytes

    @property
    def weight(self) -> int:
        """Bytes it takes, more or less."""
        return len(self.payload) + ENTRY_BYTES


Entries = Annotated[tuple[MulticastEntry, ...], msgspec.Meta(max_length=LOG_ENTRIES_MAX)]
Path = Annotated[tuple[Id, ...], msgspec.Meta(max_length=PATH_LENGTH_MAX)]


class TreeStatus(NamedTuple):
    """Of a node in a tree: the highest epoch it has heard of, and how far it is in the multicasts."""

    group: Id
    epoch: TreeEpoch
    frontier: Frontier


class TreePosition(NamedTuple):
    """Of a parent in a tree: the root's epoch, how far it is in the multicasts, its path to the root."""

    group: Id
    epoch: TreeEpoch
    frontier: Frontier
    path: Path


class Refusal(NamedTuple):
    """Of who cannot be a parent: whom to ask instead, None: this one again later."""

    group: Id
    redirect: Peer | None


class UpwardEdge(NamedTuple):
    """A tree edge as the child sees it: the path its parent gave, as a checksum, the epoch, how far it is of late."""

    group: Id
    checksum: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    epoch: TreeEpoch
    recent: Frontier


class RootState(NamedTuple):
    """What there is to a root: its epoch, how far its multicasts are, the last of them."""

    group: Id
    epoch: TreeEpoch
    frontier: Frontier
    entries: Entries


class Wanted(NamedTuple):
    """The publisher who wants to know who has a multicast, and for how long it waits."""

    publisher: Peer
    timeout_ms: AcknowledgeMs
