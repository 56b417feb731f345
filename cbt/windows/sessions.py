"""Session windows: runs of a key's events in which none is more than a gap after the one before.

A key's activity is a set of intervals, a mergeable state like any other: the union of two sets, with intervals joined
that are no more than the gap apart. Each interval is a row, with the aggregated states of its events. An interval may
become too long, however, and an aggregate cannot be cut in two. Rows are therefore *pieces* of sessions, which never
cross from one pane into the next. The pieces depend on the events alone, not on which agent has which events or the
order of merges; pieces become sessions, and sessions are cut, only where all agents' pieces are together
(`cbt.windows.open_sessions`).
"""

from collections.abc import Iterable, Sequence

import polars as pl

from cbt.aggregates.user_defined import UserFunctions
from cbt.algebra.columns import Aggregate, Key, changed
from cbt.algebra.items import ItemPao
from cbt.layout.layout import Layout, own_strings
from cbt.windows.panes import pane_of

START, END = "session.start", "session.end"
SESSION_TIMES = (Aggregate(START, "min", "time", "integer"), Aggregate(END, "max", "time", "integer"))
"""The first and the last event of a group, as aggregates."""


class SessionLayout:
    """The columns of a frame of sessions or pieces: those of a PAO frame, and behind the keys `session.start` and
    `session.end`, Int64, the times in ms of the first and the last event.

    Two events of a key are in one session if no more than `gap_ms` lie between them, or between each and the next of
    the events from one to the other. `max_ms` is the longest a session may be, a whole number of panes of `pane_ms`.
    Rows are ordered by (pane, hash, keys, start). Raises ValueError for a gap below 1 ms, another maximum, columns that
    share a name, or an aggregate that is a set or a sketch.

    >>> layout = SessionLayout([Key("user", "string")], [Aggregate("hits", "count", None, "any")],
    ...                        gap_ms=10, max_ms=300, pane_ms=100)
    >>> pieces = layout.lift(pl.DataFrame({"time": [5, 15, 26, 95, 101], "user": ["ada"] * 5}))
    >>> pieces.select("pane", "session.start", "session.end", "hits.n").rows()
    [(0, 5, 15, 2), (0, 26, 26, 1), (0, 95, 95, 1), (100, 101, 101, 1)]
    """

    def __init__(
        self,
        keys: Sequence[Key],
        aggregates: Sequence[Aggregate],
        *,
        gap_ms: int,
        max_ms: int,
        pane_ms: int,
        seed: int = 0,
        functions: UserFunctions | None = None,
    ) -> None:
        if gap_ms < 1 or pane_ms < 1 or max_ms < 1 or max_ms % pane_ms:
            raise ValueError(
                "sessions need a gap of 1 ms or more and a maximum length of whole panes, not a gap of "
                f"{gap_ms} ms and {max_ms} ms in panes of {pane_ms} ms"
            )
        self.gap_ms, self.max_ms, self.pane_ms = gap_ms, max_ms, pane_ms
        self._layout = Layout(keys, aggregates, seed, functions)
        if self._layout.has_items:
            names = [pao.name for pao in self._layout.paos if isinstance(pao, ItemPao)]
            raise ValueError(f"sessions cannot have aggregates that are sets or sketches: {', '.join(names)}")
        self._timed = Layout(keys, [*aggregates, *SESSION_TIMES], seed, functions)
        self._keys = [key.name for key in keys]
        identity = ["pane", "hash", *self._keys]
        columns = list(self._layout.schema.items())
        if {START, END} & set(self._layout.schema):
            raise ValueError(f"columns of sessions are named {START} and {END}, so no other may be")
        times = [(START, pl.Int64()), (END, pl.Int64())]
        self.schema = pl.Schema([*columns[: len(identity)], *times, *columns[len(identity) :]])

    def empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schema)

    def lift(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The pieces of a block of raw rows: `time`, Int64 ms without NULL, and key and argument columns.

        O(n log n) for n rows. Raises ValueError if a column is missing or has no physical form of its type.
        """
        if frame.schema.get("time") != pl.Int64 or frame["time"].null_count():
            raise ValueError("sessions need an Int64 column 'time' without NULL")
        # Events of one interval of a gap's length are in one piece: grouped by it, few rows are left to be ordered.
        pane, time = pane_of(pl.col("time"), self.pane_ms), pl.col("time")
        in_gaps = frame.with_columns(pane=pane + pane_of(time - pane, self.gap_ms))
        self._timed.check_input(in_gaps)
        parts = self._timed.group(in_gaps).rename(
            {f"{aggregate.name}.i": aggregate.name for aggregate in SESSION_TIMES}
        )
        return self.combine([parts.with_columns(pane_of(pl.col("pane"), self.pane_ms)).select(self.schema.names())])

    def combine(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
        """Merges frames of pieces, in any order and each in any order, into one. O(n log n) for n rows in all."""
        rows = self.by_key(pl.concat([self.empty(), *frames], rechunk=True))
        starts = self.gaps(rows) | rows.select(changed(["pane"])).to_series()
        return own_strings(self.merge_runs(rows, starts).sort("pane", maintain_order=True))

    def is_sound(self, frame: pl.DataFrame) -> bool:
        """Whether every row of a PAO frame, as of `pieces`, begins and ends in its pane, in this order. O(n)."""
        rows = self.pieces(frame)
        start, end, pane = pl.col(START), pl.col(END), pl.col("pane")
        in_pane = (pane <= start) & (start <= end) & (end - pane < self.pane_ms)
        return bool(rows.select(in_pane.fill_null(False).all()).item())

    def pieces(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The pieces in a PAO frame whose layout has the same aggregates and then `SESSION_TIMES`. O(n).

        The frame has one row for each pane and key, so panes must not be longer than the gap.
        """
        return frame.rename({f"{one.name}.i": one.name for one in SESSION_TIMES}).select(self.schema.names())

    def by_key(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows ordered by hash, keys and start, NULL last. O(n log n)."""
        # As one number of 128 bits, which any two fit, Polars sorts them faster than the two columns.
        bounds = (pl.col("hash").cast(pl.Int128) - _i128(2**63)) * _i128(2**64) + pl.col(START).cast(pl.Int128)
        by_hash = rows[rows.select(bounds).to_series().arg_sort()]
        changes = by_hash.select(hash=changed(["hash"]), key=changed(self._keys))
        if (changes["key"] & ~changes["hash"]).any():
            return rows.sort("hash", *self._keys, START, nulls_last=True)
        return by_hash

    def gaps(self, rows: pl.DataFrame) -> pl.Series:
        """Marks the rows, in the order of `by_key`, that begin another key, or the same key after a gap. O(n)."""
        key = rows.select(changed(["hash", *self._keys])).to_series()
        # As one number, which any time of a later key exceeds, a running maximum over all rows is one for each key.
        group = key.cum_sum().cast(pl.Int128).alias("group")
        times = pl.DataFrame([group, rows[START], rows[END]])
        latest = (pl.col("group") * _i128(2**64) + pl.col(END)).cum_max().shift()
        after_gap = pl.col("group") * _i128(2**64) + pl.col(START) > latest + _i128(self.gap_ms)
        return key | times.select(after_gap.fill_null(True)).to_series()

    def merge_runs(self, rows: pl.DataFrame, starts: pl.Series, *others: str) -> pl.DataFrame:
        """Merges each run of rows into one row, which has the first row's identity and other columns. O(n)."""
        if starts.all():
            return rows
        firsts = pl.col("pane", "hash", *self._keys, START, *others).first()
        runs = rows.with_columns(starts.cum_sum().alias("session run")).group_by("session run", maintain_order=True)
        return self._layout.states.merge_groups(runs, firsts, pl.col(END).max()).select(rows.columns)

    def lower(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The results of a frame of sessions: `session.start`, `session.end`, the keys, a column for each aggregate."""
        return frame.select(START, END).hstack(self._layout.lower(frame).drop("pane"))


def _i128(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int128)
