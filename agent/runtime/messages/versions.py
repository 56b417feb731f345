"""The versions of a job's function, and the messages that prepare and activate them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from agent.runtime.model.bundle import Bundle
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Count, Message, Number, Text, Time

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


VersionList = Annotated[list[Version], msgspec.Meta(min_length=1, max_length=VERSIONS_MAX)]


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


class AbortVersion(Message, frozen=True, tag=True):
    """Master → all, multicast: this version is withdrawn."""

    epoch: JobEpoch
    version: Count
