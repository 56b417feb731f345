"""The intake of a job whose code maps events: they go to its program first, and what it makes of them is counted.

Programs take their time, so everything that feeds say waits in line behind the events before it: time does not run
ahead of what is still being mapped. A program that does not keep up loses events; they are counted, and the panes that
lack them say that they are partial.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from agent.parsing import NO_WATERMARK_MS, TIME, Parsed, parsed_rows
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import Versions
from agent.runtime.ingest.feed import Feed, FeedKey
from agent.runtime.ingest.operator import Names, Operator, PaneConsumer
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.pipeline import Pipeline, columns_of
from agent.runtime.ingest.watermark import FUTURE_MS, believed, come_to
from agent.runtime.messages.jobs import Submit
from agent.runtime.model.panes import FIRST_PANE

WAITING_ROWS_MAX = 200_000
"""Events that wait to be mapped; further ones are dropped until there are fewer."""
BATCH_ROWS_MAX = 10_000
"""Events in one call of the program."""

Send = Callable[[bytes, int, list[int], dict[str, list[Any]]], bool]
"""Has the code of this digest map a batch: its number, times and columns. Whether there is such a program."""

_Made = tuple[list[int], dict[str, list[Any]]]


@dataclass(slots=True)
class _Batch:
    """Events on their way through the programs. `made`: what each code has made of them, rows with the places of the
    events that they come of; None: nothing yet. `newest`: the time of the newest event that is believed."""

    number: int
    key: FeedKey
    times: list[int]
    newest: int | None
    watermark_ms: int | None
    wall_ms: int
    made: dict[bytes, _Made | None]


class MappedPipeline(Pipeline):
    """`reads` are the columns that the code wants of events; `send` gives it some."""

    def __init__(
        self,
        versions: Versions,
        job: Submit,
        feeds: Iterable[Feed],
        begins: int,
        wall_ms: int,
        ingest: OperatorPool,
        send: Send,
    ) -> None:
        self.unmapped = 0
        """Events that were dropped since the program did not keep up."""
        self._send = send
        self._line: deque[_Batch | Callable[[Operator], None]] = deque()
        self._rows = 0
        self._numbers = 0
        self._lost_upto = FIRST_PANE
        super().__init__(versions, job, feeds, begins, wall_ms, ingest)

    def _want_columns(self, function: JobFunction) -> None:
        """The code decides what is read, not the query."""

    def _drop_columns(self) -> None:
        """The same."""

    def _names(self, function: JobFunction) -> Names:  # noqa: ARG002
        """What its operators get of feeds is made for them."""
        return dict.fromkeys(self.feeds, ())

    def _employ(self, function: JobFunction) -> PaneConsumer:
        worker = super()._employ(function)
        worker.operator.is_reading = False
        worker.operator.lost_upto = self._lost_upto
        return worker

    def _begin_to_read(self) -> None:
        self._ingest.attach(self, self.feeds)

    def _stop_reading(self) -> None:
        self._ingest.detach(self)
        super()._stop_reading()

    @property
    def prepared_after(self) -> int | None:
        """What waits in line and was not given to its code, it will lack."""
        after = super().prepared_after
        if after is None or self._proposed is None:
            return after
        code = self._proposed.function.code
        lacked = (one.newest for one in self._line if isinstance(one, _Batch) and code not in one.made)
        return max(after, after, *(newest for newest in lacked if newest is not None))

    # What the feeds bring.

    def insert(self, key: FeedKey, parsed: Parsed, wall_ms: int) -> None:
        """Has a parsed block mapped, in calls of bounded size."""
        watermark_ms = NO_WATERMARK_MS if any(frame.height for frame in parsed.frames) else parsed.watermark_ms
        self._later(lambda operator: operator.saw(key, parsed.malformed, come_to(watermark_ms, None, wall_ms)))
        chunks = [chunk for frame in parsed.frames for chunk in frame.iter_slices(BATCH_ROWS_MAX)]
        for number, chunk in enumerate(chunks, 1):
            watermark_ms = parsed.watermark_ms if number == len(chunks) else None
            self._map(key, chunk, watermark_ms, wall_ms)

    def _map(self, key: FeedKey, chunk: pl.DataFrame, watermark_ms: int | None, wall_ms: int) -> None:
        times = chunk[TIME].to_list()
        fields = {column.name: column.field for column in self.feeds[key].columns}
        if any(name not in chunk.columns for name in fields):
            newest = min(max(times), wall_ms + FUTURE_MS)
            self._later(lambda operator: _pass_over(operator, key, newest, come_to(watermark_ms, newest, wall_ms)))
            return
        if self._rows + len(times) > WAITING_ROWS_MAX:
            self.unmapped += len(times)
            self._lost_upto = max(self._lost_upto, *times)
            for operator in self._fed():
                operator.lost_upto = self._lost_upto
            return
        columns = {field: chunk[name].to_list() for name, field in fields.items()}
        self._numbers += 1
        made: dict[bytes, _Made | None] = {}
        for code in dict.fromkeys(function.code for function in self.functions()):
            if code is not None and self._send(code, self._numbers, times, columns):
                made[code] = None
        newest = max((time for time in times if time <= wall_ms + FUTURE_MS), default=None)
        self._line.append(_Batch(self._numbers, key, times, newest, watermark_ms, wall_ms, made))
        self._rows += len(times)
        self._go_through()

    def mapped(self, code: bytes, number: int, origins: list[int], columns: dict[str, list[Any]]) -> str | None:
        """A program has answered; what is wrong with that, if anything."""
        batch = next((one for one in self._line if isinstance(one, _Batch) and one.number == number), None)
        if batch is None or batch.made.get(code, columns) is not None:
            return "answered for events that it was not asked about"
        if any(len(values) != len(origins) for values in columns.values()) or max(origins, default=-1) >= len(
            batch.times
        ):
            return "answered with rows of events that it was not asked about"
        batch.made[code] = (origins, columns)
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
                for operator in self._fed():
                    first(operator)

    def _later(self, action: Callable[[Operator], None]) -> None:
        self._line.append(action)
        self._go_through()

    def _count(self, batch: _Batch) -> None:
        for operator in self._fed():
            made = batch.made.get(operator.function.code or b"")
            if made is not None:
                self._insert(operator, batch, made)
            elif batch.newest is not None:
                operator.lacks(batch.newest)
            if batch.newest is not None:
                operator.seen_ms = max(operator.seen_ms, batch.newest)
            operator.saw(batch.key, 0, come_to(batch.watermark_ms, batch.newest, batch.wall_ms))

    def _insert(self, operator: Operator, batch: _Batch, made: _Made) -> None:
        origins, values = made
        times = [batch.times[origin] for origin in origins]
        for frame in parsed_rows(times, columns_of(operator.function), values).frames:
            events, newest = believed(frame, batch.wall_ms + FUTURE_MS)
            if newest is not None:
                operator.insert(batch.key, events, frozenset(events.columns), newest)

    def _fed(self) -> list[Operator]:
        return [worker.operator for worker in self._employed()]

    def caught_up(self, key: FeedKey, wall_ms: int) -> None:
        """A feed is at its end for now."""
        self._later(lambda operator: operator.caught_up(key, wall_ms))

    def end_of_feed(self, key: FeedKey) -> None:
        """A bounded feed is over."""
        self._later(lambda operator: operator.end_of_feed(key))

    def lacks(self, key: FeedKey, some: bool) -> None:
        """Its operators know."""


def _pass_over(operator: Operator, key: FeedKey, newest: int, watermark_ms: int | None) -> None:
    """Events that were read while the columns that the code wants were on their way: it begins after them."""
    operator.lacks(newest)
    operator.saw(key, 0, watermark_ms)
