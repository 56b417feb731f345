"""Holds what hosts have committed, for the logical nodes that this agent stands by for."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
import polars as pl

from agent.runtime.keyed.elements.runtime import EVENT_TIME, SEQ, SOURCE, Compact
from agent.runtime.keyed.hosting.commits.records import Kind, RecordError, StateRecord, Table, nodes_in, tables_in
from agent.runtime.keyed.hosting.options import Bools, Ints
from agent.runtime.keyed.hosting.rows.positions import compact_positions
from agent.runtime.keyed.hosting.rows.selection import where
from agent.runtime.keyed.logical_nodes import NODES, mask_of

FRAMES_MAX = 16
"""Frames of one table that are held before they are put into one."""
UNREAD_MAX, UNREAD_BYTES_MAX = 64, 4 << 20
"""Records, and their bytes, that are held as they have come: a host waits for that, not until they are read."""
COMMIT = "@commit"
NONE = (0, 0)


class Copy:
    """The state of some nodes as of their last commit: its tables, and the watermark that had been applied."""

    def __init__(self, tables: list[Table], watermarks: list[int]) -> None:
        self.tables, self.watermarks = tables, watermarks


class StandbyStore:
    """All copies at one agent. `compact`: by the place of an element. What is in a usual record is read later, before
    anything else happens to the copies; where it is not sound, there is no copy any more. `refused`: such records."""

    def __init__(self, elements: int, compact: Mapping[int, Compact]) -> None:
        self._compact = compact
        self._epochs: Ints = np.zeros(NODES, np.int64)
        self._commits: Ints = np.zeros(NODES, np.int64)
        self._is_move: Bools = np.zeros(NODES, bool)
        self._watermarks: Ints = np.zeros((elements, NODES), np.int64)
        self._tables: dict[tuple[Kind, int, str], list[pl.DataFrame]] = {}
        self._unread: deque[tuple[StateRecord, Bools]] = deque()
        self._unread_bytes = self.refused = 0

    def version(self, node: int) -> tuple[int, int]:
        """The epoch and commit of the copy of a node; (0, 0) for none."""
        return (int(self._epochs[node]), int(self._commits[node])) if self._epochs[node] else NONE

    def is_move(self, node: int) -> bool:
        """Whether the copy was made to be hosted here: with all that is not guaranteed, too."""
        return bool(self._is_move[node])

    def lacks(self, record: StateRecord, accepted: Bools) -> bool:
        """Whether a record changes nodes of which there is nothing here."""
        changed = accepted & (self._epochs == 0)
        changed[record.whole] = False
        return bool(changed[record.nodes].any())

    def take(self, record: StateRecord, accepted: Bools) -> None:
        """Holds the part of a record that concerns accepted nodes."""
        nodes = record.nodes[accepted[record.nodes]]
        if not len(nodes):
            return
        is_usual = not (record.tables or len(record.whole) or record.is_move)
        if not is_usual:
            self.read()
            self._remove(record.whole[accepted[record.whole]])
        self._epochs[nodes] = record.epochs[accepted[record.nodes]]
        self._commits[nodes] = record.commit
        self._is_move[nodes] = record.is_move
        for element, watermark in enumerate(record.watermarks):
            self._watermarks[element, nodes] = watermark
        if not is_usual:
            self._put(record, nodes, accepted)
            return
        self._unread.append((record, accepted))
        self._unread_bytes += _bytes_of(record)
        if len(self._unread) > UNREAD_MAX or self._unread_bytes > UNREAD_BYTES_MAX:
            self.read(len(self._unread) // 2 + 1)

    def read(self, records_max: int | None = None) -> None:
        """Reads what has come first of that which is not read yet, or all of it."""
        for _ in range(min(len(self._unread), records_max or len(self._unread))):
            record, accepted = self._unread.popleft()
            self._unread_bytes -= _bytes_of(record)
            accepted &= self._epochs > 0
            nodes = record.nodes[accepted[record.nodes]]
            try:
                tables = tables_in(record.unread, len(self._watermarks))
            except RecordError:
                self.refused += 1
                self._forget(nodes)
            else:
                self._put(record._replace(tables=tables), nodes, accepted)

    def _put(self, record: StateRecord, nodes: Ints, accepted: Bools) -> None:
        self._prune(record, nodes)
        for table in record.tables:
            part = table if accepted.all() else table.of(accepted)
            if part.rows.height:
                self._add(part, record.commit)

    def _prune(self, record: StateRecord, nodes: Ints) -> None:
        """Drops events that are safe where they went, and events that are held no longer."""
        concerned = mask_of(nodes)
        for key, frames in self._tables.items():
            kind, element, name = key
            if kind == "emitted" and record.safe_commit:
                column, least = COMMIT, record.safe_commit + 1
            elif kind == "held":
                column, least = EVENT_TIME, record.watermarks[element]
            else:
                continue
            kept = []
            for frame in frames:
                own = concerned[nodes_in(Table(kind, element, name, frame))]
                if (rest := where(frame, ~own | (frame[column].to_numpy() >= least))).height:
                    kept.append(rest)
            self._tables[key] = kept

    def _add(self, table: Table, commit: int) -> None:
        rows = table.rows
        if table.kind == "emitted":
            rows = rows.hstack([pl.Series(COMMIT, np.full(rows.height, commit, np.int64))])
        frames = self._tables.setdefault((table.kind, table.element, table.name), [])
        frames.append(rows)
        if len(frames) < FRAMES_MAX:
            return
        if table.kind == "positions":
            frames[:] = [compact_positions(frames)]
        elif table.kind != "state":
            frames[:] = [pl.concat(frames)]
        elif (compact := self._compact.get(table.element)) is not None:
            frames[:] = [compact(table.name, frames)]

    def copy(self, nodes: Ints) -> Copy:
        """The copies of nodes, which are held on."""
        self.read()
        mask = mask_of(nodes)
        tables = []
        for (kind, element, name), frames in self._tables.items():
            for frame in frames:
                part = Table(kind, element, name, frame).of(mask)
                if kind == "emitted":
                    part = part._replace(rows=part.rows.drop(COMMIT).unique([SOURCE, SEQ], maintain_order=True))
                if part.rows.height:
                    tables.append(part)
        return Copy(tables, self._watermarks[:, nodes].min(axis=1).tolist())

    def drop(self, nodes: Ints) -> None:
        """Forgets the copies of nodes."""
        nodes = nodes[self._epochs[nodes] > 0]
        if len(nodes):
            self.read()
            self._forget(nodes)

    def _forget(self, nodes: Ints) -> None:
        self._remove(nodes)
        self._epochs[nodes] = self._commits[nodes] = 0
        self._is_move[nodes] = False

    def _remove(self, nodes: Ints) -> None:
        if not len(nodes) or not self._epochs[nodes].any():
            return
        mask = np.ones(NODES, bool)
        mask[nodes] = False
        for (kind, element, name), frames in self._tables.items():
            parts = [Table(kind, element, name, frame).of(mask).rows for frame in frames]
            frames[:] = [part for part in parts if part.height]

    @property
    def bytes(self) -> int:
        """The memory that copies take."""
        read = sum(int(frame.estimated_size()) for frames in self._tables.values() for frame in frames)
        return read + self._unread_bytes


def _bytes_of(record: StateRecord) -> int:
    return sum(len(part[-1]) for part in record.unread)
