"""JOIN: each event with its rows in a table, which is the latest result of another job, before WHERE sees it.

Both sides come as frames in which every column has one physical type. A table whose rows mix types is several frames,
its *parts*; an event meets each part with the kinds of values its own frame has. Values of different kinds are never
equal, and NULL is equal to nothing (docs/semantics.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from query.model.limits import TABLE_ROWS_MAX
from query.physical.values import NUMBERS, Value, column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from query.plan.plan import Plan, PlanJoin

FANOUT_MAX = 1_000
"""Upper bound on the rows that an event is joined with: the first of those with its values in the compared columns."""
PARTS_MAX = 64
_ROWS_AT_ONCE = 1 << 18
_DROPPED = "@dropped"


class TableError(Exception):
    """A result that cannot be joined; the message says why."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows whose columns have one physical type each, and the values their keys have."""

    rows: pl.DataFrame
    keys: tuple[Value, ...]


class JoinStage:
    """The JOIN of a plan; before it has a table, no event has a row."""

    def __init__(self, plan: Plan, join: PlanJoin) -> None:
        self._join = join
        self._types = {column.name: column.type for column in plan.event_columns}
        self._names = [column.name for column in join.columns]
        self._parts: list[_Part] = []
        self._fanout = 1
        # Names of helper columns, which no column of a plan has.
        mark = "@join"
        while any(name.startswith(mark) for name in self._types):
            mark += "'"
        self._row = f"{mark}.row"
        self._keys = [f"{mark}.{number}" for number in range(len(join.keys))]

    def hold(self, frames: Sequence[pl.DataFrame]) -> None:
        """Replaces the table: frames with the joined columns, and `@time` for the order of the rows.

        Raises TableError, and then keeps the previous table. O(n log n).
        """
        count = sum(frame.height for frame in frames)
        if count > TABLE_ROWS_MAX:
            raise TableError(f"it has {count:,} rows: JOIN takes at most {TABLE_ROWS_MAX:,}")
        if len(frames) > PARTS_MAX:
            raise TableError(f"its rows mix types of values in more than {PARTS_MAX} ways")
        parts = [self._part(frame) for frame in frames]
        self._parts, self._fanout = self._limited(parts)

    def apply(self, events: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """The events, once for each of their rows, with its columns; a bounded number of them at once.

        `@dropped`, if present, is the number of further rows that the event would have met. O(n · rows an event meets).
        """
        for part in events.iter_slices(max(1, _ROWS_AT_ONCE // self._fanout)):
            yield from (joined for joined in self._joined(part) if joined.height)

    def _joined(self, events: pl.DataFrame) -> Iterator[pl.DataFrame]:
        values = [self._value(events, ours) for ours, _ in self._join.keys]
        numbered = events.with_row_index(self._row)
        unmatched = pl.repeat(True, events.height, eager=True)
        for part in self._parts:
            compared = [_comparable(*pair) for pair in zip(values, part.keys, strict=True)]
            pairs = [pair for pair in compared if pair is not None]
            if len(pairs) < len(compared):
                continue
            ours = numbered.with_columns(own.alias(name) for name, (own, _) in zip(self._keys, pairs, strict=True))
            theirs = part.rows.with_columns(own.alias(name) for name, (_, own) in zip(self._keys, pairs, strict=True))
            joined = ours.join(theirs, on=self._keys, how="inner", maintain_order="left_right").drop(self._keys)
            unmatched = unmatched.scatter(joined[self._row].unique(), False)
            yield joined.drop(self._row)
        if self._join.outer:
            yield events.filter(unmatched).with_columns(pl.lit(None).alias(name) for name in self._names)

    def _value(self, frame: pl.DataFrame, name: str) -> Value:
        return column(name, frame.schema[name], self._types[name])

    def _part(self, frame: pl.DataFrame) -> _Part:
        return _Part(
            frame.select("@time", *self._names), tuple(self._value(frame, name) for _, name in self._join.keys)
        )

    def _limited(self, parts: list[_Part]) -> tuple[list[_Part], int]:
        """The parts with the rows that an event can meet, and the greatest number of these for one event."""
        keyed = [self._identified(part, number) for number, part in enumerate(parts)]
        if not keyed or (rows := pl.concat(keyed).drop_nulls(self._keys).sort("@time")).is_empty():
            return [], 1
        place, count = pl.int_range(pl.len()).over(self._keys), pl.len().over(self._keys).cast(pl.Int64)
        beyond = pl.when(place == 0).then((count - FANOUT_MAX).clip(0)).otherwise(0).cast(pl.UInt32)
        rows = rows.select("@time", "part", place.alias("place"), beyond.alias(_DROPPED))
        kept = rows.filter(pl.col("place") < FANOUT_MAX)
        chosen = []
        for number, part in enumerate(parts):
            mine = kept.filter(pl.col("part") == number).select("@time", _DROPPED)
            frame = part.rows.join(mine, on="@time", how="inner", maintain_order="left").drop("@time")
            if frame.height:
                is_whole = frame[_DROPPED].max() == 0
                chosen.append(_Part(frame.drop(_DROPPED) if is_whole else frame, part.keys))
        return chosen, kept.select(pl.col("place").max()).item() + 1

    def _identified(self, part: _Part, number: int) -> pl.DataFrame:
        """The rows' keys as texts, the same for values that are equal."""
        texts = (_identity(value).alias(name) for name, value in zip(self._keys, part.keys, strict=True))
        return part.rows.select("@time", pl.lit(number).alias("part"), *texts)


def _comparable(ours: Value, theirs: Value) -> tuple[pl.Expr, pl.Expr] | None:
    """Expressions of one dtype that are equal where the values are; None if none ever are."""
    if "null" in (ours.kind, theirs.kind):
        return None
    if ours.kind == theirs.kind and ours.kind != "double":
        return ours.expression, theirs.expression
    if {ours.kind, theirs.kind} <= NUMBERS:
        # Zero and minus zero are one value.
        return ours.as_double() + 0.0, theirs.as_double() + 0.0
    return None


def _identity(value: Value) -> pl.Expr:
    if value.kind == "null":
        return pl.lit(None, dtype=pl.String)
    if value.kind in NUMBERS:
        return pl.lit("n") + (value.as_double() + 0.0).cast(pl.String)
    return pl.lit(value.kind[0]) + value.expression.cast(pl.String)
