"""Jobs that are somebody's: which of a fleet's they are, and what their creator signs for them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent.control.messages import Job
from elf.client.sync_client import SyncClient
from elf.creator_options import creator_in
from elf.errors import UsageError
from elf.terminal import printable

if TYPE_CHECKING:
    from overlay import Creator


def owned_job(client: SyncClient, app: str) -> Job | None:
    """The job that people mean by NAME or NAME@CREATOR, if it is somebody's. Raises UsageError where it is unclear."""
    named = [job for job in client.jobs() if app in (job.app, f"{job.app}@{job.creator}")]
    if len(named) > 1:
        spelled = " or ".join(sorted(f"{job.app}@{job.creator}" for job in named if job.creator))
        raise UsageError(f"more than one job is named {printable(app)}: say {printable(spelled)}")
    return next((job for job in named if job.creator), None)


def creator_of(job: Job, folder: Path | None) -> Creator:
    """The creator of a job, whose key is here. Raises ElfError."""
    from overlay import app_id, format_id

    creator = creator_in(folder)
    if format_id(app_id(job.app, creator.public_key)) != job.app_id:
        raise UsageError(f"{printable(job.app)} is {printable(job.creator)}'s, and the key here is {creator.name}'s")
    return creator


def word_to_stop(job: Job, folder: Path | None) -> bytes:
    """What a job's creator signs to stop it, as it is sent. Raises ElfError."""
    from elf.sealing import stopping

    _, seal = stopping(creator_of(job, folder), job.app, time.time_ns() // 1_000_000)
    return msgspec.msgpack.encode(seal)
