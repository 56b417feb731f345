"""Keeps sealed runs and the places in logs where reading goes on, through any end of the process.

`sealed/NUMBER.segment` are files of groups (`agent.daemon.sealed_groups`), each with its length and checksum, one after
the other. A file begins with what all before it add up to, but for the runs; it is there whole or not at all.
A file goes when none of its runs is needed, and when there is too much that is not, the oldest file's runs move on.

A group that is incomplete or damaged ends what is read of its file: a write that was broken off was never waited for.
After a write that failed the next one begins a file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from agent.daemon.sealed_groups import KeptRuns, Loaded, SealedGroup, group_of
from agent.durable_files import write_durably
from agent.feeding.reading_ledger import FeedPosition, Files
from agent.runtime.durable.records import Chain, SealedRecord, StoredChains
from agent.runtime.model.epoch import JobTerm

SEGMENT_BYTES = 8 << 20
"""Size from which another file begins."""
GARBAGE_SEGMENTS = 4
"""Files full of what is not needed that may be there, beside as much as is needed, before runs move on."""
MODE = 0o600
SUFFIX = ".segment"
_DIGEST_BYTES = 16
_HEAD = struct.Struct(f">Q{_DIGEST_BYTES}s")

Warn = Callable[[str, str], None]


class SealedFiles:
    """The files in one folder, of at most `bytes_max` together. Not for two threads at once.

    `incarnation`: the number of this start of the agent. `warn` gets what cannot be read, and why. `positions`,
    `places` and `chains`: what the starts before have stored.
    """

    def __init__(self, directory: Path, incarnation: int, bytes_max: int, warn: Warn) -> None:
        self._directory = directory
        self._incarnation = incarnation
        self.bytes_max = bytes_max
        self._warn = warn
        self._kept = KeptRuns()
        self._sizes: dict[int, int] = {}
        self.disk_bytes = 0
        """The size of all files."""
        self.written_bytes = 0
        self._newest: int | None = None
        """The file that is written to; None: the next write begins one."""
        loaded = self._read()
        # What was exact is not any more if this agent was started meanwhile, and has left nothing.
        self.positions = self._kept.positions(exact=self._kept.incarnation == incarnation - 1)
        self.places: Mapping[Chain, Mapping[str, Files]] = self._kept.places()
        self.chains: dict[JobTerm, StoredChains] = self._kept.chains(loaded)

    # Writing.

    def write(self, positions: Sequence[FeedPosition] | None, records: Sequence[SealedRecord]) -> None:
        """Makes a group durable. OSError if the disk does not take it, or there is no room: all of it is lost then."""
        group = group_of(positions, records, self._incarnation)
        content = _framed(group)
        if self.disk_bytes + len(content) > self.bytes_max:
            self._make_room(group, len(content))
        self._append(group, content)
        self._remove_unneeded()

    def _make_room(self, group: SealedGroup, nbytes: int) -> None:
        """Frees what is not needed, also by what a group says that is not written so far. OSError if that does not do:
        what is needed has to be published first."""
        self._kept.drop_unneeded(group)
        self._newest = self._begin_segment()
        self._remove_unneeded()
        for _ in range(len(self._sizes) - 1):
            if self.disk_bytes + nbytes > self.bytes_max and sum(self._kept.live_bytes.values()) < self.disk_bytes // 2:
                self.clean()
        if self.disk_bytes + nbytes > self.bytes_max:
            raise OSError(errno.EDQUOT, f"{self.disk_bytes:,} of {self.bytes_max:,} bytes are in use")

    @property
    def has_garbage(self) -> bool:
        """Whether there is so much that is not needed that `clean` should be called."""
        needed = sum(self._kept.live_bytes.values())
        return self.disk_bytes > 2 * needed + GARBAGE_SEGMENTS * SEGMENT_BYTES and len(self._sizes) > 1

    def clean(self) -> None:
        """Moves what is needed of the oldest file to the newest. O(bytes of a file)."""
        oldest = min(self._sizes)
        for group in self._groups(oldest):
            moved = self._kept.still_needed(group, oldest)
            if moved is not None:
                self._append(moved, _framed(moved))
        self._unlink(oldest)

    def _append(self, group: SealedGroup, content: bytes) -> None:
        newest, self._newest = self._newest, None
        if newest is None or self._sizes[newest] >= SEGMENT_BYTES:
            newest = self._begin_segment()
        self.written_bytes += len(content)
        with self._path(newest).open("ab") as file:
            file.write(content)
            file.flush()
            os.fdatasync(file.fileno())
        self._newest = newest
        self._grow(newest, len(content))
        self._kept.take(group, newest)

    def _begin_segment(self) -> int:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        number = max(self._sizes, default=0) + 1
        content = _framed(self._kept.summary())
        write_durably(self._path(number), content, mode=MODE, beside=self._directory / "next")
        self._grow(number, len(content))
        return number

    def _grow(self, number: int, nbytes: int) -> None:
        self._sizes[number] = self._sizes.get(number, 0) + nbytes
        self.disk_bytes += nbytes

    def _remove_unneeded(self) -> None:
        for number in [one for one in self._sizes if one != self._newest and one not in self._kept.live_bytes]:
            self._unlink(number)

    def _unlink(self, number: int) -> None:
        self._path(number).unlink(missing_ok=True)
        self.disk_bytes -= self._sizes.pop(number, 0)

    def _path(self, number: int) -> Path:
        return self._directory / f"{number}{SUFFIX}"

    # Reading.

    def _read(self) -> Loaded:
        """Adds up all files. What cannot be read is warned of."""
        loaded: Loaded = {}
        paths = (path for path in self._directory.glob(f"*{SUFFIX}") if path.stem.isdecimal())
        for number in sorted(int(path.stem) for path in paths):
            try:
                self._grow(number, self._path(number).stat().st_size)
                for group in self._groups(number):
                    self._kept.take(group, number, loaded)
            except OSError as error:
                self._warn("sealed panes cannot be read", error.strerror or str(error))
        return loaded

    def _groups(self, number: int) -> Iterator[SealedGroup]:
        """The groups of a file up to the first that is incomplete or damaged. A crash can leave the last so."""
        with self._path(number).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                length, digest = _HEAD.unpack(head)
                end = file.tell() + length
                if not 0 < length <= size - file.tell():
                    return
                group = _decoded(file.read(length), digest)
                if group is None:
                    if end < size:
                        self._warn(
                            "sealed panes are damaged", f"{self._path(number).name}, from byte {end - length:,} on"
                        )
                    return
                yield group


def _framed(group: SealedGroup) -> bytes:
    content = msgspec.msgpack.encode(group)
    return _HEAD.pack(len(content), _digest(content)) + content


def _decoded(content: bytes, digest: bytes) -> SealedGroup | None:
    """The group, if it is as it was written."""
    if _digest(content) != digest:
        return None
    try:
        return msgspec.msgpack.decode(content, type=SealedGroup)
    except (ValueError, OverflowError):  # msgspec's errors are such: written by another release
        return None


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
