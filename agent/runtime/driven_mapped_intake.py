"""The intake of a job that drives itself and maps events: what its code makes of them is gathered until it flushes.

Calls of a program keep their order, so what it flushes holds all that it was given before. A program that does not
keep up loses events; the batch that lacks them says that it is partial.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from agent.parsing import TIME, Parsed, parsed_rows
from agent.runtime.driven_intake import WAITING_ROWS_MAX, DrivenIntake
from agent.runtime.feeds_wanted import Feed, FeedKey, WantedFeeds
from agent.runtime.held_paos import HeldPaos
from agent.runtime.intake import columns_of
from agent.runtime.mapped_intake import BATCH_ROWS_MAX, Send
from agent.runtime.operators import Operators
from agent.runtime.versions import Versions
from agent.runtime.watermark import FUTURE_MS, believed
from overlay import Id


class DrivenMappedIntake(DrivenIntake):
    """`send` has the code of a digest map some events."""

    def __init__(
        self,
        app_id: Id,
        versions: Versions,
        feeds: Iterable[Feed],
        begins: int,
        wall_ms: int,
        operators: Operators,
        wanted: WantedFeeds,
        held: HeldPaos,
        send: Send,
    ) -> None:
        self.unmapped = 0
        """Events that were dropped since the program did not keep up."""
        self._send_events = send
        self._asked: dict[int, tuple[bytes | None, list[int]]] = {}
        self._numbers = 0
        super().__init__(app_id, versions, feeds, begins, wall_ms, operators, wanted, held)

    def _take(self, key: FeedKey, parsed: Parsed, wall_ms: int) -> None:
        """Has a parsed block mapped, in calls of bounded size."""
        self._malformed += parsed.malformed
        fields = {column.name: column.field for column in self.feeds[key].columns}
        for frame in parsed.frames:
            events, _ = believed(frame, wall_ms + FUTURE_MS)
            if all(name in events.columns for name in fields):
                for chunk in events.iter_slices(BATCH_ROWS_MAX):
                    self._map(chunk, fields)

    def _map(self, chunk: pl.DataFrame, fields: dict[str, str]) -> None:
        times = chunk[TIME].to_list()
        code = self._function.code
        if code is None or sum(len(asked) for _, asked in self._asked.values()) + len(times) > WAITING_ROWS_MAX:
            self.unmapped += len(times)
            self._lacks_some = True
            return
        self._numbers += 1
        columns = {field: chunk[name].to_list() for name, field in fields.items()}
        if self._send_events(code, self._numbers, times, columns):
            self._asked[self._numbers] = (code, times)

    def mapped(self, code: bytes, number: int, origins: list[int], columns: dict[str, list[object]]) -> str | None:
        """A program has answered; what is wrong with that, if anything."""
        asked, times = self._asked.pop(number, (None, []))
        if asked != code:
            return "answered for events that it was not asked about"
        if any(len(values) != len(origins) for values in columns.values()) or max(origins, default=-1) >= len(times):
            return "answered with rows of events that it was not asked about"
        if code != self._function.code:
            return None
        rows = parsed_rows([times[origin] for origin in origins], columns_of(self._function), columns)
        self._count(len(times), sum(self._store_matching(self._function.in_range(frame)) for frame in rows.frames))
        return None
