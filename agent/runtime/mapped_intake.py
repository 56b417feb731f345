"""The intake of a job whose code maps events: they go to its program first, and what it makes of them is counted.

Programs take their time, so everything that feeds say waits in line behind the events before it: time does not run
ahead of what is still being mapped. A program that does not keep up loses events; they are counted, and the panes that
lack them say that they are partial.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from agent.parsing import TIME, Parsed, parsed_rows
from agent.runtime.feeds_wanted import Feed, FeedKey
from agent.runtime.function import JobFunction
from agent.runtime.intake import Intake, believed, columns_of
from agent.runtime.messages import Submit
from agent.runtime.panes import FIRST_PANE
from agent.runtime.spill_room import SpillRoom
from agent.runtime.versions import Versions
from agent.runtime.watermark import FUTURE_MS
from agent.runtime.worker import Worker

WAITING_ROWS_MAX = 200_000
"""Events that wait to be mapped; further ones are dropped until there are fewer."""
BATCH_ROWS_MAX = 10_000
"""Events in one call of the program."""

Send = Callable[[bytes, int, list[int], dict[str, list[Any]]], bool]
"""Has the code of this digest map a batch: its number, times and columns. Whether there is such a program."""


@dataclass(slots=True)
class _Batch:
    """Events on their way through the programs. `made`: what each code has made of them; None: nothing yet."""

    number: int
    key: FeedKey
    times: list[int]
    watermark_ms: int | None
    wall_ms: int
    made: dict[bytes, Parsed | None]


class MappedIntake(Intake):
    """`reads` are the columns that the code wants of events; `send` gives it some."""

    def __init__(
        self,
        versions: Versions,
        job: Submit,
        feeds: Iterable[Feed],
        begins: int,
        wall_ms: int,
        room: SpillRoom | None,
        send: Send,
    ) -> None:
        self.unmapped = 0
        """Events that were dropped since the program did not keep up."""
        self._send = send
        self._line: deque[_Batch | Callable[[], None]] = deque()
        self._rows = 0
        self._numbers = 0
        self._lost_upto = FIRST_PANE
        super().__init__(versions, job, feeds, begins, wall_ms, room)

    def _want_columns(self, function: JobFunction) -> None:
        """The code decides what is read, not the query."""

    def _drop_columns(self) -> None:
        """The same."""

    # What the feeds bring.

    def insert(self, key: FeedKey, parsed: Parsed, wall_ms: int) -> None:
        """Has a parsed block mapped, in calls of bounded size."""
        self._later(lambda: self.worker.count_malformed(parsed.malformed))
        chunks = [chunk for frame in parsed.frames for chunk in frame.iter_slices(BATCH_ROWS_MAX)]
        for number, chunk in enumerate(chunks, 1):
            watermark_ms = parsed.watermark_ms if number == len(chunks) else None
            self._map(key, chunk, watermark_ms, wall_ms)
        if not chunks:
            self._later(lambda: self._saw(key, parsed.watermark_ms, None, wall_ms))

    def _map(self, key: FeedKey, chunk: pl.DataFrame, watermark_ms: int | None, wall_ms: int) -> None:
        times = chunk[TIME].to_list()
        fields = {column.name: column.field for column in self.feeds[key].columns}
        if any(name not in chunk.columns for name in fields):
            self._later(lambda: self._pass_over(key, max(times), watermark_ms, wall_ms))
            return
        if self._rows + len(times) > WAITING_ROWS_MAX:
            self.unmapped += len(times)
            self._lost_upto = max(self._lost_upto, *times)
            self._note_losses()
            return
        columns = {field: chunk[name].to_list() for name, field in fields.items()}
        self._numbers += 1
        made: dict[bytes, Parsed | None] = {}
        for code in dict.fromkeys(worker.function.code for worker in self._all_workers()):
            if code is not None and self._send(code, self._numbers, times, columns):
                made[code] = None
        self._line.append(_Batch(self._numbers, key, times, watermark_ms, wall_ms, made))
        self._rows += len(times)
        self._go_through()

    def _pass_over(self, key: FeedKey, newest: int, watermark_ms: int | None, wall_ms: int) -> None:
        """Events that were read while the columns that the code wants were on their way: it begins after them."""
        for worker in self._workers:
            worker.begin_at(worker.next_pane(min(newest, wall_ms + FUTURE_MS)))
        self._saw(key, watermark_ms, min(newest, wall_ms + FUTURE_MS), wall_ms)

    def mapped(self, code: bytes, number: int, origins: list[int], columns: dict[str, list[Any]]) -> str | None:
        """A program has answered; what is wrong with that, if anything."""
        batch = next((one for one in self._line if isinstance(one, _Batch) and one.number == number), None)
        if batch is None or batch.made.get(code, columns) is not None:
            return "answered for events that it was not asked about"
        if any(len(values) != len(origins) for values in columns.values()) or max(origins, default=-1) >= len(
            batch.times
        ):
            return "answered with rows of events that it was not asked about"
        function = next(worker.function for worker in self._all_workers() if worker.function.code == code)
        times = [batch.times[origin] for origin in origins]
        batch.made[code] = parsed_rows(times, columns_of(function), columns)
        self._go_through()
        return None

    def _go_through(self) -> None:
        """Takes everything at the head of the line that nobody has to be waited for."""
        while self._line:
            first = self._line[0]
            if isinstance(first, _Batch):
                if None in first.made.values():
                    return
                self._rows -= len(first.times)
                self._line.popleft()
                self._count(first)
            else:
                self._line.popleft()
                first()

    def _later(self, action: Callable[[], None]) -> None:
        self._line.append(action)
        self._go_through()

    def _count(self, batch: _Batch) -> None:
        newest: int | None = None
        for worker in self._all_workers():
            made = batch.made.get(worker.function.code or b"")
            for frame in made.frames if made is not None else ():
                events, last = believed(frame, batch.wall_ms + FUTURE_MS)
                if events.height:
                    worker.insert(events)
                newest = last if newest is None or (last is not None and last > newest) else newest
        latest = [time for time in batch.times if time <= batch.wall_ms + FUTURE_MS]
        newest = max([*latest, *([newest] if newest is not None else [])], default=None)
        self._saw(batch.key, batch.watermark_ms, newest, batch.wall_ms)
        if self._proposed is not None:
            self._proposed.unseen.discard(batch.key)

    def _all_workers(self) -> Iterator[Worker]:
        yield from self._workers
        if self._proposed is not None:
            yield self._proposed.worker

    def caught_up(self, key: FeedKey, wall_ms: int) -> None:
        self._later(lambda: Intake.caught_up(self, key, wall_ms))

    def end_of_feed(self, key: FeedKey) -> None:
        self._later(lambda: Intake.end_of_feed(self, key))

    # Sealing.

    def start_sealing(self) -> None:
        self._note_losses()
        super().start_sealing()

    def _note_losses(self) -> None:
        """While there is something to be sealed of which events were dropped, it is partial."""
        for worker in self._all_workers():
            worker.is_partial = bool(self._lacking) or worker.closed_ms < self._lost_upto
