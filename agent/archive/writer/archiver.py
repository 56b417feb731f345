"""Archives all streams of an agent, and waits where the disk has no room."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from agent import log
from agent.archive.format.log import StoreState, create_store, read_state
from agent.archive.format.status import ArchiveStatus, StreamArchiveStatus
from agent.archive.writer.stream_archiver import StreamArchiver
from agent.archive.writer.upkeep import ClockStepGuard, keep_up, newest_written_ms
from agent.configuration.config import ArchiveConfig, StreamConfig
from agent.sources.file.finding import reason_of

SEGMENT_BYTES = 16 << 20
"""Upper bound on the lines of a segment, and on those held by all streams; the fullest stream is written first."""
ROLL_S = 30.0
"""Upper bound on the time a row is held before it is archived."""
DISK_LOOK_S = 2.0
UPKEEP_S = 600.0
RETRY_MIN_S, RETRY_MAX_S = 2.0, 60.0
Result = TypeVar("Result")


class _Stream:
    """A stream with its counters, and its delay after a segment could not be written."""

    def __init__(self, archiver: StreamArchiver) -> None:
        self.archiver = archiver
        self.rows = self.segments = self.bytes = 0
        self.fault = ""
        self.waits_until = 0.0
        self.pause_s = RETRY_MIN_S


class Archiver:
    """Archives the streams of one agent. The holder of the store's lock calls `step` repeatedly. Blocks on files.

    Raises ArchiveError or OSError where the store cannot be used at all. `clock` values are monotonic seconds.
    """

    def __init__(
        self,
        config: ArchiveConfig,
        agent: str,
        streams: Mapping[str, StreamConfig],
        draw_id: Callable[[], int],
        *,
        segment_bytes: int = SEGMENT_BYTES,
        roll_s: float = ROLL_S,
    ) -> None:
        self._config = config
        self._segment_bytes, self._roll_s = segment_bytes, roll_s
        create_store(config.directory, agent)
        state = read_state(config.directory)
        self._streams = {
            name: _Stream(StreamArchiver(stream, config.directory, agent, state.positions.get(name), draw_id))
            for name, stream in streams.items()
        }
        self._count(state)
        self._clock = ClockStepGuard(newest_written_ms(state))
        self._fault = ""
        self._disk_free = 0
        self._next_disk_look = self._next_upkeep = float("-inf")

    def step(self, now: float, wall_ms: int) -> bool:
        """Reads a bounded amount and writes what is due. Returns whether there was anything to read."""
        self._look_at_disk(now)
        is_busy = False
        for name, stream in self._streams.items():
            is_full = stream.archiver.held_bytes >= self._segment_bytes
            if self._fault or is_full or now < stream.waits_until:
                stream.archiver.look(now)
            else:
                is_busy |= stream.archiver.poll(now, wall_ms)
            for fault in stream.archiver.faults():
                log.warn("archive", stream=name, fault=fault)
            self._write(name, stream, now, wall_ms)
        self._write_most(now, wall_ms)
        self._keep_up(now, wall_ms)
        return is_busy

    def end(self, now: float, wall_ms: int) -> None:
        """Writes all rows that are held, as far as the disk takes them."""
        for name, stream in self._streams.items():
            self._roll(name, stream, now, wall_ms)

    def close(self) -> None:
        """Closes all files."""
        for stream in self._streams.values():
            stream.archiver.close()

    def status(self) -> ArchiveStatus:
        return ArchiveStatus(
            directory=str(self._config.directory),
            disk_free_bytes=self._disk_free,
            fault=self._fault,
            streams=[self._stream_status(name, stream) for name, stream in self._streams.items()],
        )

    def _stream_status(self, name: str, stream: _Stream) -> StreamArchiveStatus:
        archiver = stream.archiver
        return StreamArchiveStatus(
            name, stream.rows, stream.segments, stream.bytes, archiver.lag_bytes, archiver.dropped_rows,
            archiver.dropped_bytes, archiver.gaps, stream.fault,
        )  # fmt: skip

    def _count(self, state: StoreState) -> None:
        rows, segments, size = Counter[str](), Counter[str](), Counter[str]()
        for segment in state.segments.values():
            rows[segment.stream] += segment.rows
            segments[segment.stream] += 1
            size[segment.stream] += segment.bytes
        for name, stream in self._streams.items():
            stream.rows, stream.segments, stream.bytes = rows[name], segments[name], size[name]

    def _look_at_disk(self, now: float) -> None:
        """Checks the free disk space. Below the limit nothing is read: lines stay in the logs until there is room."""
        if now < self._next_disk_look:
            return
        self._next_disk_look = now + DISK_LOOK_S
        try:
            status = os.statvfs(self._config.directory)
        except OSError as error:
            self._say(f"{self._config.directory}: {reason_of(error)}")
            return
        self._disk_free = status.f_bavail * status.f_frsize
        least = self._config.disk_free_min_bytes
        is_low = self._disk_free < least
        self._say(f"the disk has {self._disk_free:,} bytes left: disk_free_min is {least:,}" if is_low else "")

    def _say(self, fault: str) -> None:
        was, self._fault = self._fault, fault
        if fault and not was:
            log.warn("archive waits", fault=fault, directory=str(self._config.directory))
        elif was and not fault:
            log.info("archive goes on", directory=str(self._config.directory))

    def _write(self, name: str, stream: _Stream, now: float, wall_ms: int) -> None:
        """Rolls a stream whose rows have waited long enough or fill a segment."""
        since = stream.archiver.held_since
        if now < stream.waits_until:
            return
        if (since is not None and now >= since + self._roll_s) or stream.archiver.held_bytes >= self._segment_bytes:
            self._roll(name, stream, now, wall_ms)
        elif stream.archiver.has_unrecorded:
            self._try(name, stream, now, lambda: stream.archiver.record_positions(wall_ms))

    def _write_most(self, now: float, wall_ms: int) -> None:
        """Rolls the fullest stream if all streams together hold too much."""
        if sum(stream.archiver.held_bytes for stream in self._streams.values()) < self._segment_bytes:
            return
        name, stream = max(self._streams.items(), key=lambda item: item[1].archiver.held_bytes)
        if now >= stream.waits_until:
            self._roll(name, stream, now, wall_ms)

    def _roll(self, name: str, stream: _Stream, now: float, wall_ms: int) -> None:
        segment = self._try(name, stream, now, lambda: stream.archiver.roll(wall_ms))
        if segment is not None:
            stream.rows += segment.rows
            stream.segments += 1
            stream.bytes += segment.bytes

    def _try(self, name: str, stream: _Stream, now: float, write: Callable[[], Result]) -> Result | None:
        """Writes. If the disk refuses, the stream waits, longer after each failure."""
        try:
            result = write()
        except OSError as error:
            fault = f"{error.filename or self._config.directory}: {reason_of(error)}"
            if fault != stream.fault:
                log.warn("archive waits", stream=name, fault=fault)
            stream.fault = fault
            stream.waits_until, stream.pause_s = now + stream.pause_s, min(RETRY_MAX_S, 2 * stream.pause_s)
            return None
        stream.waits_until, stream.pause_s, stream.fault = 0.0, RETRY_MIN_S, ""
        return result

    def _keep_up(self, now: float, wall_ms: int) -> None:
        if now < self._next_upkeep:
            return
        self._next_upkeep = now + UPKEEP_S
        removes = self._clock.trusts(now, wall_ms)
        try:
            self._count(keep_up(self._config.directory, wall_ms, self._config.keep_days, removes=removes))
        except OSError as error:
            log.warn("archive is not kept up", fault=f"{error.filename}: {reason_of(error)}")
