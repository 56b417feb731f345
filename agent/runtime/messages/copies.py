"""Messages about copies of sealed runs: to the agents that hold them, and from these to masters.

A run travels as an encoded `Snapshot` with one contributor, its owner. Its state is read by the owner and the master
only.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Count, Message, Time
from overlay import Id, Peer

RUNS_MAX = 64
"""Upper bound on the runs in one message."""
HOLDERS_MAX = 4
"""Upper bound on the agents that hold one agent's runs."""
OWNERS_MAX = 1024
"""Upper bound on the agents whose runs a master asks for at once."""
Rack = Annotated[str, msgspec.Meta(max_length=64)]
NodeBits = Annotated[bytes, msgspec.Meta(max_length=128)]
"""A bit for each of a job's logical nodes."""
Digest = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Runs = Annotated[list[bytes], msgspec.Meta(min_length=1, max_length=RUNS_MAX)]


class RackAnnouncement(Message, frozen=True, tag=True):
    """Agent → those near it: my server stands in this rack. The appId has no meaning."""

    rack: Rack


class Copies(Message, frozen=True, tag=True):
    """Owner → holder: hold these runs of mine. `serial` is the message's number, among those of its sender."""

    epoch: JobEpoch
    serial: Count
    runs: Runs


class CopyResponse(Message, frozen=True, tag=True):
    """Holder → master: the runs of an agent that I hold."""

    epoch: JobEpoch
    serial: Count
    owner: Id
    runs: Runs


class CopyAck(Message, frozen=True, tag=True):
    """Receiver → sender of a message: it has come. `held`: its runs are held, or of use to the master."""

    serial: Count
    held: bool


class HoldersNote(Message, frozen=True, tag=True):
    """Owner → master, when they change: these agents hold my runs."""

    epoch: JobEpoch
    holders: Annotated[list[Peer], msgspec.Meta(max_length=HOLDERS_MAX)]


class CopyRequest(Message, frozen=True, tag=True):
    """Master → holders, or all by multicast: who holds runs of these agents beyond the pane `after` is to send them to
    me."""

    epoch: JobEpoch
    after: Time
    owners: Annotated[list[Id], msgspec.Meta(min_length=1, max_length=OWNERS_MAX)]


class GivenRequest(Message, frozen=True, tag=True):
    """Master → all by multicast: who hosts logical nodes of this job is to send me what the queries of these agents
    were given of them, in the panes in (after, upto]."""

    epoch: JobEpoch
    after: Time
    upto: Time
    owners: Annotated[list[Id], msgspec.Meta(min_length=1, max_length=OWNERS_MAX)]


class GivenResponse(Message, frozen=True, tag=True):
    """Host → master: the runs that an agent would have sealed of what its query was given of some `nodes`, in the panes
    in (after, upto]. `begun`: the nodes that have been begun, as far as I know."""

    epoch: JobEpoch
    serial: Count
    owner: Id
    after: Time
    upto: Time
    nodes: NodeBits
    begun: NodeBits
    runs: Annotated[list[bytes], msgspec.Meta(max_length=RUNS_MAX)]


class CopyPart(Message, frozen=True, tag=True):
    """The bytes from `offset` on of an encoded message that has `size` bytes; `digest` names those bytes."""

    digest: Digest
    size: Count
    offset: Count
    data: bytes


class CopyPartAck(Message, frozen=True, tag=True):
    """Receiver → sender: every part of that message before `upto` has arrived, the one at `upto` has not."""

    digest: Digest
    upto: Count
