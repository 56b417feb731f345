"""Archives one stream: follows its files and holds rows until they fill a segment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from agent.archive.format.log import commit, read_state
from agent.archive.format.positions import FilePosition, StreamPositions, file_path, stored_path
from agent.archive.format.rows import ArchiveRows, FileOrigin, RowReader
from agent.archive.format.segments import Segment, write_segment
from agent.configuration.config import StreamConfig
from agent.parsing import Format, sniff
from agent.sources.file.followed_file import FollowedFile, ReadUpTo
from agent.sources.file.source import FileSource
from agent.sources.file.tail import TailReader
from agent.sources.reader import SourceBlock

_EARLIEST = float("-inf")
MISSED_MAX = 64
"""Upper bound on remembered files that are no longer found; they may come back."""


@dataclass(slots=True)
class _Reading:
    """State of the reading of a file since the file was last truncated.

    `overlong`: lines too long for the archive since the last row; they are counted with the next one.
    """

    truncated: int
    file_id: int
    reached_ms: int | None
    reader: RowReader | None = None
    form: Format | None = None
    overlong: int = 0


class StreamArchiver:
    """Reads, holds and writes the rows of a stream. Calls block on files; one that raises OSError may be repeated.

    `held_since` is the time of the oldest row held; `held_bytes` is the size of the lines of rows held. `draw_id` draws
    the ids of new files.
    """

    def __init__(
        self,
        stream: StreamConfig,
        store: Path,
        agent: str,
        positions: StreamPositions | None,
        draw_id: Callable[[], int],
    ) -> None:
        self.name = stream.name
        self.held_bytes = 0
        self.held_since: float | None = None
        self.dropped_rows = positions.dropped_rows if positions else 0
        self.dropped_bytes = positions.dropped_bytes if positions else 0
        self._store, self._agent, self._draw_id = store, agent, draw_id
        self._sequence = positions.sequence if positions else 0
        self._known = {_read_up_to(file).identity: file for file in (positions.files if positions else ())}
        self._is_new, self._has_dropped = positions is None, False
        assert isinstance(stream.source, FileSource), "only streams of files are archived"
        self._tail: TailReader[Format] = stream.source.tail(
            partial(sniff, kind=stream.format, time_field=stream.time_field),
            stream.read_from if positions is None else "beginning",
            map(_read_up_to, self._known.values()),
        )
        self._readings: dict[FollowedFile[Format], _Reading] = {}
        self._committed = {file.file_id: file for file in self._known.values()}
        self._noted = {(file.file_id, _read_up_to(file).identity) for file in self._known.values()}
        self._lots: list[ArchiveRows] = []
        self._written: Segment | None = None  # of these rows; whether it was committed is not certain
        self._faults: list[str] = []

    def poll(self, now: float, wall_ms: int) -> bool:
        """Reads up to a few MiB. Returns whether there was anything to read."""
        if self._written is not None:  # all that is held is in there
            self.look(now)
            return False
        if self._tail.is_quiet(now):
            return False
        pieces = self._tail.poll(now)
        for piece in pieces:
            self._hold(piece, now, wall_ms)
        return bool(pieces)

    @property
    def gaps(self) -> int:
        """The number of times that lines could not be read any more, and nobody knows how many."""
        return self._tail.statistics().losses

    @property
    def has_unrecorded(self) -> bool:
        """Whether there are files or losses that the archive has not recorded yet."""
        return (
            self._is_new
            or self._has_dropped
            or any((self._reading(file).file_id, file.identity) not in self._noted for file in self._tail.files)
        )

    def record_positions(self, wall_ms: int) -> None:
        """Commits the positions at which new files begin, so that they are found again after they are renamed."""
        self._commit(wall_ms, None)

    def look(self, now: float) -> None:
        """Follows names without reading. Closes deleted files, since an open one would keep filling the disk."""
        self._tail.look(now)
        rows, size = self._tail.drop_deleted()
        self.dropped_rows += rows
        self.dropped_bytes += size
        if size:
            self._has_dropped = True
            self._faults.append(f"{rows:,} lines ({size:,} bytes) were deleted before they could be archived")

    def roll(self, wall_ms: int) -> Segment | None:
        """Writes the rows held as a segment and forgets them once it is committed; None if there are none."""
        if not self._lots:
            return None
        if self._written is None:
            self._written = write_segment(self._store, self._lots, wall_ms)
            self._commit(wall_ms, self._written)
        elif not self._is_committed(self._written):
            self._commit(wall_ms, self._written)
        written, self._written = self._written, None
        self._lots, self.held_bytes, self.held_since = [], 0, None
        for reading in self._readings.values():
            reading.reader = None  # so that the columns of a segment are those of its own rows
        return written

    def faults(self) -> list[str]:
        faults, self._faults = [*self._faults, *self._tail.faults()], []
        return faults

    @property
    def lag_bytes(self) -> int:
        return sum(max(0, file.size - self._archived_up_to(file)) for file in self._tail.files)

    def close(self) -> None:
        self._tail.close()

    def _hold(self, piece: SourceBlock[Format], now: float, wall_ms: int) -> None:
        assert isinstance(piece.part, FollowedFile)
        reading = self._reading(piece.part)
        reading.overlong += piece.block.overlong
        if reading.reader is None or reading.form != piece.form:
            origin = FileOrigin(self.name, self._agent, stored_path(piece.part.path), reading.file_id, piece.form)
            reading.reader, reading.form = RowReader(origin, reading.reached_ms), piece.form
        rows = reading.reader.read(replace(piece.block, overlong=reading.overlong), wall_ms)
        if reading.reader.fault is not None:
            self._faults.append(f"{piece.part.path}: {reading.reader.fault}")
        if rows is None:
            return
        reading.overlong = 0
        reading.reached_ms = piece.part.reached_ms = reading.reader.before_ms
        self._lots.append(rows)
        self.held_bytes += rows.bytes
        if self.held_since is None:
            self.held_since = now

    def _reading(self, file: FollowedFile[Format]) -> _Reading:
        """The state of a file's reading. After a truncation it counts as another file, since offsets start over."""
        reading = self._readings.get(file)
        if reading is not None and reading.truncated == file.truncated:
            return reading
        reading = self._resumed(file) if reading is None and not file.truncated else None
        if reading is None:
            reading = _Reading(file.truncated, self._draw_id(), None)
            if self._lots and file.truncated:
                self.held_since = _EARLIEST  # what was read before cannot be read again
        self._readings[file] = reading
        return reading

    def _resumed(self, file: FollowedFile[Format]) -> _Reading | None:
        """The state of the reading, of this archiver or of the one before, that a file goes on with."""
        if file.resumed is None:
            return None
        identity = file.resumed.identity
        before = next((one for one in self._readings if one.identity == identity and one is not file), None)
        if before is not None and before not in self._tail.files:
            return replace(self._readings[before], truncated=0, reader=None, form=None)
        known = self._known.pop(identity, None)
        return None if known is None else _Reading(0, known.file_id, known.reached_ms)

    def _is_committed(self, segment: Segment) -> bool:
        state = read_state(self._store)
        return segment.name in state.segments or segment.name in state.removed

    def _commit(self, wall_ms: int, segment: Segment | None) -> None:
        """Commits positions. With a segment, all lines read count as archived; without, only those archived before."""
        self._sequence += 1
        followed = self._tail.files
        if segment is None:  # rows of files that were closed meanwhile are held, and not archived yet
            followed = [*followed, *(file for file in self._readings if file not in followed)]
        files = [self._position(file) if segment else self._position_before(file) for file in followed]
        missed = [self._known[one.identity] for one in self._tail.missed if one.identity in self._known]
        positions = StreamPositions(self._sequence, files + missed[:MISSED_MAX], self.dropped_rows, self.dropped_bytes)
        commit(self._store, wall_ms, add=[segment] if segment else [], positions={self.name: positions})
        self._is_new = self._has_dropped = False
        self._committed = {file.file_id: file for file in positions.files}
        self._noted = {(file.file_id, _read_up_to(file).identity) for file in positions.files}
        self._readings = {file: self._readings[file] for file in followed}

    def _position(self, file: FollowedFile[Format]) -> FilePosition:
        """The position of a file's reading now."""
        read, reading = file.read_up_to, self._reading(file)
        device, inode = read.identity
        return FilePosition(
            stored_path(read.path), device, inode, read.fingerprint_bytes, read.fingerprint, read.offset,
            reading.file_id, reading.reached_ms, read.modified_ns,
        )  # fmt: skip

    def _position_before(self, file: FollowedFile[Format]) -> FilePosition:
        """The position of a file's reading at the last committed segment, or else at its beginning."""
        position = self._position(file)
        known = self._committed.get(position.file_id)
        if known is not None:
            return msgspec.structs.replace(position, offset=known.offset, reached_ms=known.reached_ms)
        return msgspec.structs.replace(position, offset=file.began_at, reached_ms=None)

    def _archived_up_to(self, file: FollowedFile[Format]) -> int:
        return self._position_before(file).offset


def _read_up_to(position: FilePosition) -> ReadUpTo:
    identity = position.device, position.inode
    return ReadUpTo(
        file_path(position.path), identity, position.fingerprint_bytes, position.fingerprint, position.offset,
        position.modified_ns,
    )  # fmt: skip
