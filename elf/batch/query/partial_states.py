"""Partial states as Spark rows: cut by ranges of the keys' hashes, with the counts beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import polars as pl
import pyarrow as pa

import cbt
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.model.panes import Counted, Counts, add_counted

SCHEMA = pa.schema([("tree", pa.int32()), ("state", pa.binary()), ("counted", pa.binary())])
"""Range of hashes; then a part of a state or the counts, the other one NULL."""
DDL = "tree int, state binary, counted binary"
_FRAME_BYTES_MAX = 1 << 31
_FOLD_ROWS = 1 << 17
_PIECES_PER_BATCH = 64


@dataclass(slots=True)
class StateCombiner:
    """Combines states of disjoint rows and their counts as they come.

    Holds at most about twice the size of the combined state.
    """

    function: JobFunction
    counted: Counted = field(default_factory=dict)
    _held: list[pl.DataFrame] = field(default_factory=list)
    _rows: int = 0
    _rows_max: int = _FOLD_ROWS

    def add(self, state: pl.DataFrame) -> None:
        self._held.append(state)
        self._rows += state.height
        if self._rows > self._rows_max:
            self._held = [self.function.combine(self._held)]
            self._rows = self._held[0].height
            self._rows_max = 2 * self._rows + _FOLD_ROWS

    def count(self, counted: Counted) -> None:
        self.counted = add_counted([self.counted, counted])

    def state(self) -> pl.DataFrame:
        """The combined state. O(n log n)."""
        return self.function.combine(self._held)


def encoded(
    function: JobFunction, states: Iterable[pl.DataFrame], counted: Counted, trees: int
) -> Iterator[pa.RecordBatch]:
    """States in order of panes, and their counts, as rows."""
    placement = TreePlacement(trees)
    rows: list[tuple[int, bytes | None, bytes | None]] = [(0, None, _pack(counted))]
    for state in states:
        for tree, piece in enumerate(placement.cut(function, state)):
            if piece.height:
                rows.append((tree, cbt.encode_frame(piece), None))
        if len(rows) >= _PIECES_PER_BATCH:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


def decode(function: JobFunction, rows: pa.RecordBatch | pa.Table, parts: dict[int, StateCombiner]) -> None:
    """Adds rows to the combiner of their range of hashes."""
    for tree, state, counted in zip(*(rows.column(name).to_pylist() for name in SCHEMA.names), strict=True):
        part = parts.setdefault(tree, StateCombiner(function))
        if state is not None:
            part.add(cbt.decode_frame(state, function.state_schema, bytes_max=_FRAME_BYTES_MAX))
        if counted is not None:
            part.count(_unpack(counted))


def _batch(rows: list[tuple[int, bytes | None, bytes | None]]) -> pa.RecordBatch:
    columns = [pa.array(column, type_) for column, type_ in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _pack(counted: Counted) -> bytes:
    return msgspec.msgpack.encode([(pane, *counts) for pane, counts in counted.items()])


def _unpack(data: bytes) -> Counted:
    return {pane: Counts(*counts) for pane, *counts in msgspec.msgpack.decode(data, type=list[list[int]])}
