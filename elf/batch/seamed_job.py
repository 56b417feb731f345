"""A job's windows from the past on: first those of the archive, then its own, as they come."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from agent.control.messages import Ended, Window
from elf.batch.seam import Seam
from elf.client.attachment import Update
from elf.client.result import Result, read_result
from elf.view import SeenJob

WAITING_MAX = 100_000
"""Live windows that may wait for those of the archive."""
LOOK_S = 2.0
"""So often it is looked how far the archive is."""
ARCHIVE_PATIENCE_S = 90.0
"""So long after the seam the archive is waited for: agents write what they have every half minute."""


class Past(Protocol):
    """The archive, as far as it is written by now."""

    def lacking(self, until_ms: int) -> Sequence[str]:
        """The agents whose events up to a time are not all there yet, as far as anybody can tell."""

    def computed(self, until_ms: int, seam: Seam) -> Iterable[bytes]:
        """The lines of the windows before a seam."""


class SeamedJob:
    """Looks like the job itself; a thread takes what the fleet says meanwhile. `tell` gets what people should know."""

    def __init__(self, job: SeenJob, past: Past, agents: int, tell: Callable[[str], None]) -> None:
        self.app, self.query, self.columns, self.bounded = job.app, job.query, job.columns, False
        self._job = job
        self._past = past
        self._tell = tell
        self._seam: Seam | None = Seam(agents)
        self._came: queue.Queue[Update | BaseException] = queue.Queue(WAITING_MAX)
        self._ready: deque[Update] = deque()
        self._found_at = self._looked_at = 0.0
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        try:
            while True:
                update = self._job.wait(LOOK_S)
                if update is not None:
                    self._came.put(update)
                if isinstance(update, Ended):
                    return
        except BaseException as error:
            self._came.put(error)

    @property
    def failure(self) -> str:
        """What a job that failed could not do."""
        return self._job.failure

    def wait(self, timeout_s: float) -> Update | None:
        """The next window, or what else there is to tell; None if there is none within the time."""
        if self._ready:
            return self._ready.popleft()
        try:
            update = self._came.get(timeout=max(0.0, min(timeout_s, LOOK_S)))
        except queue.Empty:
            update = None
        if isinstance(update, BaseException):
            raise update
        if self._seam is None:
            return update
        if isinstance(update, Result):
            self._seam.add(update)
            update = None
        elif isinstance(update, Ended):
            self._seam.end()
            self._join(self._seam, wait=False)
            self._ready.append(update)
            update = None
        if self._seam is not None and self._seam.is_found:
            self._join(self._seam, wait=True)
        return update

    def _join(self, seam: Seam, *, wait: bool) -> None:
        """Puts both parts together, once the archive has come to the seam or has had the time to."""
        now, until_ms = time.monotonic(), seam.first_end_ms
        self._found_at = self._found_at or now
        if wait and now - self._looked_at < LOOK_S:
            return
        lacking = self._past.lacking(until_ms) if until_ms is not None else ()
        self._looked_at = time.monotonic()
        if wait and lacking and now - self._found_at < ARCHIVE_PATIENCE_S:
            return
        if lacking:
            self._tell(f"not archived up to the first live window, or quiet: {', '.join(lacking)}")
        if until_ms is not None:
            lines = self._past.computed(until_ms, seam)
            self._ready += (read_result(Window(0, msgspec.Raw(line)), self.columns) for line in lines)
        self._ready += seam.live
        self._seam = None
