"""Stores the positions from which an agent's feeds are read again after a restart.

Two files hold the last two generations, each with its checksum: a write that breaks off harms only the older one. A
damaged file is set aside. Positions may be older than the last ones, never younger: an agent that is killed reads what
it has read since the last write once more, and leaves out what is in published windows already.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from agent.feeding.reading_ledger import FeedPosition
from agent.runtime.ingest.feed_memory import JobTerm
from agent.sources.file.followed_file import ReadUpTo

POSITIONS_BYTES_MAX = 8 << 20
"""Upper bound on a file: more positions are not stored."""
GENERATIONS = 2
_DIGEST_BYTES = 16
_MARK = b"elf positions 2\n"

Warn = Callable[[str, str], None]


class _StoredFile(msgspec.Struct, frozen=True, array_like=True):
    path: bytes
    device: int
    inode: int
    fingerprint_bytes: int
    fingerprint: str
    offset: int
    modified_ns: int


class _StoredJob(msgspec.Struct, frozen=True, array_like=True):
    app_id: bytes
    born_ms: int
    begins_ms: int


class _StoredFeed(msgspec.Struct, frozen=True, array_like=True):
    stream: str
    complete_from_ms: int
    exact: bool
    files: list[_StoredFile]
    jobs: list[_StoredJob]


class _Generation(msgspec.Struct, frozen=True, array_like=True):
    incarnation: int
    number: int
    feeds: list[_StoredFeed]


class PositionsFile:
    """The files beside `path`. `incarnation`: the number of this start of the agent. `warn` gets what goes wrong, and
    why. `found`: the positions that the starts before have stored.
    """

    def __init__(self, path: Path, incarnation: int, warn: Warn) -> None:
        self._path = path
        self._incarnation = incarnation
        self._warn = warn
        read = [one for number in range(GENERATIONS) if (one := self._read(number)) is not None]
        last = max(read, key=lambda one: (one.incarnation, one.number), default=_Generation(0, 0, []))
        self._number = last.number
        # What was exact is not any more if this agent was started meanwhile, and has left nothing.
        is_last = last.incarnation == incarnation - 1
        self.found = [_feed_position(feed, exact=feed.exact and is_last) for feed in last.feeds]

    def store(self, positions: Iterable[FeedPosition]) -> None:
        """Stores positions durably before it returns. OSError if the disk does not take them, or they are too many."""
        number = self._number + 1
        content = msgspec.msgpack.encode(_Generation(self._incarnation, number, [_stored(one) for one in positions]))
        if len(content) > POSITIONS_BYTES_MAX:
            raise OSError(None, f"they take more than {POSITIONS_BYTES_MAX >> 20} MiB")
        path = self._generation(number)
        is_new = not path.exists()
        with path.open("wb") as file:
            file.write(_MARK + _digest(content) + content)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            self._sync_names()
        self._number = number

    def _generation(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number % GENERATIONS}")

    def _sync_names(self) -> None:
        descriptor = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _read(self, number: int) -> _Generation | None:
        path = self._generation(number)
        try:
            with path.open("rb") as file:
                content = file.read(len(_MARK) + _DIGEST_BYTES + POSITIONS_BYTES_MAX + 1)
            return _decoded(content)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("positions cannot be read", error.strerror or str(error))
        except (ValueError, OverflowError) as error:
            self._set_aside(path, str(error))
        return None

    def _set_aside(self, path: Path, why: str) -> None:
        self._warn("positions are damaged, and set aside", f"{path.name}: {why}")
        try:
            path.replace(path.with_name(f"{path.name}.damaged"))
        except OSError as error:
            self._warn("positions cannot be set aside", error.strerror or str(error))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _decoded(content: bytes) -> _Generation:
    """A generation of its file's content. Raises ValueError (msgspec's errors are such) where it is damaged."""
    begin = len(_MARK) + _DIGEST_BYTES
    if content[: len(_MARK)] != _MARK or content[len(_MARK) : begin] != _digest(content[begin:]):
        raise ValueError("its checksum is not that of its content")
    generation = msgspec.msgpack.decode(content[begin:], type=_Generation)
    if any(file.fingerprint_bytes < 0 or file.offset < 0 for feed in generation.feeds for file in feed.files):
        raise ValueError("a position is negative")
    return generation


def _stored(position: FeedPosition) -> _StoredFeed:
    files = [
        _StoredFile(
            os.fsencode(one.path), *one.identity, one.fingerprint_bytes, one.fingerprint, one.offset, one.modified_ns
        )
        for one in position.files
    ]
    jobs = [_StoredJob(job.app_id.to_bytes(16), job.born_ms, begins) for job, begins in position.jobs.items()]
    return _StoredFeed(position.stream, position.complete_from_ms, position.exact, files, jobs)


def _feed_position(feed: _StoredFeed, *, exact: bool) -> FeedPosition:
    files = tuple(map(_read_up_to, feed.files))
    jobs = {JobTerm(int.from_bytes(job.app_id), job.born_ms): job.begins_ms for job in feed.jobs}
    return FeedPosition(feed.stream, files, feed.complete_from_ms, jobs, exact)


def _read_up_to(file: _StoredFile) -> ReadUpTo:
    identity = file.device, file.inode
    return ReadUpTo(
        os.fsdecode(file.path), identity, file.fingerprint_bytes, file.fingerprint, file.offset, file.modified_ns
    )
