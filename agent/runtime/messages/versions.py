"""The versions of a job's function, the messages that prepare and activate them, and how versions travel.

Agents of 0.1.0 refuse a version of more fields than theirs has. So what was added goes beside a message's versions.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec

from agent.runtime.model.bundle import Bundle
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Count, Message, Number, Text, Time
from overlay import WIRE_BYTES_MAX, Codec, WireError

VERSIONS_MAX = 8
"""Upper bound on versions of a job that have open windows; no further one begins meanwhile."""


Finishing = Literal["", "own", "same"]
"""The way in which open windows of the version before go on: not at all, with panes of their own, or with the same."""


class Version(msgspec.Struct, frozen=True, array_like=True):
    """One version of a job's function; `number` counts from 1 in the job's life.

    It computes the panes after `after`, the last pane of the version before, and has windows from `starts` on.
    `finishes`: the way in which windows of the version before that begin earlier, and are longer, go on beside it;
    `leaves_out`: some that may have been open cannot.
    """

    number: Count
    after: Time
    starts: Time
    plan: dict[str, Any]
    text: Text
    bundle: Bundle | None = None
    finishes: Finishing = ""
    leaves_out: bool = False


class _SentVersion(msgspec.Struct, frozen=True, array_like=True):
    """A version as agents of 0.1.0 know it."""

    number: Count
    after: Time
    starts: Time
    plan: dict[str, Any]
    text: Text
    bundle: Bundle | None


VersionList = Annotated[list[Version], msgspec.Meta(min_length=1, max_length=VERSIONS_MAX)]
GoingOn = Annotated[tuple[tuple[Finishing, bool], ...], msgspec.Meta(max_length=VERSIONS_MAX)]
"""`finishes` and `leaves_out` of each version of a message on its way, none where all are as by default. Nobody but the
codec sets or reads it."""


class PrepareVersion(Message, frozen=True, tag=True):
    """Master → all, multicast: prepare to compute this version too, and report when you are ready."""

    epoch: JobEpoch
    version: Count
    plan: dict[str, Any]
    text: Text = ""
    bundle: Bundle | None = None


class VersionPrepared(Message, frozen=True, tag=True):
    """Worker → master: I have every event after `opened` (epoch ms) for this version, or I refuse it for a reason."""

    epoch: JobEpoch
    number: Number
    version: Count
    opened: Time
    refusal: Text | None = None


class ActivateVersion(Message, frozen=True, tag=True):
    """Master → all, multicast: these versions are in force. An agent that misses this message enrols again."""

    epoch: JobEpoch
    versions: VersionList
    going_on: GoingOn = ()


class AbortVersion(Message, frozen=True, tag=True):
    """Master → all, multicast: this version is withdrawn."""

    epoch: JobEpoch
    version: Count


VersionMessage = PrepareVersion | VersionPrepared | ActivateVersion | AbortVersion
Carrier = TypeVar("Carrier")


class VersionsCodec(Codec[Carrier]):
    """Encodes messages some of which carry versions, which have their further fields before and after the way."""

    def encode(self, message: Carrier) -> bytes:
        return super().encode(_parted(message) if getattr(message, "versions", None) else message)

    def decode(self, data: bytes | bytearray, bytes_max: int = WIRE_BYTES_MAX) -> Carrier:
        message = super().decode(data, bytes_max)
        return _joined(message) if getattr(message, "going_on", None) else message


def _parted(message: Any) -> Any:
    versions = [_SentVersion(*(getattr(one, name) for name in _SENT)) for one in message.versions]
    going_on = tuple((one.finishes, one.leaves_out) for one in message.versions)
    return msgspec.structs.replace(message, versions=versions, going_on=going_on if any(map(any, going_on)) else ())


def _joined(message: Any) -> Any:
    """Raises WireError where not each version has its part."""
    if message.versions is None or len(message.versions) != len(message.going_on):
        raise WireError(f"not a message: {len(message.going_on)} versions go on, of {len(message.versions or ())}")
    versions = [
        msgspec.structs.replace(one, finishes=finishes, leaves_out=leaves_out)
        for one, (finishes, leaves_out) in zip(message.versions, message.going_on, strict=True)
    ]
    return msgspec.structs.replace(message, versions=versions, going_on=())


_SENT = _SentVersion.__struct_fields__
