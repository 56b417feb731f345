"""A log that is written, rotated and truncated, and an archiver that may crash at any point."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import polars as pl
from compressing import rotate

from agent.archive.format.log import read_state
from agent.archive.format.segments import Segment
from agent.archive.writer import stream_archiver
from agent.archive.writer.archiver import Archiver
from agent.configuration.config import ArchiveConfig, StreamConfig
from agent.sources.file.source import FileSource

CRASH_POINTS = ("before writing", "after writing", "before committing", "after committing")


class CrashError(Exception):
    """The archiver's process is gone."""


class ArchivedLog:
    """One log file of the stream `web`, with the archiver that reads it; every line is another one."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "access.log",
        read_from: str = "beginning",
        disk_free_min: int = 0,
        segment_bytes: int = 1 << 20,
    ) -> None:
        self.log = folder / name
        self.store = folder / "archive"
        self.written: list[bytes] = []
        self.now = 1.0
        self.clock_ahead_ms = 0
        self.config = ArchiveConfig(self.store, 30.0, disk_free_min, ("*",))
        self._stream = StreamConfig("web", FileSource((str(self.log),)), "json", "time", read_from)  # type: ignore[arg-type]
        self._segment_bytes = segment_bytes
        self._half = b""
        self._numbers = itertools.count()
        self._ids = itertools.count(1)
        self.start()

    def start(self) -> None:
        """Another archiver, which knows what is on disk."""
        self.archiver = Archiver(
            self.config, "web-1", {"web": self._stream}, lambda: next(self._ids), segment_bytes=self._segment_bytes
        )

    def stop(self) -> None:
        """As it is told to end."""
        self.archiver.end(self.now, self.wall_ms)
        self.archiver.close()

    def stop_and_start(self) -> None:
        self.stop()
        self.start()

    def set_disk_free_min(self, size: int) -> None:
        """Another archiver, which leaves so much of the disk alone."""
        self.stop()
        self.config = replace(self.config, disk_free_min_bytes=size)
        self.start()

    @property
    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now * 1000) + self.clock_ahead_ms

    def append(self, count: int) -> None:
        self.append_lines([self._line() for _ in range(count)])

    def append_lines(self, lines: list[bytes]) -> None:
        self.finish_line()
        self._write(b"".join(line + b"\n" for line in lines))
        self.written += lines

    def begin_line(self) -> None:
        """Writes half a line."""
        self.finish_line()
        line = self._line()
        self._half = line[9:]
        self._write(line[:9])
        self.written.append(line)

    def finish_line(self) -> None:
        if self._half:
            self._write(self._half + b"\n")
            self._half = b""

    def _line(self) -> bytes:
        number = next(self._numbers)
        return b'{"time": %d, "n": %d}' % (1_700_000_000 + number, number)

    def _write(self, data: bytes) -> None:
        with self.log.open("ab") as file:
            file.write(data)

    def rotate(self) -> None:
        """As logrotate does: the file gets another name, which no pattern matches. The archiver has seen it before."""
        self.step(1.1)
        self._rotate()

    def rotate_meanwhile(self) -> None:
        """The same while no archiver runs, if there is a file."""
        if not self.log.exists():
            return
        self.step(1.1)
        self.archiver.close()
        self.append(1)
        self._rotate()
        self.append(1)
        self.start()

    def compress_meanwhile(self, rotations: int) -> None:
        """While no archiver runs the log is rotated through so many files, and all are compressed."""
        if not self.log.exists():
            return
        self.step(1.1)
        self.archiver.close()
        for _ in range(rotations):
            self.append(1)
            rotate(self.log, suffix=".gz")
        self.append(1)
        self.start()

    def _rotate(self) -> None:
        self.finish_line()
        if self.log.exists():
            self.log.rename(self.log.with_name(f"rotated.{next(self._numbers)}"))

    def truncate(self) -> None:
        """As `copytruncate` does, once all of it has been archived: what was not read by then would be lost."""
        self.finish_line()
        self.settle()
        if self.log.exists():
            os.truncate(self.log, 0)

    def step(self, seconds: float = 0.3) -> None:
        self.now += seconds
        self.archiver.step(self.now, self.wall_ms)

    def settle(self) -> None:
        """Lets the archiver read everything and write it."""
        for _ in range(4):
            self.step()
        self.step(31.0)

    def crash(self) -> None:
        """Another archiver begins where this one was."""
        self.archiver.close()
        self.start()

    def crash_at(self, point: str) -> None:
        """The same, at a certain point while it writes a segment, if it has anything to write."""
        self.step()
        with self.failing(point, CrashError()), suppress(CrashError):
            self.step(31.0)
        self.crash()

    @contextmanager
    def failing(self, point: str, error: Exception) -> Iterator[None]:
        """While it lasts, what archivers do at this point raises."""
        when, what = point.split()
        name = {"writing": "write_segment", "committing": "commit"}[what]
        real = getattr(stream_archiver, name)

        def fail(*arguments: object, **named: object) -> None:
            if when == "after":
                real(*arguments, **named)
            raise error

        setattr(stream_archiver, name, fail)
        try:
            yield
        finally:
            setattr(stream_archiver, name, real)

    def segments(self) -> list[Segment]:
        return list(read_state(self.store).segments.values())

    def rows(self) -> pl.DataFrame:
        frames = [pl.read_parquet(self.store / segment.file) for segment in self.segments()]
        return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame({"key": [], "raw:line": []})

    def archived(self) -> list[bytes]:
        """The lines that are there, once for each key, in order."""
        return sorted(self.rows().unique("key")["raw:line"].to_list())
