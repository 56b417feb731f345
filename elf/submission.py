"""From a job's file to what its creator signs and submits."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent.programs.calls import About
from agent.runtime.bundle import FUNCTIONS_MAX, SOURCE_BYTES_MAX, Contents, Function
from elf.client.sync_client import SyncClient
from elf.errors import ElfError, UsageError
from elf.program.code import CodeError, about, load_code
from elf.sealing import sealed
from elf.shipped import JOBS, shipped
from elf.terminal import printable, tell
from overlay import format_id

if TYPE_CHECKING:
    from overlay import Creator

FIRST = "query"
"""The function a job begins with."""


class JobFileError(ElfError):
    """A job's file cannot be used: one line; `text` is the traceback of its code, where it has raised."""

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(reason)
        self.text = text


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job's file, and what its class says of itself."""

    source: bytes
    about: About


def read_job(path: Path) -> JobFile:
    """Reads and executes a job's file, with the rights of whoever does it. Raises JobFileError.

    Where there is no such file, the path may be the name of a job that comes with ELF.
    """
    try:
        source = (path if path.exists() else shipped(str(path)) or path).read_bytes()
    except OSError as error:
        raise UsageError(f"{printable(str(path))}: {(error.strerror or str(error)).lower()}{_hint(path)}") from None
    if len(source) > SOURCE_BYTES_MAX:
        raise JobFileError(
            f"{printable(str(path))}: has {len(source):,} bytes, a job's code may have {SOURCE_BYTES_MAX:,}"
        )
    try:
        described = about(load_code(source).kind)
    except CodeError as error:
        raise JobFileError(f"{printable(str(path))}: {printable(str(error))}", error.text) from None
    if len(described.queries) >= FUNCTIONS_MAX or FIRST in described.queries:
        raise JobFileError(
            f"{printable(str(path))}: queries has at most {FUNCTIONS_MAX - 1} names, none of them {FIRST}"
        )
    return JobFile(source, described)


def _hint(path: Path) -> str:
    """What a plain word may have been meant for."""
    return f"; jobs that come with ELF are {', '.join(JOBS)}" if path.suffix == "" and len(path.parts) == 1 else ""


def job_file(path: Path) -> JobFile:
    """The same for commands: the traceback of a file that raises goes to standard error."""
    try:
        return read_job(path)
    except JobFileError as error:
        tell(error.text, end="")
        raise


def contents_of(client: SyncClient, job: JobFile) -> Contents:
    """What a job is to run; its queries are analysed by the client's agent. Raises QueryRefusedError."""
    texts = {FIRST: job.about.query, **job.about.queries}
    functions = []
    for name, text in texts.items():
        analysed = client.analyse(text, mapped=job.about.maps)
        functions.append(Function(name, msgspec.msgpack.decode(analysed.plan), analysed.query))
    return Contents(functions, job.source, job.about.drives)


def signed(creator: Creator, app: str, contents: Contents, after: tuple[int, bytes] = (0, b"")) -> tuple[str, bytes]:
    """The job's app id in hex, and the bundle as it is submitted. `after`: the mandate it follows, with its counter."""
    app_id, bundle = sealed(creator, app, contents, time.time_ns() // 1_000_000, after)
    return format_id(app_id), msgspec.msgpack.encode(bundle)
