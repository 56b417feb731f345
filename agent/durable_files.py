"""Writes files that are there as a whole or not at all, whatever ends the process or the machine."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


def write_durably(path: Path, content: bytes, *, mode: int | None = None, beside: Path | None = None) -> None:
    """Puts a whole file in the place of the one before, and waits for the disk. OSError if that does not take it: the
    one before is still there then, alone. `beside`: where it is written first, its own name with `.new` if not said."""
    beside = beside or path.with_name(f"{path.name}.new")
    try:
        with beside.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            _write_through(file, content)
        beside.replace(path)
        sync_directory(path.parent)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def write_also_if_full(path: Path, content: bytes) -> None:
    """Replaces a small file, on a full disk in its place: it is in one block, which is there already. OSError if the
    disk does not take that, or has no room for a file that is not there yet."""
    try:
        write_durably(path, content)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not path.is_file():
            raise
        with path.open("r+b") as file:
            _write_through(file, content)


def _write_through(file: BinaryIO, content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
