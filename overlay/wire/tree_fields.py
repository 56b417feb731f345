"""Fields of Scribe's messages: a node's state in a tree, as it reports it to others."""

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
"""Approximate memory of an entry besides its payload."""

AcknowledgeMs = Annotated[int, msgspec.Meta(ge=0, le=ACKNOWLEDGE_MS_MAX)]
Frontier = Annotated[tuple[tuple[TreeEpoch, Sequence], ...], msgspec.Meta(max_length=EPOCHS_MAX)]


class MulticastEntry(NamedTuple):
    """One multicast, numbered from 1 within its epoch.

    `acknowledge_ms`: how long its root waits for acknowledgements; 0 when none are wanted.
    """

    epoch: TreeEpoch
    sequence: Annotated[int, msgspec.Meta(ge=1, le=COUNTER_MAX)]
    message_id: Annotated[int, msgspec.Meta(ge=0)]
    acknowledge_ms: Annotated[int, msgspec.Meta(ge=0, le=ACKNOWLEDGE_MS_MAX)]
    payload: bytes

    @property
    def weight(self) -> int:
        """Approximate memory in bytes."""
        return len(self.payload) + ENTRY_BYTES


Entries = Annotated[tuple[MulticastEntry, ...], msgspec.Meta(max_length=LOG_ENTRIES_MAX)]
Path = Annotated[tuple[Id, ...], msgspec.Meta(max_length=PATH_LENGTH_MAX)]


class TreeStatus(NamedTuple):
    """A node's state in a tree: the highest epoch it has heard of, and its frontier in the multicasts."""

    group: Id
    epoch: TreeEpoch
    frontier: Frontier


class TreePosition(NamedTuple):
    """A parent's position in a tree: the root's epoch, the parent's frontier in the multicasts, its path to the
    root.
    """

    group: Id
    epoch: TreeEpoch
    frontier: Frontier
    path: Path


class GroupRefusal(NamedTuple):
    """A refused group, with the peer to ask instead; None: ask the refusing node again later."""

    group: Id
    redirect: Peer | None


class UpwardEdge(NamedTuple):
    """A tree edge as the child sees it: checksum of the path its parent gave, epoch, frontier of the last two
    epochs.
    """

    group: Id
    checksum: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    epoch: TreeEpoch
    recent: Frontier


class RootState(NamedTuple):
    """A root's state: its epoch, its frontier, and the last multicasts."""

    group: Id
    epoch: TreeEpoch
    frontier: Frontier
    entries: Entries


class Wanted(NamedTuple):
    """A publisher that wants acknowledgements for a multicast, and how long it waits."""

    publisher: Peer
    timeout_ms: AcknowledgeMs
