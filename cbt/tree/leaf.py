"""Leaves of the compressed buffer tree: the keys of one pane in a range of hashes, each with its state.

A leaf holds the identities of its keys in hash order, uncompressed, so that a known key is found by binary search and
its state merged in place. The keys themselves are compressed and only read again when the leaf is flushed or split.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import CDLL
from itertools import pairwise

import numpy as np
import polars as pl

from cbt.algebra.key_index import Hashes, KeyIndex, Rows
from cbt.layout.layout import Layout
from cbt.layout.states import StateStore
from cbt.native.library import load
from cbt.tree.batch import RowBatch, pao_frame
from cbt.tree.fragment import Bound
from cbt.tree.key_store import EncodedKeys, KeyCoder, KeyStore

_RECENT_MIN, _RECENT_SHARE = 64, 8


class Leaf:
    """Keys of `pane` whose hashes begin at `low[1]`.

    New keys are *recent* until they are an eighth as many as the others: inserting them in order costs a pass over all.
    A key's slot is the number of keys that were added before it.
    """

    __slots__ = ("_coder", "_keys", "_known", "_layout", "_recent", "_states", "low", "pane", "touched")

    def __init__(self, layout: Layout, pane: int, low: Bound, coder: KeyCoder) -> None:
        self.low, self.pane = low, pane
        self.touched = 0  # the number of the tree's change that last touched the leaf
        self._layout, self._coder = layout, coder
        self._known = KeyIndex()
        self._recent = KeyIndex()
        self._keys = KeyStore(layout.key_schema, coder)
        self._states = StateStore(layout.states)

    def __len__(self) -> int:
        return len(self._known) + len(self._recent)

    @property
    def nbytes(self) -> int:
        return self._known.nbytes + self._recent.nbytes + self._keys.nbytes + self._states.nbytes

    @property
    def raw_bytes(self) -> int:
        """Bytes of the leaf, uncompressed, with the hashes of its keys."""
        return self.nbytes - self._keys.nbytes + self._keys.raw_bytes

    @property
    def is_one_hash(self) -> bool:
        hashes = self._whole().hashes
        return len(hashes) > 0 and hashes[0] == hashes[-1]

    @property
    def key_bytes(self) -> int:
        """Bytes of the keys, uncompressed."""
        return self._keys.raw_bytes

    def merge(self, batch: RowBatch) -> tuple[Rows, Rows]:
        """Merges the states of known keys. Returns the batch's rows with new keys, and their places among the recent.
        O(n log leaf)."""
        library = load().library
        if library is not None:
            return self._merge_natively(library, batch)
        rows = places = np.arange(len(batch))
        hashes, checks = batch.hashes, batch.checks
        for identities in (self._known, self._recent):
            places, is_there = identities.find(hashes, checks)
            there = np.flatnonzero(is_there)
            if len(there):
                slots = identities.slots[places[there]].astype(np.intp)
                self._states.add(slots, *batch.states(rows[there]))
                others = np.flatnonzero(~is_there)
                rows, places, hashes, checks = rows[others], places[others], hashes[others], checks[others]
        return rows, places

    def _merge_natively(self, library: CDLL, batch: RowBatch) -> tuple[Rows, Rows]:
        rows: Rows | None = None
        for identities in (self._known, self._recent):
            found, slots, rows, places = identities.look_up(library, batch.hashes, batch.checks, rows)
            if len(found):
                self._states.add_rows(library, slots, batch.arrays, batch.others, found)
        assert rows is not None
        return rows, places

    def add(
        self, batch: RowBatch, rows: Rows, places: Rows, keys: EncodedKeys, *, compress: bool = True
    ) -> None:  # fmt: skip
        """Adds keys that `merge` did not know: these rows of the batch, whose keys are `keys`. O(recent + bytes).

        Without `compress`, as before a split, the keys stay as they are.
        """
        first, library = len(self), load().library
        if library is not None:
            self._recent.merge(library, batch.hashes, batch.checks, rows, places, first)
        else:
            self._recent.insert(places, batch.hashes[rows], batch.checks[rows], np.arange(first, first + len(rows)))
        if len(self._recent) > max(_RECENT_MIN, len(self._known) // _RECENT_SHARE):
            self._known, self._recent = self._whole(), KeyIndex()
        self._states.append(len(rows), *batch.states(rows))
        self._keys.append(keys, compress=compress)

    def _whole(self) -> KeyIndex:
        """The index of all keys, recent ones included. O(leaf)."""
        if not len(self._recent):
            return self._known
        if not len(self._known):
            return self._recent
        library = load().library
        if library is not None:
            return self._known.merged(library, self._recent)
        whole = self._known.copy()
        places, _ = whole.find(self._recent.hashes, self._recent.checks)
        whole.insert(places, self._recent.hashes, self._recent.checks, self._recent.slots)
        return whole

    def frame(self) -> pl.DataFrame:
        """All PAOs, in order. O(leaf + bytes)."""
        whole = self._whole()
        keys = self._keys.all(len(self)).frame(whole.slots.astype(np.intp))
        states = self._layout.states.frame(*self._states.of(whole.slots.astype(np.intp)), len(whole))
        return pao_frame(self._layout, self.pane, whole.hashes, keys, states)

    def split(self, rows_max: int, bytes_max: int) -> list[Leaf]:
        """Splits the leaf: each piece has at most `rows_max` rows and about `bytes_max` bytes of keys, unless one hash
        has more."""
        whole = self._whole()
        slots = whole.slots.astype(np.intp)
        keys = self._keys.all(len(self))
        batch = RowBatch(self.pane, whole.hashes, whole.checks, keys, slots, *self._states.of(slots))
        encoded = keys.encoded(slots)
        parts = max(-(-len(self) // rows_max), -(-self.key_bytes // bytes_max))
        leaves = []
        for start, end in _cuts(whole.hashes, parts):
            low = (self.pane, int(whole.hashes[start]))
            leaf = Leaf(self._layout, self.pane, low if start else min(self.low, low), self._coder)
            leaf.add(batch, np.arange(start, end), np.zeros(end - start, np.intp), encoded.part(start, end))
            leaves.append(leaf)
        return leaves

    def check(self, low: Bound, high: Bound) -> None:
        """Asserts a leaf's invariants."""
        whole = self._whole()
        bounds = [(self.pane, int(hash_)) for hash_ in whole.hashes]
        assert bounds == sorted(bounds), "identities are in hash order"
        assert all(low <= bound < high for bound in bounds), "keys lie in their leaf's range"
        assert len({*zip(whole.hashes, whole.checks, strict=True)}) == len(self), "each key is there once"
        assert sorted(whole.slots) == list(range(len(self))), "each key has its slot"
        frame = self.frame()
        assert frame.schema == self._layout.schema
        assert self._layout.merge([frame]).equals(frame), "a leaf is sorted and aggregated"


def _cuts(hashes: Hashes, parts: int) -> Iterator[tuple[int, int]]:
    """Ranges that do not part equal hashes, each at most two `parts`th of all, or of a single hash."""
    count = len(hashes)
    bounds = {0, count}
    for part in range(1, parts):
        at = hashes[count * part // parts]
        start = int(np.searchsorted(hashes, at))
        bounds.add(start if start not in bounds else int(np.searchsorted(hashes, at, side="right")))
    yield from pairwise(sorted(bounds))
