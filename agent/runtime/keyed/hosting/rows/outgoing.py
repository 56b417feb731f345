"""One stream of rows of a type from an emitter to a host: batches with numbers, and those that are under way."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import polars as pl

NEVER = 2**62
"""A time after all others."""
ROW_BYTES = 1 << 10
"""Size that a row is taken to have before the first batch of a session."""
LONGEST_S = 10.0
"""Longest time between two questions to an agent that does not answer."""


class Piece(NamedTuple):
    """Rows with the lowest of their times."""

    rows: pl.DataFrame
    lowest: int


class SentBatch(NamedTuple):
    """A batch that is under way, behind so many rows. Its rows are kept where they may have to be sent again."""

    number: int
    rows_before: int
    row_count: int
    size: int
    lowest: int
    rows: pl.DataFrame | None


def probe_pause_s(first_s: float, unanswered: int) -> float:
    """The time until an agent is asked how far it is: twice as long after each question without an answer, as it may
    just be slow."""
    return min(LONGEST_S, first_s * (1 << min(unanswered, 10)))


class RowSession:
    """Batches of one type for one host, under one number. `keeps`: rows stay here until they are safe."""

    def __init__(self, host: int, place: int, number: int, *, keeps: bool) -> None:
        self.host, self.place, self.number, self.keeps = host, place, number, keeps
        self.sent: deque[SentBatch] = deque()
        self.progress_at = 0.0
        self.since: float | None = None
        self.buffered = self.under_way = self.bytes = 0
        self.row_bytes = ROW_BYTES
        """Size of a row of the last batch, about."""
        self.unanswered = 0
        self._buffer: list[Piece] = []
        self._next = self._rows = self.received = 0

    def add(self, piece: Piece, now: float) -> None:
        """Puts rows behind those that wait."""
        self._buffer.append(piece)
        self.buffered += piece.rows.height
        if self.since is None:
            self.since = now

    def cut(self, rows_max: int, now: float) -> tuple[int, int, pl.DataFrame | None]:
        """The next batch, which is under way now: its number, the rows before it, and its rows, None for no rows."""
        taken, count = self._take(rows_max)
        rows = pl.concat([piece.rows for piece in taken]) if taken else None
        self.buffered -= count
        self.since = now if self._buffer else None
        number, before = self._next, self._rows
        if not self.sent:
            self.progress_at = now
            self.unanswered = 0
        size = 0 if rows is None else int(rows.estimated_size())
        self.row_bytes = max(1, size // count) if count else self.row_bytes
        lowest = min((piece.lowest for piece in taken), default=NEVER)
        self.sent.append(SentBatch(number, before, count, size, lowest, rows if self.keeps else None))
        self._next, self._rows = self._next + 1, self._rows + count
        self.under_way, self.bytes = self.under_way + count, self.bytes + size
        return number, before, rows

    def _take(self, rows_max: int) -> tuple[list[Piece], int]:
        taken: list[Piece] = []
        count = place = 0
        while place < len(self._buffer) and count < rows_max:
            rows, lowest = self._buffer[place]
            fits = min(rows.height, rows_max - count)
            taken.append(Piece(rows.head(fits), lowest))
            count += fits
            if fits < rows.height:
                self._buffer[place] = Piece(rows.tail(rows.height - fits), lowest)
            else:
                place += 1
        del self._buffer[:place]
        return taken, count

    def credit(self, upto: int, now: float) -> None:
        """Forgets the batches before a number."""
        while self.sent and self.sent[0].number < upto:
            one = self.sent.popleft()
            self.under_way, self.bytes = self.under_way - one.row_count, self.bytes - one.size
            self.progress_at = now

    @property
    def unreceived(self) -> int:
        """The batches that have not come, as far as is known."""
        return self._next - self.received

    @property
    def sent_so_far(self) -> tuple[int, int]:
        """The batches and rows that have been sent."""
        return self._next, self._rows

    def take_buffer(self) -> list[pl.DataFrame]:
        """Empties the rows that wait."""
        frames, self._buffer, self.buffered, self.since = [piece.rows for piece in self._buffer], [], 0, None
        return frames

    def kept(self) -> list[pl.DataFrame]:
        """The rows under way that are kept, in order."""
        return [one.rows for one in self.sent if one.rows is not None]

    def frames(self) -> list[pl.DataFrame]:
        """The rows that are kept and those that wait, in order."""
        return [*self.kept(), *(piece.rows for piece in self._buffer)]

    @property
    def lowest(self) -> int:
        """The lowest time of a row that waits or is under way."""
        under_way = min((one.lowest for one in self.sent), default=NEVER)
        return min(under_way, min((piece.lowest for piece in self._buffer), default=NEVER))
