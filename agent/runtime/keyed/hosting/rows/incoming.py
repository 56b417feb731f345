"""Streams of rows from emitters: their numbers, and how far their rows are safe."""

from __future__ import annotations

from collections import deque
from collections.abc import Container

import polars as pl

from agent.runtime.keyed.hosting.arrivals import Arrivals
from overlay import Peer

SESSIONS_MAX = 1 << 14
"""Streams that one agent takes at once; others are refused."""

LAZY_S, LAZY_BATCHES, LAZY_ROWS = 0.25, 3, 512
"""Time between news of a stream for which nothing waits, and the batches and rows that make some."""
REMIND_S = 0.5
"""Time after which an emitter whose rows have no room is told that they are not forgotten."""


class RowStream:
    """Batches of one type from one emitter, under one session.

    `waits`: for batches that are not safe yet, their number, the commit that makes them so, and when they came.
    `rests`: batches with rows whose nodes are not here, and the report of event time that tells of them: until the
    master has it, the emitter is not told that they have come, and tells of them itself. `is_asked`: the emitter asks
    how far they are.
    """

    def __init__(self, peer: Peer, place: int, session: int) -> None:
        self.peer, self.place, self.session = peer, place, session
        self.arrivals: Arrivals[pl.DataFrame] = Arrivals()
        self.rows = self.done = self.told_rows = 0
        self.is_over = self.is_asked = False
        self.told = (0, 0, 1.0)
        self.told_at = 0.0
        self.waits: deque[tuple[int, int, float]] = deque()
        self.rests: deque[tuple[int, int]] = deque()

    @property
    def next(self) -> int:
        """The number of the next batch."""
        return self.arrivals.next

    @property
    def received(self) -> int:
        """The batches that the emitter has to tell of no more."""
        return self.rests[0][0] if self.rests else self.next

    def reported(self, report: int) -> None:
        """Learns that the master has a report."""
        while self.rests and self.rests[0][1] <= report:
            self.rests.popleft()

    def skip(self, number: int, rows: int) -> int:
        """Gives up batches before one, before which there are so many rows; returns how many are lost."""
        lost = max(0, rows - self.rows)
        self.arrivals.skip(number)
        self.rows = rows
        return lost

    def took(self, rows: int, commit: int | None, now: float) -> None:
        """The next batch has come; it is safe once the commit is."""
        if commit is None and not self.waits:
            self.done = self.next + 1
        else:
            self.waits.append((self.next, commit or 0, now))
        self.arrivals.took()
        self.rows += rows

    def tell_at(self, share: float, *, is_awaited: bool) -> float:
        """The time at which its emitter is to be told what is new. `is_awaited`: event time waits for it."""
        is_much = self.received >= self.told[0] + LAZY_BATCHES or self.rows >= self.told_rows + LAZY_ROWS
        is_due = is_awaited or is_much or self.is_asked or self.told[2] != share
        return self.told_at if is_due else self.told_at + LAZY_S

    def waits_since(self, share: float, now: float) -> bool:
        """Whether its emitter has not been told anything for a while, or another share."""
        return self.told[2] != share or now >= self.told_at + REMIND_S

    def has_news(self, share: float) -> bool:
        """Whether its emitter asks, or does not know how far it is."""
        return self.is_asked or self.told != (self.received, self.done, share)

    def committed(self, commit: int) -> None:
        """Learns that all commits up to one are safe."""
        while self.waits and self.waits[0][1] <= commit:
            self.done = self.waits.popleft()[0] + 1


class Streams:
    """All streams that come here, and those to whom something is to be told."""

    def __init__(self) -> None:
        self._all: dict[tuple[Peer, int], RowStream] = {}
        self._stirred: dict[RowStream, None] = {}
        """Streams of which something may be untold, in this order."""
        self._share = 1.0
        self.refused = 0

    def of(self, peer: Peer, place: int, session: int) -> RowStream | None:
        """The stream of a batch; None where it is of one that is over, or there are too many."""
        found = self._all.get((peer, place))
        if found is not None and found.session > session:
            return None
        if found is None and len(self._all) >= SESSIONS_MAX:
            self.refused += 1
            return None
        if found is None or found.session < session:
            found = self._all[peer, place] = RowStream(peer, place, session)
        self._stirred[found] = None
        return found

    def committed(self, commit: int) -> None:
        """Learns that all commits up to one are safe."""
        for stream in self._all.values():
            if stream.waits:
                stream.committed(commit)
                self._stirred[stream] = None

    def reported(self, report: int) -> None:
        """Learns that the master has a report of event time."""
        for stream in self._all.values():
            if stream.rests:
                stream.reported(report)
                self._stirred[stream] = None

    def oldest(self, place: int) -> float | None:
        """The time when the oldest rows of a type came that are not safe."""
        return min((one.waits[0][2] for one in self._all.values() if one.place == place and one.waits), default=None)

    def of_type(self, place: int) -> list[RowStream]:
        """The streams of a type that are not over."""
        return [one for one in self._all.values() if one.place == place and not one.is_over]

    def untold(self, blocked: Container[int], share: float, now: float) -> list[RowStream]:
        """The streams whose emitters do not know how far they are. Those of a type that has no room here are told
        nothing new, so that no more comes, but now and then that they are not forgotten."""
        if share != self._share:
            self._share, self._stirred = share, dict.fromkeys(self._all.values())
        self._stirred = {one: None for one in self._stirred if self._is_open(one) and one.has_news(share)}
        return [one for one in self._stirred if one.is_asked or one.place not in blocked or one.waits_since(share, now)]

    def _is_open(self, stream: RowStream) -> bool:
        return not stream.is_over and self._all.get((stream.peer, stream.place)) is stream

    def interrupt(self) -> list[RowStream]:
        """Ends the streams that have rows which are not safe: nodes are gone, and what they took here is no more."""
        ended = [one for one in self._all.values() if one.waits and not one.is_over]
        for stream in ended:
            stream.is_over = True
        for stream in self._all.values():
            stream.waits.clear()
        return ended

    @property
    def peers(self) -> set[Peer]:
        """The emitters of all streams."""
        return {peer for peer, _ in self._all}

    def failed(self, peer: Peer) -> None:
        """Forgets the streams of a dead emitter."""
        for key in [key for key in self._all if key[0] == peer]:
            del self._all[key]
