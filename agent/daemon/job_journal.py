"""Writes what is to be kept of jobs beside the event loop.

What comes while the disk is busy is written together and made durable by one fsync. The agent lives on whatever the
disk does: what it does not take is lost, a warning says so, and all is written again later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from agent.daemon.job_files import RECORD_BYTES_MAX, JobFiles
from agent.runtime.messages.job_records import DescriptorRecord, EndRecord, JobRecord

WAITING_BYTES_MAX = 64 << 20
"""Past it the disk is too slow: what comes is lost, until all is written again."""
RECORD_BYTES = 1 << 10
"""Weight of a waiting record without its results."""
RETRY_S = 10.0
"""Time after a failure of the disk in which nothing is written."""
LAZY_S = 1.0
"""Time for which records that nobody waits for may wait for others."""


class JobJournal:
    """Writes records beside the event loop. `stored` is called with the number of records that are done with, `repeat`
    when all is to be written again. `unwritten` counts records that the disk did not take.
    """

    def __init__(
        self,
        files: JobFiles,
        stored: Callable[[int], None],
        repeat: Callable[[], None],
        warn: Callable[[str, str], None],
    ) -> None:
        self._files = files
        self._stored = stored
        self._repeat = repeat
        self._warn = warn
        self.unwritten = 0
        self._waiting: list[JobRecord] = []
        self._waiting_bytes = 0
        self._has_lost = False
        self._came = trio.Event()
        self._is_urgent = trio.Event()

    def add(self, record: JobRecord) -> None:
        """Takes a record, which will be written soon."""
        if self._waiting_bytes > WAITING_BYTES_MAX:
            self._has_lost = True
            self._lost(1)
            return
        self._waiting.append(record)
        self._waiting_bytes += RECORD_BYTES
        self._came.set()
        if isinstance(record, DescriptorRecord):
            self._waiting_bytes += sum(len(json) for _, json in record.results)
        if isinstance(record, DescriptorRecord | EndRecord):
            self._is_urgent.set()

    async def run(self) -> None:
        """Writes what comes, and the rest when it is cancelled."""
        try:
            while True:
                await self._came.wait()
                with trio.move_on_after(LAZY_S):
                    await self._is_urgent.wait()
                records = self._taken()
                fault = await trio.to_thread.run_sync(self._write, records)
                if isinstance(fault, OSError):
                    self._lost(len(records))
                    self._warn("jobs are not kept", fault.strerror or str(fault))
                    await self._pause()
                    continue
                self._stored(len(records))
                if fault:
                    self.unwritten += fault
                    self._warn("a job is not kept", f"its descriptor takes more than {RECORD_BYTES_MAX >> 20} MiB")
                elif self._has_lost:
                    self._has_lost = False
                    self._repeat()
        finally:
            self._write(self._taken())

    async def _pause(self) -> None:
        """Waits for the disk to recover; nothing waits for it meanwhile."""
        self._has_lost = False
        with trio.move_on_after(RETRY_S):
            while True:
                await self._came.wait()
                self._lost(len(self._taken()))
        self._repeat()

    def _lost(self, count: int) -> None:
        self.unwritten += count
        self._stored(count)

    def _taken(self) -> list[JobRecord]:
        taken, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._came, self._is_urgent = trio.Event(), trio.Event()
        return taken

    def _write(self, records: Sequence[JobRecord]) -> OSError | int:
        """Writes what the disk takes; returns why it takes nothing, or the number of records that are too large."""
        try:
            return self._files.write(records) if records else 0
        except OSError as error:
            return error
