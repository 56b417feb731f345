"""A job's windows from the past on: windows from the archive, then live ones as they come."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from agent.control.messages import Ended, PublishedWindow
from elf.batch.backfill.handover import Handover, find_handover
from elf.client.attachment import Update
from elf.client.result import Result, read_result
from elf.output.view import ViewedJob

WAITING_MAX = 100_000
"""Upper bound on live windows that wait for the archive's."""
LOOK_INTERVAL_S = 2.0
"""Interval between looks at the archive."""
ARCHIVE_TIMEOUT_S = 90.0
"""Upper bound on waiting for the archive after the first live window: agents write their archives every half minute."""


class Past(Protocol):
    """The archive, as far as agents have written it."""

    def reread(self, text: str) -> None:
        """Reads the archive again; `text` is the job's query."""

    @property
    def agents(self) -> int:
        """Number of agents with events for the job in the archive."""

    def agents_behind(self, until_ms: int) -> Sequence[str]:
        """Agents whose events from `until_ms` on are not in the archive yet."""

    def before(self, handover: Handover) -> Iterable[bytes]:
        """Lines of the windows before a handover."""


class BackfilledJob:
    """Behaves like the live job, with earlier windows first. A thread receives the fleet's updates meanwhile; `tell`
    gets messages for people.
    """

    def __init__(self, job: ViewedJob, past: Past, tell: Callable[[str], None]) -> None:
        self.app, self.query, self.columns, self.bounded = job.app, job.query, job.columns, False
        self._job = job
        self._past = past
        self._tell = tell
        self._live: list[Result] = []
        self._is_joined = False
        self._came: queue.Queue[Update | BaseException] = queue.Queue(WAITING_MAX)
        self._ready: deque[Update] = deque()
        self._first_at = self._looked_at = 0.0
        threading.Thread(target=self._take, daemon=True).start()

    @property
    def failure(self) -> str:
        """Reason why the job failed, "" if it has not."""
        return self._job.failure

    def _take(self) -> None:
        try:
            while True:
                update = self._job.wait(LOOK_INTERVAL_S)
                if update is not None:
                    self._came.put(update)
                if isinstance(update, Ended):
                    return
        except BaseException as error:
            self._came.put(error)

    def wait(self, timeout_s: float) -> Update | None:
        """The next update; None if none comes within `timeout_s`."""
        if self._ready:
            return self._ready.popleft()
        update = self._next(min(timeout_s, LOOK_INTERVAL_S))
        if self._is_joined:
            return update
        if isinstance(update, Result):
            self._first_at = self._first_at or time.monotonic()
            self._live.append(update)
            update = None
        if self._live or isinstance(update, Ended):
            self._join(is_last=isinstance(update, Ended))
        if isinstance(update, Ended) and self._ready:
            self._ready.append(update)
            return self._ready.popleft()
        return update

    def _next(self, timeout_s: float) -> Update | None:
        try:
            update = self._came.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None
        if isinstance(update, BaseException):
            raise update
        return update

    def _join(self, *, is_last: bool) -> None:
        """Joins both parts once the archive has reached the handover or its time is up."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_INTERVAL_S and not is_last:
            return
        self._past.reread(self.query)
        self._looked_at = time.monotonic()
        agents, is_over = self._past.agents, is_last or now - self._first_at > ARCHIVE_TIMEOUT_S
        handover = find_handover(self._live, agents, is_last=is_over) if agents or is_over else None
        if handover is None:
            self._is_joined = is_last
            return
        behind = self._past.agents_behind(handover.until_ms)
        if behind and not is_over:
            return
        if behind:
            self._tell(f"quiet, or not archived up to the first live window: {', '.join(behind)}")
        elif not agents:
            self._tell("the archive has nothing of its stream")
        self._ready += (
            read_result(PublishedWindow(0, msgspec.Raw(line)), self.columns) for line in self._past.before(handover)
        )
        self._ready += handover.live
        self._is_joined = True
