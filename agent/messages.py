"""What agents say to each other about jobs; the overlay carries these as opaque bytes.

Ids travel as 16 raw bytes, frames as the bytes of `cbt.encode_frame`, contributor sets as little-endian bitmaps.
`master` is the node id of the master that gave out the numbers in a contributor set: another master's mean others.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from overlay import Codec

Id = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Bitmap = Annotated[bytes, msgspec.Meta(max_length=8192)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Message(msgspec.Struct, frozen=True, tag=True):
    """Base of all job messages."""

    app_id: Id


class Submit(Message, frozen=True, tag=True):
    """Client → master, routed to the appId: run this job."""

    name: Name
    stream: Name
    plan: dict[str, Any]
    since_ms: Time | None = None
    until_ms: Time | None = None


class Announce(Message, frozen=True, tag=True):
    """Master → every agent with the stream, multicast over the stream's own tree: a job wants you."""


class Enrol(Message, frozen=True, tag=True):
    """Agent → master, routed to the appId: I am in the tree, as a worker or only as a forwarder."""

    agent: Name
    works: bool


class Enrolled(Message, frozen=True, tag=True):
    """Master → agent: the function in force, how far it is out and, for a worker, its number on the roster."""

    number: Annotated[int, msgspec.Meta(ge=0, lt=65536)] | None
    version: Count
    frontier: Time
    plan: dict[str, Any]
    since_ms: Time | None = None
    until_ms: Time | None = None


class NoMaster(Message, frozen=True, tag=True):
    """Root → agent, in place of Enrolled: the job's master is not here, so you can have no part in it."""


class Installed(Message, frozen=True, tag=True):
    """Child → parent: these agents below me run this version; grows until it is the whole subtree."""

    master: Id
    version: Count
    agents: Bitmap


class Snapshot(Message, frozen=True, tag=True):
    """Child → parent: the combined panes in (after, upto] of the contributors, and what was counted on the way."""

    master: Id
    version: Count
    after: Time
    upto: Time
    contributors: Bitmap
    state: bytes
    counters: bytes


class Commit(Message, frozen=True, tag=True):
    """Master → all, multicast: every pane up to the frontier is out; free what you kept for it."""

    master: Id
    frontier: Time


CODEC: Codec[Message] = Codec(Submit | Announce | Enrol | Enrolled | NoMaster | Installed | Snapshot | Commit)
