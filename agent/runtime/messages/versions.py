"""The versions of a job's function, and what agents say to each other about them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from agent.runtime.model.bundle import Bundle
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Count, Message, Number, Text, Time

VERSIONS_MAX = 8
"""Versions of a job that still have windows open; no further one is begun meanwhile."""


class Version(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One version of a job's function; `number` counts from 1 in the job's life.

    It computes the panes after `after`, the last one of the version before, and has windows from `starts` on.
    """

    number: Count
    after: Time
    starts: Time
    plan: dict[str, Any]
    text: Text
    bundle: Bundle | None = None


VersionList = Annotated[list[Version], msgspec.Meta(min_length=1, max_length=VERSIONS_MAX)]


class PrepareVersion(Message, frozen=True, tag=True):
    """Master → all, multicast: be ready to compute this too, and say so."""

    epoch: JobEpoch
    version: Count
    plan: dict[str, Any]
    text: Text = ""
    bundle: Bundle | None = None


class VersionPrepared(Message, frozen=True, tag=True):
    """Worker → master: I have all events later than `opened` (epoch ms) for this version, or why I cannot run it."""

    epoch: JobEpoch
    number: Number
    version: Count
    opened: Time
    refusal: Text | None = None


class ActivateVersion(Message, frozen=True, tag=True):
    """Master → all, multicast: these versions are in force. Who is not told asks: it enrols again."""

    epoch: JobEpoch
    versions: VersionList


class AbortVersion(Message, frozen=True, tag=True):
    """Master → all, multicast: this version will not be."""

    epoch: JobEpoch
    version: Count
