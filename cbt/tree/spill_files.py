"""Files for data that does not fit in memory: a directory for each tree, and a file for each piece.

Nothing in them outlives the process, so nothing is synced. A file goes when its piece is dropped, the directory when
the tree is closed, collected or the process ends.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
import weakref
from collections import deque
from itertools import count
from pathlib import Path


class SpillError(OSError):
    """The disk failed a tree with a memory limit; the message names the failure, the file and the remedy."""


class DiskQuota:
    """Bounds the bytes that several trees together have on disk."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.files = self.taken_bytes = 0
        """Files written so far, and their bytes."""
        self._used = 0
        self._freed: deque[int] = deque()
        """Sizes of files that are gone: they may be collected in any thread, and in the midst of any method."""

    @property
    def used_bytes(self) -> int:
        """The bytes on disk. O(files that have gone since the last call)."""
        while self._freed:
            self._used -= self._freed.popleft()
        return self._used

    def take(self, nbytes: int) -> None:
        """Sets room aside. Raises OSError (EDQUOT) if there is not enough."""
        if self.used_bytes + nbytes > self.bytes_max:
            raise OSError(errno.EDQUOT, f"{self._used:,} of {self.bytes_max:,} bytes are in use")
        self._used += nbytes
        self.files += 1
        self.taken_bytes += nbytes

    def give_back(self, nbytes: int) -> None:
        """Frees room."""
        self._freed.append(nbytes)


class SpillFile:
    """A piece on disk; the file is removed once nothing refers to this object. It counts towards the `quota`."""

    __slots__ = ("__weakref__", "_digest", "_path", "nbytes")

    def __init__(self, path: Path, data: bytes, quota: DiskQuota | None = None) -> None:
        self._path, self.nbytes, self._digest = path, len(data), _digest(data)
        if quota is not None:
            quota.take(self.nbytes)
            weakref.finalize(self, quota.give_back, self.nbytes)
        with open(path, "xb", opener=_open_as_own) as file:
            remove = weakref.finalize(self, _remove, path)
            try:
                file.write(data)
                file.flush()
            except OSError:
                remove()
                raise

    def read(self) -> bytes:
        """The bytes as written. O(bytes). Raises SpillError if they cannot be read or have changed."""
        try:
            with self._path.open("rb") as file:
                data = file.read(self.nbytes + 1)
        except OSError as error:
            raise SpillError(f"cannot read {self._path}: {error.strerror}; bring the file back, {_OR}") from error
        if len(data) != self.nbytes or _digest(data) != self._digest:
            raise SpillError(f"{self._path} is not what was written to it; bring the old file back, {_OR}")
        return data


class SpillFiles:
    """Writes files into a directory of its own, made under `parent`. Raises SpillError if that is impossible."""

    def __init__(self, parent: Path, quota: DiskQuota | None = None) -> None:
        self._parent = parent
        self._quota = quota
        self._numbers = count()
        self._made: list[Path] = []
        self._written = weakref.WeakSet[SpillFile]()
        weakref.finalize(self, _remove_all, self._made)
        self._make_directory()

    def write(self, data: bytes) -> SpillFile:
        """Writes a file with these bytes. O(bytes). Raises SpillError, and then leaves nothing behind."""
        if not self._made or not self._made[-1].is_dir():
            self._make_directory()
        path = self._made[-1] / str(next(self._numbers))
        try:
            file = SpillFile(path, data, self._quota)
        except OSError as error:
            raise SpillError(f"cannot write {path}: {error.strerror}; {_MAKE_ROOM}") from error
        self._written.add(file)
        return file

    @property
    def is_empty(self) -> bool:
        """Whether none of its files is in use. O(1)."""
        return not self._written

    def close(self) -> None:
        """Removes the directory with all files. A later write makes a new directory."""
        _remove_all(self._made)

    def _make_directory(self) -> None:
        try:
            self._made.append(Path(tempfile.mkdtemp(prefix="elf-cbt-", dir=self._parent)))
        except OSError as error:
            why = f"cannot make a directory in {self._parent}: {error.strerror}"
            raise SpillError(f"{why}; see that it exists, may be written to and has room") from error


_MAKE_ROOM = "make room on the disk, or give the tree more memory"
_OR = "or give up the rows in it: `empty` their pane"


def _open_as_own(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _remove_all(directories: list[Path]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
    directories.clear()
