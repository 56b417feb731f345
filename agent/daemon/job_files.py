"""Keeps the jobs whose descriptors are on this agent in its data directory, through any end of the process.

`jobs/NUMBER.journal` is a generation: records, each with its length and checksum, one after the other. When it has more
that is outdated than what is not, the next generation begins with all that it adds up to; the one before stays as long.

A record that is incomplete or damaged ends what is read: earlier ones count, later ones do not. What a crash can leave
is dropped; a file that was damaged otherwise is set aside as `jobs/damaged`.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent import log
from agent.durable_files import write_durably
from agent.runtime.master.kept_jobs import KeptJobs
from agent.runtime.master.results.result_log import BYTES_MAX
from agent.runtime.messages.job_records import RECORDS, JobRecord
from overlay import WireError

RECORD_BYTES_MAX = 16 << 20
LIVE_BYTES_MAX = 64 << 20
"""Upper bound on what a generation begins with. Past it the oldest results are left out, then all results and logs; if
the jobs alone are larger, the disk keeps none."""
GARBAGE_BYTES_MIN = 4 << 20
"""Outdated bytes from which the next generation begins, if they are more than the others."""
RESULT_BUDGETS = (BYTES_MAX, 1 << 20, 64 << 10, 4 << 10, 0)
"""Bytes of results of each job that a generation begins with: the first with which it is small enough."""
MODE = 0o600
SUFFIX = ".journal"
_HEAD = struct.Struct(">II")


class JobFiles:
    """The files in one folder. Not for two threads at once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._newest: Path | None = None
        """The generation that is written to; None: the next is to begin, as the last may end with a broken record."""
        self._size = self._compact_at = 0
        self._damaged: list[Path] = []

    def read(self) -> KeptJobs:
        """All jobs that can be read. What cannot is told in the log."""
        try:
            return self._add_up()
        except OSError as error:
            log.warn("jobs cannot be read", file=str(self._directory), why=error.strerror or str(error))
            return KeptJobs()

    def write(self, records: Sequence[JobRecord]) -> int:
        """Makes records durable; returns the number of those that are too large. OSError if the disk does not take
        them: all are lost then."""
        encoded = [RECORDS.encode(record) for record in records]
        content = b"".join(framed(one) for one in encoded if len(one) <= RECORD_BYTES_MAX)
        newest, self._newest = self._newest, None
        if newest is None or self._size + len(content) > self._compact_at:
            newest = self._begin_generation()
        with newest.open("ab") as file:
            file.write(content)
            file.flush()
            os.fdatasync(file.fileno())
        self._newest, self._size = newest, self._size + len(content)
        return sum(len(one) > RECORD_BYTES_MAX for one in encoded)

    def _generations(self) -> list[Path]:
        """The generations, the newest last."""
        paths = (path for path in self._directory.glob(f"*{SUFFIX}") if path.stem.isdecimal())
        return sorted(paths, key=lambda path: int(path.stem))

    def _add_up(self) -> KeptJobs:
        """Adds up the newest generation. If what it began with is damaged, the one before counts as well."""
        kept, self._damaged = KeptJobs(), []
        generations = self._generations()
        if generations and not self._read(generations[-1], kept) and len(generations) > 1:
            kept = KeptJobs()
            for path in generations[-2:]:
                self._read(path, kept)
        return kept

    def _read(self, path: Path, kept: KeptJobs) -> bool:
        """Adds one file's records; returns whether it has all that it began with."""
        end, began_with = 0, None
        with path.open("rb") as file:
            for payload, after in frames(file.read):
                if began_with is None:
                    began_with = int.from_bytes(payload)
                else:
                    try:
                        kept.take(RECORDS.decode(payload, RECORD_BYTES_MAX))
                    except WireError:
                        break
                end = after
            file.seek(end)
            rest = file.read(2 * RECORD_BYTES_MAX)
        if rest and is_torn(rest):
            log.info("the last record of a job is incomplete", file=str(path))
        elif rest:
            log.warn("jobs are damaged, the file is set aside", file=str(path), offset=end)
            self._damaged.append(path)
        return began_with is not None and end >= began_with

    def _begin_generation(self) -> Path:
        """Begins the next generation with all that the last ones add up to."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        content = compacted(self._add_up())
        before = self._generations()
        newest = self._directory / f"{int(before[-1].stem) + 1 if before else 1}{SUFFIX}"
        write_durably(newest, content, mode=MODE, beside=self._directory / "next")
        for old in before[:-1]:
            old.unlink(missing_ok=True)
        for path in self._damaged:
            if path.exists():
                path.replace(self._directory / "damaged")
        self._size = len(content)
        self._compact_at = max(2 * len(content), len(content) + GARBAGE_BYTES_MIN)
        return newest


def framed(payload: bytes) -> bytes:
    """A record as it is in the file."""
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def frames(read: Callable[[int], bytes]) -> Iterator[tuple[bytes, int]]:
    """The records up to the first that is incomplete or damaged, each with the offset of its end."""
    end = 0
    while len(head := read(_HEAD.size)) == _HEAD.size:
        length, checksum = _HEAD.unpack(head)
        payload = read(length) if 0 < length <= RECORD_BYTES_MAX else b""
        if not payload or len(payload) < length or zlib.crc32(payload) != checksum:
            return
        end += _HEAD.size + length
        yield payload, end


def is_torn(rest: bytes) -> bool:
    """Whether a crash can have left this at the end of a file: part of a record, or zeros."""
    if len(rest) < _HEAD.size or not rest.strip(b"\0"):
        return True
    length: int = _HEAD.unpack_from(rest)[0]
    return 0 < length <= RECORD_BYTES_MAX and len(rest) <= _HEAD.size + length


def compacted(kept: KeptJobs) -> bytes:
    """All jobs as the beginning of a file, whose first record is its length, with as many of their last results as
    there is room for. OSError if there is none for the jobs alone."""
    for budget in RESULT_BUDGETS:
        content = b"".join(framed(RECORDS.encode(record)) for record in kept.records(budget))
        if len(content) <= LIVE_BYTES_MAX:
            first = len(framed(bytes(8)))
            return framed((first + len(content)).to_bytes(8)) + content
    raise OSError(None, f"the descriptors of jobs take more than {LIVE_BYTES_MAX >> 20} MiB")
