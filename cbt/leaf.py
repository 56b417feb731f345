"""Leaves of the compressed buffer tree: the keys of one pane in a range of hashes, each with its state.

A leaf holds the identities of its keys in hash order, uncompressed, so that what is known already is found by binary
search and merged in place. The keys themselves are compressed and only read again when the leaf is flushed or split.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from cbt.batch import Batch, Checks, Hashes, Rows, pao_frame
from cbt.fragment import Bound
from cbt.key_store import EncodedKeys, KeyStore
from cbt.layout import Layout
from cbt.states import StateStore

T = TypeVar("T", bound=np.generic)


class Leaf:
    """Keys of `pane` whose hashes begin at `low[1]`."""

    __slots__ = ("_checks", "_hashes", "_keys", "_layout", "_slots", "_states", "low", "pane")

    def __init__(self, layout: Layout, pane: int, low: Bound) -> None:
        self.low, self.pane = low, pane
        self._layout = layout
        self._hashes: Hashes = np.empty(0, np.uint64)
        self._checks: Checks = np.empty(0, np.uint32)
        self._slots: npt.NDArray[np.unsignedinteger] = np.empty(0, np.uint16)
        self._keys = KeyStore(layout.key_schema)
        self._states = StateStore(layout.states)

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def nbytes(self) -> int:
        return self._hashes.nbytes + self._checks.nbytes + self._slots.nbytes + self._keys.nbytes + self._states.nbytes

    @property
    def raw_bytes(self) -> int:
        """What it would take uncompressed, with the hashes of its keys."""
        return self.nbytes - self._keys.nbytes + self._keys.raw_bytes

    @property
    def is_one_hash(self) -> bool:
        return len(self) > 0 and self._hashes[0] == self._hashes[-1]

    @property
    def key_bytes(self) -> int:
        """What the keys take uncompressed."""
        return self._keys.raw_bytes

    def fold(self, batch: Batch) -> tuple[Rows, Rows]:
        """Merges the states of the keys that are known. Returns the batch's rows with the others, and where these
        belong. O(n log leaf)."""
        if not len(self):
            return np.arange(len(batch)), np.zeros(len(batch), np.intp)
        positions, is_known = self._find(batch)
        known = np.flatnonzero(is_known)
        if len(known):
            sums = {name: column[known] for name, column in batch.sums.items()}
            others = None if batch.others is None else batch.others[known.astype(np.uint32)]
            self._states.add(self._slots[positions[known]].astype(np.intp), sums, others)
        if len(known) == len(batch):
            return known[:0], known[:0]
        fresh = np.flatnonzero(~is_known)
        return fresh, positions[fresh]

    def _find(self, batch: Batch) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """Where each identity of the batch stands or belongs, and whether it is there."""
        last = len(self) - 1
        positions = np.searchsorted(self._hashes, batch.hashes)
        within = np.minimum(positions, last)
        same_hash = self._hashes[within] == batch.hashes
        found = same_hash & (self._checks[within] == batch.checks)
        open_ = np.flatnonzero(same_hash & ~found)
        while len(open_):  # several keys with one hash stand side by side
            positions[open_] += 1
            open_ = open_[positions[open_] <= last]
            open_ = open_[self._hashes[positions[open_]] == batch.hashes[open_]]
            match = self._checks[positions[open_]] == batch.checks[open_]
            found[open_[match]] = True
            open_ = open_[~match]
        return positions, found

    def add(self, batch: Batch, rows: Rows, at: Rows, keys: EncodedKeys) -> None:
        """Adds keys that are not known where `fold` says: these rows of the batch, whose keys are `keys`.
        O(leaf + bytes)."""
        first = len(self)
        count = first + len(rows)
        slots = np.arange(first, count).astype(np.uint16 if count <= 2**16 else np.uint32)
        if slots.itemsize > self._slots.itemsize:
            self._slots = self._slots.astype(np.uint32)
        old = np.ones(count, dtype=bool)
        new = at + np.arange(len(rows))
        old[new] = False
        self._hashes = _interleaved(old, self._hashes, new, batch.hashes[rows])
        self._checks = _interleaved(old, self._checks, new, batch.checks[rows])
        self._slots = _interleaved(old, self._slots, new, slots.astype(self._slots.dtype))
        sums = {name: column[rows] for name, column in batch.sums.items()}
        others = None if batch.others is None else batch.others[rows.astype(np.uint32)]
        self._states.append(first, sums, others)
        self._keys.append(keys)

    def frame(self) -> pl.DataFrame:
        """All PAOs, in order. O(leaf + bytes)."""
        keys = self._keys.frame(len(self))[self._slots.astype(np.uint32)]
        states = self._layout.states.frame(*self._states.of(self._slots.astype(np.intp)))
        return pao_frame(self._layout, self.pane, self._hashes, keys, states)

    def split(self, rows_max: int, bytes_max: int) -> list[Leaf]:
        """Leaves with at most so many rows and about so many bytes of keys each, unless one hash has more."""
        slots = self._slots.astype(np.intp)
        keys = self._keys.frame(len(self))
        sums, others = self._states.of(slots)
        whole = Batch(self.pane, self._hashes, self._checks, keys, slots, sums, others)
        encoded = EncodedKeys.of(keys[self._slots.astype(np.uint32)])
        parts = max(-(-len(self) // rows_max), -(-self.key_bytes // bytes_max))
        leaves = []
        for start, end in _cuts(self._hashes, parts):
            low = (self.pane, int(self._hashes[start]))
            low = low if start else min(self.low, low)
            leaf = Leaf(self._layout, self.pane, low)
            leaf.add(whole, np.arange(start, end), np.zeros(end - start, np.intp), encoded.part(start, end))
            leaves.append(leaf)
        return leaves

    def check(self, low: Bound, high: Bound) -> None:
        """Asserts what must hold of a leaf."""
        bounds = [(self.pane, int(hash_)) for hash_ in self._hashes]
        assert bounds == sorted(bounds), "identities are in hash order"
        assert all(low <= bound < high for bound in bounds), "keys lie in their leaf's range"
        assert len({*zip(self._hashes, self._checks, strict=True)}) == len(self), "each key is there once"
        assert sorted(self._slots) == list(range(len(self))), "each key has its slot"
        frame = self.frame()
        assert frame.schema == self._layout.schema
        assert self._layout.combine([frame]).equals(frame), "a leaf is sorted and aggregated"


def _interleaved(is_old: npt.NDArray[np.bool_], old: npt.NDArray[T], at: Rows, new: npt.NDArray[T]) -> npt.NDArray[T]:
    whole = np.empty(len(is_old), dtype=old.dtype)
    whole[is_old] = old
    whole[at] = new
    return whole


def _cuts(hashes: Hashes, parts: int) -> Iterator[tuple[int, int]]:
    """Ranges of about the same size that do not part equal hashes."""
    count = len(hashes)
    bounds = {0, count}
    for part in range(1, parts):
        at = count * part // parts
        bounds.add(int(np.searchsorted(hashes, hashes[at])))
    ordered = sorted(bounds)
    yield from pairwise(ordered)
