"""All elements of one prototype here: the calls that wait for their runtime, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from agent.runtime.keyed.elements.runtime import NODE, ElementRuntime, Emitted, Tables
from agent.runtime.keyed.hosting.options import Bools, Ints
from agent.runtime.keyed.hosting.rows.outgoing import NEVER
from agent.runtime.keyed.hosting.rows.selection import together, where
from agent.runtime.keyed.hosting.time.wrong_clocks import WrongClocks
from agent.runtime.keyed.logical_nodes import NODES, mask_of

CALLS_MAX = 4
"""Calls of one runtime that may be under way."""
MERGED_ROWS_MAX = 1 << 16
"""Rows that are given to a runtime in one call, where several batches wait."""
REST_S, REST_ROWS, PROGRAM_REST_S = 0.02, 1 << 10, 0.01
"""Time after a call of so many rows in which others wait for more, where a runtime answers at once, and of one of fewer
where it does not: each call has its price. Rows do not wait where something else comes after them, as time does."""
BEGINNING = -(2**62)
"""A time before all others."""


class _Call(NamedTuple):
    """A call that waits. `lowest`: the lowest time of its rows."""

    start: Callable[[], None]
    type: str | None = None
    rows: pl.DataFrame | None = None
    lowest: int = NEVER
    has_answer: bool = True


class ElementSlot:
    """A runtime with its queue. `may_run`: whether what it emits has room; `on_emitted` takes that, with the type of
    the events for which it was emitted, "" for time. `sealed`: nodes of which a new host has the state; `left_over`:
    how often nodes have been lost of which answers may still come, to what they were asked before."""

    def __init__(
        self,
        place: int,
        runtime: ElementRuntime,
        may_run: Callable[[], bool],
        on_emitted: Callable[[ElementSlot, list[Emitted], str], None],
        *,
        rests: bool = True,
        clocks: WrongClocks | None = None,
    ) -> None:
        self.place, self.runtime, self._clocks = place, runtime, clocks or WrongClocks()
        self.events = self.emitted = self.refused = 0
        self.applied = self.asked = BEGINNING
        self.next_seq: Ints = np.zeros(NODES, np.int64)
        self.sealed: Bools = np.zeros(NODES, bool)
        self.left_over: Ints = np.zeros(NODES, np.int64)
        self._drops: deque[tuple[int, Ints]] = deque()
        """Nodes that have been dropped, by the number of the last call that was begun before."""
        self._ended = 0
        self.may_run, self._on_emitted = may_run, on_emitted
        self._queue: deque[_Call] = deque()
        self._under_way: deque[int] = deque()
        self._is_running = self._is_touched = False
        self._cuts = self._acts = 0
        self._rests = rests
        self._now = self._rests_until = 0.0
        self.busy_s = 0.0
        """Time in which answers were awaited: of a runtime that answers at once, none."""

    # Calls.

    def rows(self, type_: str, rows: pl.DataFrame) -> None:
        """Gives the elements rows of a type."""
        self._is_touched = True
        self._queue.append(_Call(_nothing, type_, rows, self._clocks.lowest(rows)))

    def advance(self, watermark_ms: int) -> None:
        """Lets the elements act on event time."""
        if watermark_ms > self.asked:
            self.asked = watermark_ms
            self._is_touched = True
            self._then(_Call(lambda: self.runtime.advance(watermark_ms, self._advanced(watermark_ms))))

    def cut(self, done: Callable[[Tables], None]) -> None:
        """Takes what has changed, at this place in the order of calls."""
        if not self._is_touched and self.is_idle:
            done({})
            return
        self._is_touched = False
        self._cuts += 1
        self._then(_Call(lambda: self._take_changes(done)))

    def _take_changes(self, done: Callable[[Tables], None]) -> None:
        self._cuts -= 1
        self.runtime.take_changes(self._answered(done))

    def states(self, nodes: list[int], done: Callable[[Tables], None]) -> None:
        """Takes whole states, at this place in the order of calls."""
        self._then(_Call(lambda: self.runtime.states(nodes, self._answered(done))))

    def then(self, act: Callable[[], None]) -> None:
        """Does something that needs no answer, at this place in the order of calls."""
        self._is_touched = True
        self._then(_Call(act, has_answer=False))

    def _then(self, call: _Call) -> None:
        self._acts += 1
        self._queue.append(call)

    def evict(self, bytes_max: int) -> None:
        """Makes room."""
        self._is_touched = True
        self.runtime.evict(bytes_max, self.applied)

    def repeat(self, watermark_ms: int) -> None:
        """Makes the elements act again on time from this one on: nodes have come that have not."""
        self.applied, self.asked = min(self.applied, watermark_ms), min(self.asked, watermark_ms)

    def run(self, now: float) -> None:
        """Starts as many calls as may be under way."""
        if self._under_way and self._now:
            self.busy_s += now - self._now
        self._now = now
        self._run()

    def _run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._queue and len(self._under_way) < CALLS_MAX and self._may_start(self._queue[0]):
                self._start()
        finally:
            self._is_running = False

    def _may_start(self, call: _Call) -> bool:
        """Whether there is room for what comes of a call; what is before a cut has to be done, or nothing would ever be
        committed."""
        return call.rows is None or self._cuts > 0 or (self.rests_until is None and self.may_run())

    @property
    def rests_until(self) -> float | None:
        """The time until which rows wait for more, if they do."""
        if self._now >= self._rests_until or not self._queue or self._acts:
            return None
        return self._rests_until if self.queued < MERGED_ROWS_MAX else None

    def _start(self) -> None:
        call = self._queue.popleft()
        if call.rows is None or call.type is None:
            self._acts -= 1
            if call.has_answer:
                self._under_way.append(NEVER)
            call.start()
            return
        frames, lowest, count = [call.rows], call.lowest, call.rows.height
        while self._queue and self._queue[0].type == call.type and count < MERGED_ROWS_MAX:
            other = self._queue.popleft()
            assert other.rows is not None
            frames.append(other.rows)
            lowest, count = min(lowest, other.lowest), count + other.rows.height
        rows = together(frames) if len(frames) > 1 else frames[0]
        self.events += count
        self._under_way.append(lowest)
        self.runtime.process(call.type, rows, self._processed(call.type))
        if self._rests and bool(self._under_way) == (count < REST_ROWS):
            self._rests_until = self._now + (PROGRAM_REST_S if self._under_way else REST_S)

    def lose(self, nodes: Ints) -> None:
        """Drops the state and the waiting rows of nodes that are elsewhere now."""
        stays = ~mask_of(nodes)
        for place, call in enumerate(self._queue):
            if call.rows is not None:
                self._queue[place] = call._replace(rows=where(call.rows, stays[call.rows[NODE].to_numpy()]))
        self.next_seq[nodes], self.sealed[nodes] = 0, False
        self.left_over[nodes] += 1
        self.then(lambda: self._drop(nodes))

    def _drop(self, nodes: Ints) -> None:
        self.runtime.drop(nodes.tolist())
        self._drops.append((self._ended + len(self._under_way), nodes))
        self._forget_drops()

    def _forget_drops(self) -> None:
        while self._drops and self._drops[0][0] <= self._ended:
            self.left_over[self._drops.popleft()[1]] -= 1

    # Answers.

    def _processed(self, type_: str) -> Callable[[list[Emitted]], None]:
        def done(emitted: list[Emitted]) -> None:
            self._on_emitted(self, emitted, type_)
            self._has_ended()
            self._run()

        return done

    def _advanced(self, watermark_ms: int) -> Callable[[list[Emitted]], None]:
        def done(emitted: list[Emitted]) -> None:
            self._on_emitted(self, emitted, "")
            self.applied = watermark_ms
            self._has_ended()
            self._run()

        return done

    def _answered(self, done: Callable[[Tables], None]) -> Callable[[Tables], None]:
        def answered(tables: Tables) -> None:
            self._has_ended()
            done(tables)
            self._run()

        return answered

    def _has_ended(self) -> None:
        """The first of the calls under way has its answer."""
        self._under_way.popleft()
        self._ended += 1
        self._forget_drops()

    # Views.

    @property
    def lowest(self) -> int:
        """The lowest time of rows that wait or are under way."""
        waiting = min((call.lowest for call in self._queue), default=NEVER)
        return min(waiting, min(self._under_way, default=NEVER))

    @property
    def queued(self) -> int:
        """The rows that wait."""
        return sum(call.rows.height for call in self._queue if call.rows is not None)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or is under way."""
        return not self._queue and not self._under_way


def _nothing() -> None:
    pass
