"""Cuts records into messages that links take, and puts them together where they arrive."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from agent.runtime.keyed.hosting.commits.records import (
    StateRecord,
    Table,
    head_of,
    joined,
    message_of,
    nodes_in,
    record_of,
    tables_of,
)
from agent.runtime.keyed.logical_nodes import NODES, mask_of
from agent.runtime.messages.elements import CommitRecord
from overlay import Id

PIECE_BYTES = 4 << 20
"""Approximate size of the rows of one message, before they are compressed; one row may be more."""


def by_nodes(record: StateRecord) -> list[StateRecord]:
    """A record as several, with about as much of each as goes in one message, one node at least: nodes whose state has
    come go on while others are under way."""
    if sum(table.rows.estimated_size() for table in record.tables) <= PIECE_BYTES:
        return [record]
    sizes = np.zeros(NODES)
    for table in record.tables:
        each = table.rows.estimated_size() / max(1, table.rows.height)
        sizes += each * np.bincount(nodes_in(table), minlength=NODES)
    ends = np.cumsum(sizes[record.nodes]) // PIECE_BYTES
    masks = map(mask_of, np.split(record.nodes, np.flatnonzero(np.diff(ends)) + 1))
    return [record.of(mask, tables_of(record.tables, mask)) for mask in masks]


def messages_of(app_id: Id, session: int, number: int, record: StateRecord) -> list[CommitRecord]:
    """A record as messages with numbers from `number` on; all but the last have more after them."""
    groups: list[list[Table]] = [[]]
    size = 0
    for piece in (piece for table in record.tables for piece in _pieces(table)):
        bytes_ = int(piece.rows.estimated_size())
        if groups[-1] and size + bytes_ > PIECE_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += bytes_
    messages = [message_of(app_id, session, number + n, record._replace(tables=one)) for n, one in enumerate(groups)]
    return [*(msgspec.structs.replace(one, has_more=True) for one in messages[:-1]), messages[-1]]


def _pieces(table: Table) -> Iterator[Table]:
    rows = table.rows
    if rows.height:
        each = max(1, int(rows.estimated_size()) // rows.height)
        yield from (table._replace(rows=piece) for piece in rows.iter_slices(max(1, PIECE_BYTES // each)))


def bytes_of(message: CommitRecord) -> int:
    """The size of the rows in a message."""
    return sum(len(part[-1]) for part in message.parts)


class Pieces:
    """The messages of the next record of a line that have come."""

    def __init__(self) -> None:
        self.bytes = 0
        self._messages: list[CommitRecord] = []
        self._record: tuple[int, StateRecord] | None = None

    def add(self, message: CommitRecord) -> None:
        """Keeps a message that has more after it."""
        self._messages.append(message)
        self.bytes += bytes_of(message)

    def record(self, last: CommitRecord, elements: int) -> StateRecord:
        """The record that ends with this message, which is read once; the tables of a usual one are not. Raises
        RecordError."""
        if not (self._messages or last.whole or last.is_move):
            return head_of(last, elements)._replace(unread=last.parts)
        if self._record is None or self._record[0] != last.number:
            parts = [part for one in (*self._messages, last) for part in one.parts]
            found = record_of(msgspec.structs.replace(last, parts=parts), elements)
            self._record = last.number, found._replace(tables=joined(found.tables)) if self._messages else found
        return self._record[1]

    def clear(self) -> None:
        """Begins with the next record."""
        self._messages, self.bytes, self._record = [], 0, None
