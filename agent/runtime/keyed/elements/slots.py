"""The elements of one prototype as columns: each key has a slot, which is a place in arrays of states.

A key is found by two hashes of 64 bits, keyed with secrets of the process, so that nobody can make keys collide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

import cbt
from agent.runtime.keyed.elements.runtime import NODE
from cbt.native.library import load

GONE, SEEN = "@gone", "@seen"
"""Columns of tables: whether an element has been removed, and the time of its last event (ms)."""
SECRET = np.array([hash(f"{one} hash of elements' keys") % (1 << 64) for one in ("first", "second")], np.uint64)
_SIZE_MIN = 1 << 10
_PENDING_ROWS, _PENDING_FRAMES = 1 << 13, 16

Values = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


class SlotTable:
    """Keys of some columns, in `keys`, and of each a slot in the arrays of `states`, which have these types and begin
    with 0. With `tracks`, it knows what has changed.
    """

    def __init__(self, keys: Mapping[str, pl.DataType], states: Mapping[str, Any], *, tracks: bool) -> None:
        self.count = 0
        self.evicted = 0
        """Elements that were removed for their age or for room."""
        self._tracks = tracks
        self._names = list(keys)
        self._schema = pl.Schema(keys)
        self._states = [NODE, SEEN, *states]
        kinds = {NODE: np.uint16, SEEN: np.int64, **states, "changed": np.bool_, "hash": np.uint64, "check": np.uint64}
        self._arrays: dict[str, Values] = {name: np.zeros(_SIZE_MIN, kind) for name, kind in kinds.items()}
        self._index = np.full(2 * _SIZE_MIN, -1, np.int32)
        self._keys = pl.DataFrame(schema=self._schema)
        self._pending: list[pl.DataFrame] = []
        self._pending_rows = 0
        self._removed: list[pl.DataFrame] = []
        self._key_bytes = 0

    def __getitem__(self, name: str) -> Values:
        """The array of a state; it is another one once keys were added."""
        return self._arrays[name]

    def find(self, rows: pl.DataFrame) -> Rows:
        """The slots of rows, by their keys; makes those that are not there. O(rows), amortised."""
        if not rows.height:
            return np.empty(0, np.intp)
        if self._names:
            hashes, checks = cbt.key_identities(rows[:, self._names], SECRET)
        else:
            hashes, checks = np.zeros((2, rows.height), np.uint64)
        slots = self._look_up(hashes, checks)
        if slots.min() < 0:
            self._add(rows, slots, hashes, checks)
        return slots

    def touch(self, slots: Rows, times: Values) -> None:
        """Notes that the elements of some slots have had events at these times."""
        self._arrays[SEEN][slots] = times
        self.change(slots)

    def change(self, slots: Rows) -> None:
        if self._tracks:
            self._arrays["changed"][slots] = True

    def keys(self, slots: Rows | None = None) -> pl.DataFrame:
        """The keys of some slots, or of all in order."""
        self._settle()
        return self._keys if slots is None else self._keys[slots.astype(np.uint32)]

    def frame(self, slots: Rows) -> pl.DataFrame:
        """Keys and states of some slots, as `put` takes them. O(slots)."""
        columns = [pl.Series(name, self._arrays[name][slots]) for name in self._states]
        gone = pl.Series(GONE, np.zeros(len(slots), bool))
        return pl.DataFrame([*self.keys(slots).get_columns(), *columns, gone])

    def changes(self) -> pl.DataFrame:
        """The changes since the last call, elements that were removed first."""
        changed = np.flatnonzero(self._arrays["changed"][: self.count])
        self._arrays["changed"][: self.count] = False
        removed, self._removed = self._removed, []
        frame = self.frame(changed)
        return pl.concat([self.frame(changed[:0]), *removed, frame], how="diagonal") if removed else frame

    def on_nodes(self, nodes: Collection[int]) -> Rows:
        """The slots of some logical nodes."""
        return np.flatnonzero(np.isin(self._arrays[NODE][: self.count], list(nodes)))

    def put(self, frame: pl.DataFrame) -> None:
        """Takes elements as they are elsewhere, in place of those that are here."""
        frame = latest(frame, self._names)
        gone = frame.filter(pl.col(GONE))
        if gone.height:
            slots = self.find(gone)
            keep = np.ones(self.count, np.bool_)
            keep[slots] = False
            self._retain(keep)
        frame = frame.filter(~pl.col(GONE))
        slots = self.find(frame)
        for name in self._states:
            self._arrays[name][slots] = frame[name].to_numpy()

    def drop(self, nodes: Collection[int]) -> None:
        """Forgets logical nodes."""
        keep = np.isin(self._arrays[NODE][: self.count], list(nodes), invert=True)
        if not keep.all():
            self._retain(keep)
        self._removed = [frame.filter(~pl.col(NODE).is_in(list(nodes))) for frame in self._removed]

    def expire(self, before_ms: int) -> int:
        """Removes elements without events since a time; returns how many."""
        keep = self._arrays[SEEN][: self.count] >= before_ms
        return 0 if keep.all() else self._evict(keep)

    def shrink(self, bytes_max: int) -> int:
        """Removes the least recent elements until so many bytes are used; returns how many."""
        removed = 0
        while self.count and self._own_bytes > bytes_max:
            share = bytes_max / self._own_bytes
            left = min(self.count - 1, int(self.count * share * 0.9))
            seen = self._arrays[SEEN][: self.count]
            keep = np.zeros(self.count, np.bool_)
            keep[np.lexsort((self._arrays["hash"][: self.count], seen))[self.count - left :]] = True
            removed += self._evict(keep)
        return removed

    def make_room(self, bytes_max: int, expired_ms: int | None) -> int:
        """Removes elements if more bytes are used: first those without events since `expired_ms`, then the least
        recent; returns how many."""
        if self.memory_bytes <= bytes_max:
            return 0
        expired = 0 if expired_ms is None else self.expire(expired_ms)
        return expired + self.shrink(bytes_max)

    @property
    def memory_bytes(self) -> int:
        """Bytes of keys, states and index, and of what was removed since changes were taken."""
        return self._own_bytes + sum(int(frame.estimated_size()) for frame in self._removed)

    @property
    def _own_bytes(self) -> int:
        arrays = sum(array.nbytes for array in self._arrays.values())
        return arrays + self._index.nbytes + self._key_bytes + sum(int(one.estimated_size()) for one in self._pending)

    def _evict(self, keep: Mask) -> int:
        gone = np.flatnonzero(~keep)
        if self._tracks:
            columns = [*self.keys(gone).get_columns(), pl.Series(NODE, self._arrays[NODE][gone])]
            self._removed.append(pl.DataFrame(columns).with_columns(pl.lit(value=True).alias(GONE)))
        self._retain(keep)
        self.evicted += len(gone)
        return len(gone)

    def _look_up(self, hashes: Values, checks: Values) -> Rows:
        """The slots of identities, -1 where there is none. O(n), as the index is at most half full."""
        index, known, other = self._index, self._arrays["hash"], self._arrays["check"]
        if (library := load().library) is not None:
            slots = np.empty(len(hashes), np.int64)
            library.elf_slots_find(
                index.ctypes.data, len(index) - 1, known.ctypes.data, other.ctypes.data, hashes.ctypes.data,
                checks.ctypes.data, len(hashes), slots.ctypes.data,
            )  # fmt: skip
            return slots
        mask = np.uint64(len(index) - 1)
        places = (hashes & mask).astype(np.intp)
        found = index[places].astype(np.intp)
        wrong = np.flatnonzero((found >= 0) & ((known[found] != hashes) | (other[found] != checks)))
        while len(wrong):
            places[wrong] = (places[wrong] + 1) & int(mask)
            slots = index[places[wrong]].astype(np.intp)
            found[wrong] = slots
            differs = (slots >= 0) & ((known[slots] != hashes[wrong]) | (other[slots] != checks[wrong]))
            wrong = wrong[differs]
        return found

    def _add(self, rows: pl.DataFrame, slots: Rows, hashes: Values, checks: Values) -> None:
        """Adds the keys of rows that have no slot, each once and in the order of the rows. O(rows), amortised."""
        missing = np.flatnonzero(slots < 0)
        self._make_room(len(missing))
        firsts = self._new_slots(slots, missing, hashes, checks)
        start, self.count = self.count, self.count + len(firsts)
        added = rows[:, [*self._names, NODE]][firsts.astype(np.uint32)]
        self._arrays[NODE][start : self.count] = added[NODE].to_numpy()
        self._pending.append(added[:, self._names])
        self._pending_rows += added.height
        if self._pending_rows >= _PENDING_ROWS or len(self._pending) >= _PENDING_FRAMES:
            self._settle()

    def _make_room(self, more: int) -> None:
        """Makes arrays that have so many slots more, and an index that is at most half full with them."""
        end = self.count + more
        if end > len(self._arrays[SEEN]):
            self._resize(max(end, 2 * len(self._arrays[SEEN])))
        if 2 * end > len(self._index):
            self._index = np.full(1 << (2 * end - 1).bit_length(), -1, np.int32)
            self._insert(np.arange(self.count))

    def _new_slots(self, slots: Rows, missing: Rows, hashes: Values, checks: Values) -> Rows:
        """Gives rows their slots, new ones where there are none; returns the first row of each of these."""
        known, other = self._arrays["hash"], self._arrays["check"]
        if (library := load().library) is not None:
            firsts = np.empty(len(missing), np.int64)
            found = library.elf_slots_add(
                self._index.ctypes.data, len(self._index) - 1, known.ctypes.data, other.ctypes.data, hashes.ctypes.data,
                checks.ctypes.data, len(slots), slots.ctypes.data, self.count, firsts.ctypes.data,
            )  # fmt: skip
            return firsts[:found]
        pairs = np.stack([hashes[missing], checks[missing]], axis=1)
        _, first, inverse = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        new = np.empty(len(order), np.intp)
        new[order] = np.arange(self.count, self.count + len(order))
        firsts, slots[missing] = missing[first[order]], new[inverse.ravel()]
        end = self.count + len(firsts)
        known[self.count : end], other[self.count : end] = hashes[firsts], checks[firsts]
        self._insert(np.arange(self.count, end))
        return firsts

    def _insert(self, slots: Rows) -> None:
        """Puts slots of distinct keys into the index, which has room for them."""
        index = self._index
        mask = len(index) - 1
        places = (self._arrays["hash"][slots] & np.uint64(mask)).astype(np.intp)
        while len(slots):
            free = index[places] < 0
            index[places[free]] = slots[free]
            left = index[places] != slots
            slots, places = slots[left], (places[left] + 1) & mask

    def _resize(self, size: int) -> None:
        for name, array in self._arrays.items():
            larger = np.zeros(size, array.dtype)
            larger[: self.count] = array[: self.count]
            self._arrays[name] = larger

    def _retain(self, keep: Mask) -> None:
        """Keeps some slots, which move together. O(slots)."""
        slots = np.flatnonzero(keep)
        self._keys = cbt.own_strings(self.keys(slots))
        size = max(len(slots), _SIZE_MIN)
        for name, array in self._arrays.items():
            kept = np.zeros(size, array.dtype)
            kept[: len(slots)] = array[slots]
            self._arrays[name] = kept
        self.count = len(slots)
        self._index = np.full(1 << (2 * size - 1).bit_length(), -1, np.int32)
        self._insert(np.arange(self.count))
        self._key_bytes = int(self._keys.estimated_size())

    def _settle(self) -> None:
        """Appends the keys that came last to the others."""
        if self._pending:
            self._keys.extend(cbt.own_strings(pl.concat(self._pending)))
            self._pending, self._pending_rows = [], 0
            self._key_bytes = int(self._keys.estimated_size())


def latest(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The last row of each key, in order."""
    return frame.unique(keys, keep="last", maintain_order=True) if keys else frame.tail(1)


def latest_only(keys: Sequence[str]) -> Callable[[Iterable[pl.DataFrame]], pl.DataFrame]:
    """Puts a table's whole states and later changes into one frame, without what has been removed."""
    return lambda frames: latest(pl.concat(frames), keys).filter(~pl.col(GONE))
