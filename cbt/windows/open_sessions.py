"""Sessions that are open at a root: they grow until no later event can belong to them."""

from typing import NamedTuple

import polars as pl

from cbt.layout.layout import own_strings
from cbt.windows.sessions import END, SessionLayout

_ORIGIN = "session origin"  # the pane of the first event since a gap: later cuts are counted from there


class ClosedSessions(NamedTuple):
    """Sessions that are over, ordered by (hash, keys, start), and how many of them were cut and go on in another."""

    frame: pl.DataFrame
    cut: int


class OpenSessions:
    """Adds the pieces of one pane after the other and returns the sessions that are over.

    An uninterrupted run of events is cut where `max_ms`, or a multiple of it, has passed since the start of its first
    event's pane. Sessions are therefore never longer, and cuts depend on the events alone. Holds one row for each key
    with an event no more than a gap ago.

    >>> from cbt.algebra.columns import Aggregate, Key
    >>> layout = SessionLayout([Key("user", "string")], [Aggregate("hits", "count", None, "any")],
    ...                        gap_ms=10, max_ms=300, pane_ms=100)
    >>> sessions = OpenSessions(layout)
    >>> for times in ([60, 95], [101, 195]):
    ...     pieces = layout.lift(pl.DataFrame({"time": times, "user": ["ada"] * len(times)}))
    ...     closed = sessions.add(pieces, complete_ms=times[-1] // 100 * 100 + 100)
    ...     print(layout.lower(closed.frame).rows())
    [(60, 60, 'ada', 1)]
    [(95, 101, 'ada', 2)]
    >>> layout.lower(sessions.end().frame).rows()
    [(195, 195, 'ada', 1)]
    """

    def __init__(self, layout: SessionLayout) -> None:
        self._layout = layout
        self._open = layout.empty().with_columns(pl.lit(None, dtype=pl.Int64).alias(_ORIGIN))
        self._complete: int | None = None

    def add(self, pieces: pl.DataFrame, complete_ms: int) -> ClosedSessions:
        """Adds pieces; with them all events before `complete_ms` are known. Returns the sessions that ended more than a
        gap before.

        Late pieces join sessions that are open, and those of sessions that were closed make sessions of their own.
        O(n log n) for n open sessions and pieces. Raises ValueError if `complete_ms` goes back.
        """
        if self._complete is not None and complete_ms < self._complete:
            raise ValueError(f"events are complete up to {self._complete}, which cannot go back to {complete_ms}")
        self._complete = complete_ms
        sessions = self._grown(pieces)
        goes_on = ~self._layout.gaps(sessions)  # the session of the row before continues
        cut = goes_on.shift(-1, fill_value=False)
        closed = cut | (sessions[END] + self._layout.gap_ms < complete_ms)
        self._open = own_strings(sessions.filter(~closed))
        return ClosedSessions(own_strings(sessions.filter(closed).drop(_ORIGIN)), int(cut.sum()))

    def end(self) -> ClosedSessions:
        """The sessions that are still open, at the end of bounded input."""
        last, self._open = self._open.drop(_ORIGIN), self._open.clear()
        return ClosedSessions(last, 0)

    def __len__(self) -> int:
        """The number of rows held. O(1)."""
        return self._open.height

    @property
    def memory_bytes(self) -> int:
        """Bytes of the columns held."""
        return int(self._open.estimated_size())

    def _grown(self, pieces: pl.DataFrame) -> pl.DataFrame:
        """Open sessions and pieces, merged: one row for each session, and for each part of one that was cut."""
        layout = self._layout
        rows = layout.by_key(pl.concat([self._open, pieces.with_columns(pl.lit(None, dtype=pl.Int64).alias(_ORIGIN))]))
        run = layout.gaps(rows)
        origin = pl.when(run).then(pl.coalesce(_ORIGIN, "pane")).forward_fill().alias(_ORIGIN)
        rows = rows.with_columns(origin)
        part = rows.select((pl.col("pane") - pl.col(_ORIGIN)) // layout.max_ms).to_series()
        starts = run | (part != part.shift()).fill_null(True)
        return layout.merge_runs(rows, starts, _ORIGIN)
