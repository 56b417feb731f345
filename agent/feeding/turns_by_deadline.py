"""Gives feeds their turns to read or to insert in the order in which their windows are to be out (Li et al., 4.1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from agent.runtime.ingest.feed import FeedKey, FeedUrgency
from agent.runtime.scheduling import DeadlineQueue, PhaseTimes, WorkPhase


class TurnsByDeadline:
    """Turns of one phase, `at_once` of them at a time, the most urgent feed first. `urgency` is asked of a feed when it
    begins to wait. `times`: what the phases of feeds take, this one among them."""

    def __init__(
        self,
        phase: WorkPhase,
        at_once: int,
        clock: Callable[[], float],
        urgency: Callable[[FeedKey], FeedUrgency],
        times: PhaseTimes,
    ) -> None:
        self._phase, self._clock, self._urgency = phase, clock, urgency
        self._free = at_once
        self._queue: DeadlineQueue[FeedKey] = DeadlineQueue(times)
        self._waiting: dict[FeedKey, trio.Event] = {}

    @asynccontextmanager
    async def turn(self, key: FeedKey) -> AsyncIterator[None]:
        """Waits for a turn, and measures what it takes."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(key)
        began = self._clock()
        try:
            yield
        finally:
            self._queue.times.measured(key, self._phase, self._clock() - began)
            self._next()

    async def _wait(self, key: FeedKey) -> None:
        come = self._waiting[key] = trio.Event()
        deadline, pane_s = self._urgency(key)
        self._queue.add(key, self._phase, self._clock(), pane_s, deadline)
        try:
            await come.wait()
        except trio.Cancelled:
            if self._waiting.pop(key, None) is None:  # its turn has come all the same
                self._next()
            self._queue.remove(key, self._phase)
            raise

    def _next(self) -> None:
        work = self._queue.next()
        if work is None:
            self._free += 1
        else:
            self._waiting.pop(work.job).set()
