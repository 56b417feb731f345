"""Opens a creator's files and signs with them: bundles of jobs, and orders to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from agent.control.messages import JobEntry
from agent.runtime.fleet.authorization import STOP
from agent.runtime.model.bundle import Bundle, Contents, Signature
from agent.runtime.model.mandate import Mandate, signed_bytes
from elf.client.remote_agent import creator_directory
from elf.client.sync_client import SyncClient
from elf.errors import ElfError, UsageError
from elf.terminal.terminal import printable
from overlay import AuthorityError, CreatorFiles, app_id, parse_id, stage_id

if TYPE_CHECKING:
    from overlay import Creator, Id


Command = TypeVar("Command", bound=Callable[..., Any])

creator_option = click.option(
    "--creator", "creator_folder", metavar="DIR", type=click.Path(path_type=Path),
    help="The folder with your key and certificate; else that of ELF_CREATOR, else ~/.config/elf/creator.",
)  # fmt: skip


def creator_in(folder: Path | None) -> Creator:
    """The creator whose key is in a folder. Raises ElfError."""

    return load_creator(folder)


def owned_job(client: SyncClient, app: str) -> JobEntry | None:
    """The owned job that NAME or NAME@CREATOR means, if there is one. Raises UsageError for an ambiguous name."""
    named = [job for job in client.jobs() if app in (job.app, job.full_name)]
    if len(named) > 1:
        spelled = " or ".join(sorted(job.full_name for job in named if job.creator))
        raise UsageError(f"more than one job is named {printable(app)}: say {printable(spelled)}")
    return next((job for job in named if job.creator), None)


def creator_of(job: JobEntry, folder: Path | None) -> Creator:
    """The creator of a job, if the key in the folder is theirs. Raises ElfError."""
    from overlay import is_app_id

    creator = creator_in(folder)
    if not is_app_id(parse_id(job.app_id), job.app, creator.public_key):
        raise UsageError(f"{printable(job.app)} is {printable(job.creator)}'s, and the key here is {creator.name}'s")
    return creator


def stop_signature(job: JobEntry, folder: Path | None) -> bytes:
    """The encoded signature by which a job's creator stops it. Raises ElfError."""

    _, seal = stop_order(creator_of(job, folder), job.app, time.time_ns() // 1_000_000, parse_id(job.app_id))
    return msgspec.msgpack.encode(seal)


YEAR_MS = 365 * 86_400_000
STOP_MS = 300_000
"""Validity of an order to stop a job, so that it cannot be kept and sent again later."""


def signed_bundle(
    creator: Creator,
    app: str,
    contents: Contents,
    wall_ms: int,
    after: tuple[int, bytes] = (0, b""),
    key: Id | None = None,
) -> tuple[Id, Bundle]:
    """The job's app id, and the signed bundle. `after`: counter and digest of the preceding mandate. `key`: the app id
    of a job that runs already."""
    counter, predecessor = after
    if key is None:
        whole = contents.part_of
        key = stage_id(whole, app, creator.public_key) if whole else app_id(app, creator.public_key)
    mandate = Mandate(key, counter + 1, predecessor, wall_ms + YEAR_MS, contents.digest())
    return mandate.app_id, Bundle(contents, _signature(creator, mandate))


def stop_order(creator: Creator, app: str, wall_ms: int, key: Id | None = None) -> tuple[Id, Signature]:
    """A job's app id, and the creator's signed order to stop it. `key`: its app id, if it is a stage."""
    mandate = Mandate(app_id(app, creator.public_key) if key is None else key, 1, b"", wall_ms + STOP_MS, STOP)
    return mandate.app_id, _signature(creator, mandate)


def _signature(creator: Creator, mandate: Mandate) -> Signature:
    signature = creator.sign(signed_bytes(mandate, creator.fleet))
    return Signature(creator.certificate, mandate.counter, mandate.predecessor, mandate.expires_ms, signature)


def load_creator(directory: Path | None = None, password: bytes | None = None) -> Creator:
    """The creator in a folder (by default `creator_directory`), whose key may need a password.

    Raises ElfError, one line that names the file, if the key or certificate is missing, expired, of someone else or not
    a creator's, or if everybody may read the key.
    """
    try:
        return CreatorFiles(directory or creator_directory()).load(password)
    except AuthorityError as error:
        raise ElfError(str(error)) from error
