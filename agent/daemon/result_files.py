"""Writes results published by this agent's masters as JSON lines, which the archive reads as a stream.

A task writes them beside the event loop. A new file begins at each start, when a file is large, and once a day; it
repeats what its results refer to: the functions that made them and the agents they come from. The oldest files are
deleted.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path

import trio

from agent.runtime.master.results.result_archive import ResultRecord
from query import format_timestamp

FILE_BYTES_MAX = 8 << 20
FILE_AGE_MS = 24 * 3600 * 1000
FILES_MAX = 32
WAITING_BYTES_MAX = 64 << 20
"""Past it the disk is too slow: what comes is dropped, and counted."""
MODE = 0o640


class ResultFiles:
    """The files in one folder. `dropped`: lines that the disk did not take."""

    def __init__(self, directory: Path, wall_ms: Callable[[], int], warn: Callable[[str, str], None]) -> None:
        self.dropped = 0
        self._directory = directory
        self._wall_ms = wall_ms
        self._warn = warn
        self._waiting: list[tuple[int, ResultRecord]] = []
        self._waiting_bytes = 0
        self._came = trio.Event()
        self._path: Path | None = None
        self._bytes = 0
        self._began_ms = -math.inf
        self._said: set[bytes] = set()

    def add(self, record: ResultRecord) -> None:
        """Takes a line, which will be written soon."""
        size = len(record.line) + sum(map(len, record.context))
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            self.dropped += 1
            return
        self._waiting.append((self._wall_ms(), record))
        self._waiting_bytes += size
        self._came.set()

    async def run(self) -> None:
        """Writes what comes, and the rest when it is cancelled."""
        try:
            while True:
                await self._came.wait()
                self._came = trio.Event()
                self._count(await trio.to_thread.run_sync(self._write, self._taken()))
        finally:
            self._count(self._write(self._taken()))

    def statistics(self) -> dict[str, int]:
        return {"unwritten": self.dropped}

    def _taken(self) -> list[tuple[int, ResultRecord]]:
        taken, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        return taken

    def _count(self, faults: list[OSError]) -> None:
        self.dropped += len(faults)
        for fault in faults[-1:]:
            self._warn("results of jobs are not written", fault.strerror or str(fault))

    def _write(self, records: list[tuple[int, ResultRecord]]) -> list[OSError]:
        """Writes what the disk takes."""
        faults = []
        for at_ms, record in records:
            try:
                self._append(at_ms, record)
            except OSError as error:
                faults.append(error)
                self._path = None  # the line may have broken off: nothing is appended to it
        return faults

    def _append(self, at_ms: int, record: ResultRecord) -> None:
        if self._path is None or self._bytes > FILE_BYTES_MAX or not 0 <= at_ms - self._began_ms <= FILE_AGE_MS:
            self._begin(at_ms)
        assert self._path is not None
        keys = {hashlib.sha256(line).digest(): line for line in record.context}
        unsaid = {key: line for key, line in keys.items() if key not in self._said}
        content = b"".join(_timed(at_ms, line) for line in (*unsaid.values(), record.line))
        with self._path.open("ab") as file:
            file.write(content)
        self._said |= unsaid.keys()
        self._bytes += len(content)

    def _begin(self, at_ms: int) -> None:
        self._directory.mkdir(mode=0o750, exist_ok=True)
        files = sorted(self._directory.glob("*.jsonl"))
        for old in files[: max(0, len(files) - FILES_MAX + 1)]:
            old.unlink(missing_ok=True)
        last = int(files[-1].stem) if files and files[-1].stem.isdecimal() else -1
        path = self._directory / f"{max(at_ms, last + 1):013}.jsonl"
        path.touch(MODE, exist_ok=False)
        self._path, self._bytes, self._began_ms, self._said = path, 0, at_ms, set()


def _timed(at_ms: int, line: bytes) -> bytes:
    """A line of the log: its time leads it."""
    return b'{"time":"%s",%s\n' % ((format_timestamp(at_ms) or "").encode(), line[1:])
