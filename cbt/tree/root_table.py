"""The root of the tree as a bounded hash table in the kernel: rows are aggregated as they come, and leave in the order
of their hashes.

It takes aggregates whose states are of fixed width and blocks of ordinary values. All else, and what stands in its way
there (a key longer than its memory, many keys made to share a place), takes the way of `RootBuffer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ctypes import CDLL, byref
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cbt.algebra.pao import Addition, Pao
from cbt.layout.layout import Layout
from cbt.layout.state_arrays import ArrayColumn, Arrays, ExtremeColumn, SumColumn
from cbt.native.arrow import FORMATS, arrays_of
from cbt.native.arrow import Arrays as Columns
from cbt.native.library import (
    OPERATIONS,
    STORED_BOOLEAN,
    STORED_INTEGER,
    STORED_JSON,
    STORED_TEXT,
    Column,
    KernelBlock,
    Root,
    Source,
    load,
)
from cbt.tree.batch import SECRETS, RowBatch
from cbt.tree.fragment import EVERY_PANE, Panes
from cbt.tree.key_store import EncodedColumn, EncodedKeys

_DONE, _FULL = 0, 1
_STORED = {
    "string": STORED_TEXT,
    "any": STORED_JSON,
    "number": STORED_JSON,
    "integer": STORED_INTEGER,
    "boolean": STORED_BOOLEAN,
}
"""The ways in which keys are stored, by the type of the key."""
_ENTRY_BYTES, _WORD_BYTES, _SLOT_BYTES = 32, 8, 8
_PROBES_MAX = 256
_PANES_MAX = 1024
_ENTRIES_MIN, _GROWTH = 2**3, 2
_ARENA_SHARE = 48  # bytes of long keys that there may be, for each entry
_ARENA_MIN = 2**7
_SCRATCH_BYTES = 2**18
_INLINE_KEY = 16
Places = npt.NDArray[np.uint64]


class RootTable:
    """Groups of rows by (pane, key). Its memory grows with them up to `entries_max` groups and `bytes_max` bytes."""

    def __init__(self, layout: Layout, library: CDLL, half: int, entries_max: int, bytes_max: int) -> None:
        self._layout, self._library, self._half = layout, library, half
        self._words: dict[str, int] = {}
        self._stride = _ENTRY_BYTES
        for name, column in layout.states.arrays.items():
            self._words[name] = (self._stride - _ENTRY_BYTES) // _WORD_BYTES
            self._stride += _WORD_BYTES * _words(column)
        self._words_count = (self._stride - _ENTRY_BYTES) // _WORD_BYTES
        self._is_bare = len(layout.keys) == 1 and _STORED[layout.keys[0].type] in (STORED_TEXT, STORED_JSON)
        self.entries_max, self._bytes_max = entries_max, bytes_max
        self.rows_of_group = 0.0
        """Rows of a group in the table that was drained last."""
        self.clear()

    @classmethod
    def of(cls, layout: Layout, half: int, entries_max: int, bytes_max: int) -> RootTable | None:
        """The table of a half of the hashes, 1 or 2, or of all: 0; None where there is no kernel, or it cannot hold the
        layout's states."""
        library = load().library
        if library is None or not layout.keys or layout.has_items or not _is_fixed(layout):
            return None
        table = cls(layout, library, half, entries_max, bytes_max)
        return table if table.groups_max(bytes_max) >= 1 else None

    def groups_max(self, bytes_max: int) -> int:
        """The number of groups that there is room for in so many bytes."""
        return 0 if bytes_max < 2**18 else bytes_max // (2 * (self._stride + 4 * _SLOT_BYTES + _ARENA_SHARE))

    def clear(self) -> None:
        """Forgets all groups, and frees the memory."""
        self._root = Root()
        self._memory: list[npt.NDArray[Any]] = []

    @property
    def groups(self) -> int:
        return int(self._root.used)

    @property
    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self._memory)

    # Rows come.

    def insert(self, frame: pl.DataFrame) -> Iterator[list[RowBatch] | pl.DataFrame]:
        """Takes the half's rows of a frame. Yields batches that made room, and at the end the rows from the first on
        that it cannot take, if there is one.
        """
        schema = dict(zip(frame.columns, frame.dtypes, strict=True))
        additions = self.additions(schema)
        if additions is None:
            yield frame
            return
        with arrays_of(frame[:, list(self._layout.input_columns)]) as arrays:
            scratch = np.empty(_SCRATCH_BYTES, np.uint8)
            block = self._block(schema, arrays, additions, scratch)
            if block is None:
                yield frame
                return
            while True:
                if not self._memory:
                    self._reserve(_ENTRIES_MIN)
                status = self._library.elf_root_insert(byref(self._root), byref(block))
                if status == _DONE:
                    break
                if status == _FULL and self._grow():
                    continue
                if status != _FULL or not self._root.used:
                    yield frame.slice(block.row)
                    break
                yield self.drain()
        if self._root.used >= self._entries_limit:
            yield self.drain()

    def additions(self, schema: Mapping[str, pl.DataType]) -> list[tuple[str | None, Addition]] | None:
        """The additions of each row of frames, and the columns they come from; None if it takes no such frame."""
        layout = self._layout
        if any(schema[key.name] not in FORMATS or schema[key.name] == pl.Float64 for key in layout.keys):
            return None
        found: list[tuple[str | None, Addition]] = []
        for aggregate, pao in zip(layout.aggregates, layout.paos, strict=True):
            assert isinstance(pao, Pao)
            physical = pl.Null() if aggregate.argument is None else schema[aggregate.argument]
            additions = pao.additions(physical)
            if additions is None or any(name not in self._words for one in additions for name in one.states):
                return None
            found += [(aggregate.argument, one) for one in additions]
        return found

    def _block(
        self,
        schema: Mapping[str, pl.DataType],
        arrays: Columns,
        additions: list[tuple[str | None, Addition]],
        scratch: npt.NDArray[np.uint8],
    ) -> KernelBlock | None:
        """A frame as the kernel takes it, with memory to write keys in; None if it has doubles out of bounds."""
        keys = [_column(schema, arrays, key.name, _STORED[key.type]) for key in self._layout.keys]
        sources = []
        for name, (operation, states) in additions:
            column = Column() if name is None else _column(schema, arrays, name, 0)
            if operation.startswith("double") and not self._library.elf_are_ordinary(column.array):
                return None
            sources.append(Source(OPERATIONS.index(operation), self._words[states[0]], column))
        return KernelBlock(
            keys=(Column * max(1, len(keys)))(*keys),
            sources=(Source * max(1, len(sources)))(*sources),
            panes=arrays.columns["pane"],
            scratch=scratch.ctypes.data,
            keys_count=len(keys),
            sources_count=len(sources),
            scratch_bytes=len(scratch),
            seed=self._layout.seed,
            rows=arrays.rows,
            half=self._half,
        )

    # Room.

    @property
    def _entries_limit(self) -> int:
        return min(self.entries_max, self.groups_max(self._bytes_max))

    def _grow(self) -> bool:
        """Makes room for more groups, if it may have more."""
        root, limit = self._root, self._entries_limit
        if root.used < root.entries_max and root.panes_used < root.panes_max:
            return self._grow_arena(limit * _ARENA_SHARE)
        if root.entries_max >= limit or root.panes_used >= _PANES_MAX:
            return False
        self._reserve(min(limit, max(_ENTRIES_MIN, _GROWTH * root.entries_max)))
        return True

    def _grow_arena(self, bytes_max: int) -> bool:
        before = self._memory[2]
        if len(before) >= bytes_max:
            return False
        arena = np.empty(min(bytes_max, max(_ARENA_MIN, _GROWTH * len(before))), np.uint8)
        arena[: len(before)] = before
        self._memory[2] = arena
        self._root.arena, self._root.arena_bytes = arena.ctypes.data, len(arena)
        return True

    def _reserve(self, entries: int, without: Panes | None = None) -> None:
        """Moves the groups, but those of some panes, to memory for so many of them."""
        entries = min(entries, self._entries_limit)
        bits = max(4, (2 * entries - 1).bit_length())
        before, memory = self._root, self._memory
        self._memory = [
            np.zeros((2**bits + min(entries + 1, _PROBES_MAX)) * _SLOT_BYTES, np.uint8),
            np.empty(entries * self._stride, np.uint8),
            np.empty(before.arena_used, np.uint8),
            np.empty(min(entries, _PANES_MAX), np.int64),
        ]
        slots, groups, arena, panes = (array.ctypes.data for array in self._memory)
        self._root = Root(
            slots, groups, arena, panes, bits, entries, self._stride, len(self._memory[2]), len(self._memory[3]),
            skipped_bits=int(self._half > 0), rows=before.rows,
        )  # fmt: skip
        if before.used:
            first, last = without or (1, 0)
            copied = self._library.elf_root_copy(byref(before), byref(self._root), first, last)
            assert copied, "groups that had room have more"
        del memory

    def forget(self, panes: Panes) -> None:
        """Drops the groups of some panes. O(groups)."""
        if panes == EVERY_PANE:
            self.clear()
        elif self.groups:
            self._reserve(self._root.entries_max, without=panes)

    # Groups leave.

    def drain(self) -> list[RowBatch]:
        """All groups as batches, pane by pane; the table is empty then. O(slots)."""
        batches = self._batches(EVERY_PANE)
        root = self._root
        self.rows_of_group = root.rows / max(1, root.used)
        limit = self._entries_limit
        was_full = root.used >= root.entries_max // _GROWTH or root.arena_used >= limit * _ARENA_SHARE // _GROWTH
        if was_full and root.entries_max == limit:
            self._memory[0][:] = 0
            root.used = root.arena_used = root.panes_used = root.rows = 0
        else:
            self.clear()
            if was_full:
                self._reserve(min(limit, _GROWTH * root.entries_max))
        return batches

    def frames(self, panes: Panes) -> Iterator[pl.DataFrame]:
        """The PAO frames of some panes, in order; the table stays. O(slots)."""
        for batch in self._batches(panes):
            yield batch.frame(self._layout)

    def _batches(self, panes: Panes) -> list[RowBatch]:
        """The groups of some panes."""
        root, library = self._root, self._library
        if not root.used:
            return []
        numbers_of_panes = self._memory[3][: root.panes_used].tolist()
        places = np.empty(root.used, np.uint64)
        parts, ends = np.empty(4 * root.panes_used, np.int64), np.empty(root.panes_used, np.int64)
        library.elf_root_order(byref(root), *_addresses(SECRETS, places, parts, ends))
        starts = [0, *ends[:-1].tolist()]
        spans = sorted(zip(numbers_of_panes, starts, ends.tolist(), strict=True))
        spans = [span for span in spans if span[1] < span[2] and panes[0] <= span[0] <= panes[1]]
        if not spans:
            return []
        whole = self._batch(np.concatenate([places[start:end] for _, start, end in spans]))
        batches, at = [], 0
        for pane, start, end in spans:
            batches.append(replace(whole.part(at, at + end - start), pane=pane))
            at += end - start
        return batches

    def _batch(self, places: Places) -> RowBatch:
        """The groups at these places, as if of one pane."""
        count, root = len(places), self._root
        hashes, checks = np.empty(count, np.uint64), np.empty(count, np.uint32)
        words = np.empty((max(1, self._words_count), count), np.uint64)
        valid, (lengths, ends) = np.empty(count, np.bool_), np.empty((2, count), np.int64)
        text = np.empty(root.arena_used + _INLINE_KEY * count if self._is_bare else 0, np.uint8)
        size = self._library.elf_root_emit(
            byref(root), places.ctypes.data, count, *_addresses(SECRETS, hashes, checks, words), int(self._is_bare),
            *_addresses(valid, lengths, ends, text),
        )  # fmt: skip
        if self._is_bare:
            column = EncodedColumn(_nulls(valid), lengths, ends, text[:size].tobytes())
            keys = EncodedKeys((column,), count, self._layout.key_schema)
        else:
            keys = self._keys(places)
        arrays: Arrays = {}
        for name, states in self._layout.states.arrays.items():
            arrays |= self._states(states, words[self._words[name] :])
        return RowBatch(0, hashes, checks, keys, np.arange(count), arrays, None)

    def _keys(self, places: Places) -> EncodedKeys:
        """The keys of some groups, of several columns."""
        count, root, library = len(places), byref(self._root), self._library
        cursors = np.zeros(count, np.uint32)
        columns = []
        for key in self._layout.keys:
            stored = _STORED[key.type]
            valid, values = np.empty(count, np.bool_), np.empty(count, np.int64)
            at = places.ctypes.data, count
            size = library.elf_root_values(root, *at, stored, *_addresses(cursors, valid, values))
            if stored == STORED_INTEGER:
                columns.append(EncodedColumn(_nulls(valid), values, None, b""))
            elif stored == STORED_BOOLEAN:
                columns.append(EncodedColumn(_nulls(valid), values.astype(np.int8), None, b""))
            else:
                text = np.empty(size, np.uint8)
                library.elf_root_texts(root, *at, *_addresses(cursors, values, text))
                columns.append(EncodedColumn(_nulls(valid), values, np.cumsum(values), text.tobytes()))
        return EncodedKeys(tuple(columns), count, self._layout.key_schema)

    def _states(self, column: ArrayColumn, words: npt.NDArray[np.uint64]) -> Arrays:
        """The parts of one state column, whose words come first; those that are neutral throughout are missing."""
        if isinstance(column, SumColumn) and _words(column) == 2:
            limbs = np.empty((3, words.shape[1]), np.int64)
            used = self._library.elf_limbs(words.ctypes.data, words.shape[1], limbs.ctypes.data)
            return {part: limbs[at] for at, part in enumerate(column.parts[:used]) if used == 1 or limbs[at].any()}
        if not words[0].any():
            return {}
        if isinstance(column, SumColumn):
            return {column.parts[0]: words[0].view(np.int64)}
        assert isinstance(column, ExtremeColumn)
        ranks = words[1] if column.greatest else ~words[1]
        return {column.parts[0]: ranks, column.parts[1]: words[0].astype(np.bool_)}


def _column(schema: Mapping[str, pl.DataType], arrays: Columns, name: str, stored: int) -> Column:
    return Column(arrays.columns[name], FORMATS[schema[name]], stored)


def _addresses(*arrays: npt.NDArray[Any]) -> list[int]:
    return [array.ctypes.data for array in arrays]


def _nulls(valid: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_] | None:
    return None if valid.all() else valid


def _words(column: ArrayColumn) -> int:
    """Words of a state that a column takes."""
    return 1 if isinstance(column, SumColumn) and column.dtype == pl.Int64 else 2


def _is_fixed(layout: Layout) -> bool:
    """Whether all states are of fixed width, but those that ordinary values have no part in."""
    physical = {"any": pl.Int64(), "number": pl.Int64(), "integer": pl.Int64(), "string": pl.String()}
    for aggregate, pao in zip(layout.aggregates, layout.paos, strict=True):
        if not isinstance(pao, Pao) or pao.additions(physical.get(aggregate.type, pl.Boolean())) is None:
            return False
        if any(name not in layout.states.arrays and name not in pao.sparse for name in pao.state):
            return False
    return True
