"""Holds what hosts have committed, for the logical nodes that this agent stands by for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

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
ROWS_MIN = 4096
"""Events of one table that are added before those that have gone are left out."""
UNREAD_MAX, UNREAD_BYTES_MAX = 64, 4 << 20
"""Records, and their bytes, that are held as they have come: a host waits for that, not until they are read."""
COMMIT = "@commit"
NEVER = np.iinfo(np.int64).min
"""Below all commits and times."""
ALL = np.iinfo(np.int64).max
"""Above all times: nothing has been given yet."""
NONE = (0, 0)


class Copy:
    """The state of some nodes as of their last commit: its tables, and the watermark that had been applied.
    `kept_from`: for each type and node, the time from which on all that the query has been given is there."""

    def __init__(self, tables: list[Table], watermarks: list[int], kept_from: Mapping[str, Ints]) -> None:
        self.tables, self.watermarks, self.kept_from = tables, watermarks, kept_from


class StandbyStore:
    """All copies at one agent. `types`: those of the job's events. `compact`: by the place of an element. What is in a
    usual record is read later, before anything else happens to the copies; where it is not sound, there is no copy any
    more. `refused`: such records."""

    def __init__(self, elements: int, types: Iterable[str], compact: Mapping[int, Compact]) -> None:
        self._compact = compact
        self._epochs: Ints = np.zeros(NODES, np.int64)
        self._commits: Ints = np.zeros(NODES, np.int64)
        self._is_move: Bools = np.zeros(NODES, bool)
        self._watermarks: Ints = np.zeros((elements, NODES), np.int64)
        self._tables: dict[tuple[Kind, int, str], list[pl.DataFrame]] = {}
        self._passing: dict[tuple[Kind, int, str], _Passing] = {}
        self._kept_from: dict[str, Ints] = {name: np.full(NODES, ALL) for name in types}
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
        for name, from_ms in record.kept_from.items():
            if name in self._kept_from:
                self._kept_from[name][nodes] = from_ms
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
        """Marks events as gone that are safe where they went, are held no longer, or are in windows that are out."""
        for (kind, element, name), passing in self._passing.items():
            if kind == "emitted" and not record.safe_commit:
                continue
            if kind == "given":
                least = record.kept_from.get(name, ALL)
            else:
                least = record.safe_commit + 1 if kind == "emitted" else record.watermarks[element]
            passing.least[nodes] = np.maximum(passing.least[nodes], least)

    def _add(self, table: Table, commit: int) -> None:
        key, rows = (table.kind, table.element, table.name), table.rows
        frames = self._tables.setdefault(key, [])
        if table.kind in ("emitted", "held", "given"):
            if table.kind == "emitted":
                rows = rows.hstack([pl.Series(COMMIT, np.full(rows.height, commit, np.int64))])
            if key not in self._passing:
                self._passing[key] = _Passing(table, frames, self._keep_given)
            self._passing[key].add(rows)
            return
        frames.append(rows)
        if len(frames) < FRAMES_MAX:
            return
        if table.kind == "positions":
            frames[:] = [compact_positions(frames)]
        elif (compact := self._compact.get(table.element)) is not None:
            frames[:] = [compact(table.name, frames)]

    def _keep_given(self, table: Table) -> None:
        """Keeps events that are safe where they went, but may still be asked for."""
        if table.kind == "emitted" and (kept_from := self._kept_from.get(table.name)) is not None:
            rows = where(table.rows, table.rows[EVENT_TIME].to_numpy() >= kept_from[nodes_in(table)])
            if rows.height:
                self._add(table._replace(kind="given", rows=rows.drop(COMMIT)), 0)

    def _sweep(self) -> None:
        for passing in sorted(self._passing.values(), key=lambda one: one.kind == "given"):
            passing.sweep()

    def copy(self, nodes: Ints) -> Copy:
        """The copies of nodes, which are held on."""
        self.read()
        self._sweep()
        mask = mask_of(nodes)
        tables = []
        for (kind, element, name), frames in self._tables.items():
            for frame in frames:
                part = Table(kind, element, name, frame).of(mask)
                if kind == "emitted":
                    part = part._replace(rows=part.rows.drop(COMMIT).unique([SOURCE, SEQ], maintain_order=True))
                if part.rows.height:
                    tables.append(part)
        kept_from = {name: np.where(one == ALL, NEVER, one) for name, one in self._kept_from.items()}
        return Copy(tables, self._watermarks[:, nodes].min(axis=1).tolist(), kept_from)

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
        for kept_from in self._kept_from.values():
            kept_from[nodes] = ALL

    def _remove(self, nodes: Ints) -> None:
        if not len(nodes) or not self._epochs[nodes].any():
            return
        mask = np.ones(NODES, bool)
        mask[nodes] = False
        self._sweep()
        for passing in self._passing.values():
            passing.least[nodes] = NEVER
        for (kind, element, name), frames in self._tables.items():
            parts = [Table(kind, element, name, frame).of(mask).rows for frame in frames]
            frames[:] = [part for part in parts if part.height]

    @property
    def bytes(self) -> int:
        """The memory that copies take."""
        read = sum(int(frame.estimated_size()) for frames in self._tables.values() for frame in frames)
        return read + self._unread_bytes


class _Passing:
    """Events of one table, which go soon: those of a node with a commit or time below its `least` have gone. They are
    left out when there are twice as many as the last time, so that each is copied a few times in all; `on_gone` gets
    them."""

    def __init__(self, table: Table, frames: list[pl.DataFrame], on_gone: Callable[[Table], None]) -> None:
        self._table, self._frames, self._on_gone = table, frames, on_gone
        self.kind = table.kind
        self._column = COMMIT if table.kind == "emitted" else EVENT_TIME
        self._added = self._kept = 0
        self.least: Ints = np.full(NODES, NEVER)

    def add(self, rows: pl.DataFrame) -> None:
        """Adds events, which have not gone, whatever those before them did."""
        if not self._stays(rows).all():
            self.sweep()
            self.least[:] = NEVER
        self._frames.append(rows)
        self._added += rows.height
        if len(self._frames) >= FRAMES_MAX:
            self._join()
        if self._added > max(self._kept, ROWS_MIN):
            self.sweep()

    def sweep(self) -> None:
        """Leaves out those that have gone. O(events)."""
        found = [(rows, self._stays(rows)) for rows in self._frames]
        self._frames[:] = [rest for rows, stays in found if (rest := where(rows, stays)).height]
        self._added, self._kept = 0, sum(rows.height for rows in self._frames)
        for rows, stays in found:
            if not stays.all():
                self._on_gone(self._table._replace(rows=where(rows, ~stays)))

    def _stays(self, rows: pl.DataFrame) -> Bools:
        return rows[self._column].to_numpy() >= self.least[nodes_in(self._table._replace(rows=rows))]

    def _join(self) -> None:
        """Puts the last frames into one, and with them each before that is not twice as large."""
        last = [self._frames.pop()]
        height = last[0].height
        while self._frames and (len(last) < FRAMES_MAX // 2 or self._frames[-1].height <= 2 * height):
            last.append(self._frames.pop())
            height += last[-1].height
        self._frames.append(pl.concat(last[::-1]))


def _bytes_of(record: StateRecord) -> int:
    return sum(len(part[-1]) for part in record.unread)
