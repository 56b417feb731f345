"""Records of commits: the part that one standby holds, and its bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

import cbt
from agent.runtime.keyed.elements.runtime import EVENT_TIME, NODE, SEQ, SOURCE
from agent.runtime.keyed.hosting.options import Bools, Ints
from agent.runtime.keyed.hosting.rows.selection import where
from agent.runtime.keyed.logical_nodes import NODES
from agent.runtime.messages.elements import EPOCH_MAX, CommitRecord, Part
from overlay import Id

FRAME_BYTES_MAX = 1 << 30
"""Upper bound on one frame of a record, once it is decompressed."""
_PLAIN = (pl.String(), pl.Int64(), pl.Int128(), pl.Float64(), pl.Boolean(), pl.UInt64(), pl.Int8())
_AS: Mapping[pl.DataType, pl.DataType] = {
    **{one: one for one in _PLAIN},
    **dict.fromkeys((pl.UInt8(), pl.UInt16(), pl.UInt32(), pl.Int16(), pl.Int32()), pl.Int64()),
    pl.Float32(): pl.Float64(),
    pl.Binary(): pl.String(),
}
"""The type in which columns of each type travel."""
_NAMED = {str(one): one for one in _AS}
Kind = Literal["state", "held", "emitted", "given", "positions"]
"""Kinds of tables; `given`: events that are safe where they went, and that the job's query has been given."""
OF_CHANNELS = ("emitted", "given")
"""Kinds of tables whose rows have their node in their channel."""


class Table(NamedTuple):
    """One frame of a record: its kind, the element, the name of the table or type, and the rows."""

    kind: Kind
    element: int
    name: str
    rows: pl.DataFrame

    def of(self, mask: Bools) -> Table:
        """The part of some nodes."""
        return self._replace(rows=where(self.rows, mask[nodes_in(self)]))


class StateRecord(NamedTuple):
    """The changes of a commit in `nodes`, of these epochs; those in `whole` are there with all they have.
    Tables may tell of other nodes, too, which do not count. `safe_commit`: events emitted in commits up to it are safe
    where they went, unless they are here again. `kept_from`: the times from which on such events are to be kept, by
    type. `unread`: tables as they have come."""

    commit: int
    nodes: Ints
    epochs: Ints
    whole: Ints
    watermarks: list[int]
    tables: list[Table]
    safe_commit: int = 0
    is_move: bool = False
    kept_from: Mapping[str, int] = {}
    unread: Sequence[Part] = ()

    def of(self, mask: Bools, tables: list[Table]) -> StateRecord:
        """The part of some nodes, with these tables."""
        chosen, whole = mask[self.nodes], self.whole[mask[self.whole]]
        return self._replace(nodes=self.nodes[chosen], epochs=self.epochs[chosen], whole=whole, tables=tables)


def tables_of(tables: Iterable[Table], mask: Bools) -> list[Table]:
    """The parts of tables that tell of some nodes."""
    return [part for table in tables if (part := table.of(mask)).rows.height]


class RecordError(Exception):
    """A record of a peer is not sound."""


def nodes_in(table: Table) -> Ints:
    """The node of each row: what was emitted has it in its channel."""
    if table.kind in OF_CHANNELS:
        return table.rows[SOURCE].to_numpy() & (NODES - 1)
    return table.rows[NODE].to_numpy().astype(np.int64)


def parts_of(tables: Iterable[Table]) -> list[Part]:
    """The tables of a record as they travel."""
    return [_part(table) for table in tables if table.rows.height]


def message_of(
    app_id: Id, session: int, number: int, record: StateRecord, parts: list[Part] | None = None
) -> CommitRecord:
    """A record as a message. `parts`: those of its tables, if they are known."""
    return CommitRecord(
        app_id,
        session,
        number,
        record.commit,
        record.nodes.astype("<u2").tobytes(),
        record.epochs.astype("<i8").tobytes(),
        record.whole.astype("<u2").tobytes(),
        record.watermarks,
        parts_of(record.tables) if parts is None else parts,
        record.safe_commit,
        record.is_move,
        kept_from=dict(record.kept_from),
    )


def record_of(message: CommitRecord, elements: int) -> StateRecord:
    """The record in a message that may hold anything. Raises RecordError."""
    return head_of(message, elements)._replace(tables=tables_in(message.parts, elements))


def tables_in(parts: Iterable[Part], elements: int) -> list[Table]:
    """The tables in parts that may hold anything. Raises RecordError."""
    return [_table(part, elements) for part in parts]


def head_of(message: CommitRecord, elements: int) -> StateRecord:
    """The record in a message that may hold anything, without its tables. Raises RecordError."""
    try:
        nodes = np.frombuffer(message.nodes, "<u2").astype(np.int64)
        epochs = np.frombuffer(message.epochs, "<i8").astype(np.int64)
        whole = np.frombuffer(message.whole, "<u2").astype(np.int64)
    except ValueError as error:
        raise RecordError(str(error)) from None
    if len(nodes) != len(epochs) or len(message.watermarks) != elements or not np.isin(whole, nodes).all():
        raise RecordError("nodes, epochs and watermarks do not fit")
    if len(nodes) and int(nodes.max()) >= NODES:
        raise RecordError("a logical node that is none")
    if len(epochs) and not 0 < int(epochs.min()) <= int(epochs.max()) <= EPOCH_MAX:
        raise RecordError("an epoch that is none")
    return StateRecord(
        message.commit, nodes, epochs, whole, list(message.watermarks), [], message.safe_commit, message.is_move,
        message.kept_from,
    )  # fmt: skip


def _part(table: Table) -> Part:
    rows = table.rows
    schema = rows.schema
    columns = [(name, str(dtype)) for name, dtype in schema.items()]
    for name, dtype in schema.items():
        if dtype not in _AS:
            raise TypeError(f"table {table.name}: a column of type {dtype} ({name}) cannot be kept with standbys")
    if any(_AS[dtype] != dtype for dtype in schema.values()):
        rows = pl.DataFrame([_travelling(column) for column in rows.get_columns()])
    return table.kind, table.element, table.name, columns, cbt.encode_frame(rows, cbt.FAST)


def _travelling(column: pl.Series) -> pl.Series:
    if column.dtype == pl.Binary():
        return column.bin.encode("hex")
    return column if _AS[column.dtype] == column.dtype else column.cast(_AS[column.dtype])


def _arrived(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    if dtype == pl.Binary():
        return column.str.decode("hex")
    return column if dtype == column.dtype else column.cast(dtype)


def _table(part: Part, elements: int) -> Table:
    kind, element, name, columns, data = part
    if element >= elements or len(dict(columns)) != len(columns) or any(dtype not in _NAMED for _, dtype in columns):
        raise RecordError(f"table {name!r} has columns of no known type")
    dtypes = {column: _NAMED[dtype] for column, dtype in columns}
    if (SOURCE if kind in OF_CHANNELS else NODE) not in dtypes:
        raise RecordError(f"table {name!r} does not say whose its rows are")
    try:
        rows = cbt.decode_frame(
            data, pl.Schema({column: _AS[dtype] for column, dtype in dtypes.items()}), bytes_max=FRAME_BYTES_MAX
        )
        if any(_AS[dtype] != dtype for dtype in dtypes.values()):
            rows = pl.DataFrame([_arrived(rows[column], dtype) for column, dtype in dtypes.items()])
        if any(rows[one].null_count() for one in (EVENT_TIME, NODE, SOURCE, SEQ) if one in dtypes):
            raise ValueError("NULL where there is none")
        table = Table(kind, element, name, rows)
        nodes = nodes_in(table)
    except (cbt.FrameError, pl.exceptions.PolarsError, ValueError, TypeError) as error:
        raise RecordError(f"table {name!r}: {error}") from None
    if kind == "given" and not {EVENT_TIME, SEQ} <= dtypes.keys():
        raise RecordError(f"table {name!r} does not say what its events are")
    if rows.height and (nodes.min() < 0 or nodes.max() >= NODES):
        raise RecordError(f"table {name!r} has rows of nodes that are none")
    return table


def merged(tables: Iterable[Table]) -> dict[tuple[Kind, int, str], list[pl.DataFrame]]:
    """The frames of each table, in order."""
    found: dict[tuple[Kind, int, str], list[pl.DataFrame]] = {}
    for table in tables:
        found.setdefault((table.kind, table.element, table.name), []).append(table.rows)
    return found


def joined(tables: Iterable[Table]) -> list[Table]:
    """Puts the rows of each table into one frame; frames of elements' states, of which changes follow on whole
    states, stay apart where their columns differ."""
    found = []
    for key, frames in merged(tables).items():
        filled = [frame for frame in frames if frame.height]
        if filled and all(frame.schema == filled[0].schema for frame in filled):
            found.append(Table(*key, pl.concat(filled) if len(filled) > 1 else filled[0]))
        else:
            found.extend(Table(*key, frame) for frame in filled)
    return found
