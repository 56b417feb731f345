"""Reads and writes an authority's files: atomically, and without overwriting what must stay."""

import os
import stat
from contextlib import suppress
from pathlib import Path

FILE_BYTES_MAX = 64 << 20


class AuthorityError(Exception):
    """The authority cannot be loaded, saved or do what was asked; one line that names the file and the fault."""


def read_bytes(path: Path) -> bytes:
    """Read a file; AuthorityError when that fails."""
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise AuthorityError(f"{path}: {error.strerror}") from error


def check_free(*paths: Path) -> None:
    """Check that the file does not exist."""
    for path in paths:
        if path.exists():
            raise AuthorityError(f"{path}: is already there and is not written over")


def write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not exist yet, with its final permissions from the first moment."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
    except FileExistsError as error:
        raise AuthorityError(f"{path}: is already there and is not written over") from error
    except OSError as error:
        raise AuthorityError(f"{path}: {error.strerror}") from error


def replace(path: Path, data: bytes, mode: int) -> None:
    """Write a file atomically, whether it exists or not: readers see the old content or the new, never a mixture.

    A file that exists keeps its owner, and its group the right to read it: an agent's key stays one that it can read.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            _keep_readers(path, file.fileno(), mode)
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise AuthorityError(f"{path}: {error.strerror}") from error


def _keep_readers(path: Path, descriptor: int, mode: int) -> None:
    with suppress(FileNotFoundError, PermissionError):
        before = path.lstat()
        os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, mode | before.st_mode & stat.S_IRGRP)


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file and flush it to disk."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), "wb") as file:
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise AuthorityError(f"{path}: {error.strerror}") from error
