"""Tracks event time for one operator, which decides what may be sealed (DESIGN §4.8, §5.4).

The watermark of a live operator is the highest event time seen that is not ahead of the wall clock (`EventClock`).
Only while all its feeds are at their ends does it follow the wall clock as well: a backlog is not idle, and an idle
stream still closes its windows. It never runs backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import polars as pl

from agent.parsing import NO_WATERMARK_MS
from agent.runtime.ingest.feed import FeedKey
from agent.runtime.model.panes import END, FIRST_PANE

NO_ENDS: Mapping[FeedKey, int] = MappingProxyType({})


class Watermark:
    """The watermark of one operator, which reads all of `feeds`. A copy goes on by itself.

    `ends`: the last time (epoch ms) at which each feed was at its end. One that rests is not told of them.
    """

    def __init__(self, feeds: Iterable[FeedKey], ends: Mapping[FeedKey, int] = NO_ENDS) -> None:
        self._ends = ends
        self._rests_since: int | None = None
        """The end of its only feed that it was told of last, while it rests."""
        self._value: int | None = None
        self._at_end: dict[FeedKey, int | None] = dict.fromkeys(feeds)
        self._unopened = set(self._at_end)
        self._unfinished = set(self._at_end)

    @property
    def value(self) -> int | None:
        """Epoch ms; None before anything is known."""
        self._look_up()
        return None if self._unopened else self._value

    def rest(self, closed: int, pane_ms: int, grace_ms: int) -> int:
        """Looks up from now on when its only feed is at its end; returns the time before which that lets no pane after
        `closed` be sealed. FIRST_PANE: it has to be told."""
        if len(self._at_end) != 1 or self.value is None or closed in (FIRST_PANE, END):
            return FIRST_PANE
        (feed,) = self._at_end
        self._rests_since = self._ends.get(feed)
        return FIRST_PANE if self._rests_since is None else due_ms(closed, pane_ms, grace_ms)

    def wake(self) -> None:
        """Is told again of what its feeds come to."""
        self._look_up()
        self._rests_since = None

    def _look_up(self) -> None:
        if self._rests_since is not None:
            (feed,) = self._at_end
            ended = self._ends.get(feed, self._rests_since)
            if ended != self._rests_since:
                self._rests_since = self._at_end[feed] = ended
                self._advance(ended)

    @property
    def has_ended(self) -> bool:
        """Whether every feed has come to its end for good."""
        return not self._unfinished

    def copy(self, feeds: Iterable[FeedKey] | None = None) -> Watermark:
        """A watermark that goes on from here; with `feeds`, it waits for those that this one does not know to open."""
        self._look_up()
        copy = Watermark(self._at_end if feeds is None else feeds, self._ends)
        new = copy._at_end.keys() - self._at_end.keys()
        copy._value = self._value
        copy._at_end |= {feed: self._at_end[feed] for feed in copy._at_end if feed not in new}
        copy._unopened, copy._unfinished = self._unopened | new, self._unfinished | new
        return copy

    def drop(self, feed: FeedKey) -> None:
        """Waits no more for a feed that is not read any more."""
        self.wake()
        self._at_end.pop(feed, None)
        self._unopened.discard(feed)
        self._unfinished.discard(feed)

    def saw(self, feed: FeedKey, newest_ms: int | None) -> None:
        """Notes events of a feed; the newest is not later than `EventClock.limit_ms`."""
        self.wake()
        self._unopened.discard(feed)
        self._at_end[feed] = None
        if newest_ms is not None:
            self._advance(newest_ms)

    def caught_up(self, feed: FeedKey, wall_ms: int) -> None:
        """Notes that a feed is at its end for now."""
        self._unopened.discard(feed)
        self._at_end[feed] = wall_ms
        clocks = [at for at in self._at_end.values() if at is not None]
        if len(clocks) == len(self._at_end):
            self._advance(min(clocks))

    def ended(self, feed: FeedKey) -> None:
        """Notes that a bounded feed is over."""
        self._unopened.discard(feed)
        self._unfinished.discard(feed)

    def sealable_upto(self, pane_ms: int, grace_ms: int) -> int | None:
        """The last pane whose end lies `grace_ms` or more behind the watermark; None before every feed is open."""
        if self.value is None:
            return None
        return (self.value - grace_ms) // pane_ms * pane_ms - pane_ms

    def _advance(self, time_ms: int) -> None:
        if self._value is None or time_ms > self._value:
            self._value = min(time_ms, END)


def due_ms(closed: int, pane_ms: int, grace_ms: int) -> int:
    """The time (epoch ms) at which the pane after `closed`, and its grace, are over.

    >>> due_ms(10_000, 500, 40), due_ms(10_499, 500, 40)
    (11040, 11040)
    """
    return closed // pane_ms * pane_ms + 2 * pane_ms + grace_ms


def believed(events: pl.DataFrame, latest_ms: int | None) -> tuple[pl.DataFrame, int | None]:
    """The events that are not later than `latest_ms` (None: no limit), and the time of the newest."""
    newest = events["@time"].max()
    if latest_ms is not None and isinstance(newest, int) and newest > latest_ms:
        events = events.filter(events["@time"] <= latest_ms)
        newest = events["@time"].max()
    return events, newest if isinstance(newest, int) else None


def come_to(watermark_ms: int | None, newest: int | None, limit_ms: int) -> int | None:
    """The event time a feed has reached with a block whose newest event is `newest`; None: not known, or
    later than `limit_ms`.

    Some files of a feed may hold much older events than others: there the block's `watermark_ms` is that of all files.
    """
    if watermark_ms is None:
        return None if newest is None or newest > limit_ms else newest
    return None if watermark_ms == NO_WATERMARK_MS else min(watermark_ms, limit_ms)
