"""Files of the workers that were chosen for rows of logs, one for each job: see `ChoiceLog`.

What is appended outlives the process; the disk is not waited for, so it may be gone after a loss of power.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path

from agent.durable_files import write_durably
from agent.runtime.model.epoch import JobTerm

MODE = 0o600
SUFFIX = ".choices"
BYTES_MAX = 256 << 20
"""Size of a file from which on it takes no more, until what is forgotten is left out of it."""


class ChoiceFile:
    """One file. `warn` gets what the disk does not take, and why."""

    def __init__(self, path: Path, warn: Callable[[str, str], None]) -> None:
        self._path, self._warn = path, warn
        self._size = 0
        self._is_broken = False

    def read(self) -> bytes:
        """All that is there; what cannot be read is none."""
        try:
            with self._path.open("rb") as file:
                data = file.read(BYTES_MAX)
        except FileNotFoundError:
            return b""
        except OSError as error:
            self._tell(error)
            return b""
        self._size = len(data)
        return data

    def append(self, data: bytes) -> bool:
        """Adds to the end; False if not all of it is there: then no more is added until it is replaced."""
        if self._is_broken or self._size + len(data) > BYTES_MAX:
            return False
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, MODE)
            try:
                written = os.write(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError as error:
            self._tell(error)
            return False
        self._size += written
        self._is_broken = written < len(data)
        return not self._is_broken

    def replace(self, data: bytes) -> bool:
        """Puts other content in its place."""
        try:
            write_durably(self._path, data, mode=MODE)
        except OSError as error:
            self._tell(error)
            return False
        self._size, self._is_broken = len(data), False
        return True

    def _tell(self, error: OSError) -> None:
        self._warn("hot keys of logs stay at their first workers", error.strerror or str(error))


class ChoiceFiles:
    """The files in one folder."""

    def __init__(self, directory: Path, warn: Callable[[str, str], None]) -> None:
        self._directory, self._warn = directory, warn
        self._names: frozenset[str] | None = None

    def of(self, term: JobTerm) -> ChoiceFile:
        """The file of one life of a job."""
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            self._warn("hot keys of logs stay at their first workers", error.strerror or str(error))
        self._names = None
        return ChoiceFile(self._directory / _name(term), self._warn)

    def retain(self, terms: Collection[JobTerm]) -> None:
        """Removes the files of all other jobs."""
        names = frozenset(map(_name, terms))
        if names == self._names:
            return
        self._names = names
        for path in self._directory.glob(f"*{SUFFIX}") if self._directory.is_dir() else ():
            if path.name not in names:
                path.unlink(missing_ok=True)


def _name(term: JobTerm) -> str:
    return f"{term.app_id:032x}-{term.born_ms}{SUFFIX}"
