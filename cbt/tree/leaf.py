"""Leaves of the compressed buffer tree: the keys of one pane in a range of hashes, each with its state.

A leaf holds the identities of its keys in hash order, uncompressed, so that a known key is found by a search and its
state merged in place. The keys themselves are compressed and only read again when the leaf is flushed or split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from cbt.algebra.kernel_index import KernelIndex, NewRows
from cbt.algebra.key_index import Checks, Hashes, LeafIndex, Rows
from cbt.layout.layout import Layout
from cbt.layout.states import StateStore
from cbt.native.library import load
from cbt.tree.batch import RowBatch, hashes_of, pao_frame
from cbt.tree.fragment import Bound
from cbt.tree.key_store import EncodedKeys, KeyCoder, Keys, KeyStore, texts_of

_HIGHEST = 2**64


class Leaf:
    """Keys of `pane` whose hashes begin at `low[1]` and likely end before `high`."""

    __slots__ = ("_coder", "_high", "_index", "_keys", "_layout", "_states", "low", "pane", "touched")

    def __init__(self, layout: Layout, pane: int, low: Bound, coder: KeyCoder, *, high: int = _HIGHEST) -> None:
        self.low, self.pane = low, pane
        self.touched = 0  # the number of the tree's change that last touched the leaf
        self._layout, self._coder, self._high = layout, coder, high
        library = load().library
        in_kernel = None if library is None else KernelIndex(library, low[1], high, layout.states.parts)
        self._index = LeafIndex() if in_kernel is None else in_kernel
        self._keys = KeyStore(layout.key_schema, coder, in_kernel)
        self._states = StateStore(layout.states, in_kernel)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._keys.nbytes + self._states.nbytes

    @property
    def raw_bytes(self) -> int:
        """Bytes of the leaf, uncompressed, with the hashes of its keys."""
        return self.nbytes - self._keys.nbytes + self._keys.raw_bytes

    @property
    def is_one_hash(self) -> bool:
        _, hashes, _, _ = self._ordered()
        return len(hashes) > 0 and hashes[0] == hashes[-1]

    @property
    def key_bytes(self) -> int:
        """Bytes of the keys, uncompressed."""
        return self._keys.raw_bytes

    def add(self, batch: RowBatch, rows: Rows, keys: EncodedKeys, *, compress: bool = True) -> None:
        """Adds what the index knows already: these rows of the batch, whose keys are `keys`. O(bytes).

        Without `compress`, as before a split, the keys stay as they are.
        """
        self._states.append(len(rows), *batch.states(rows))
        self._keys.append(keys, compress=compress)

    def frame(self) -> pl.DataFrame:
        """All PAOs, in order. O(leaf + bytes)."""
        slots, hashes, _, keys = self._ordered()
        states = self._layout.states.frame(*self._states.of(slots), len(slots))
        return pao_frame(self._layout, self.pane, hashes, keys.frame(slots), states)

    def split(self, rows_max: int, bytes_max: int) -> list[Leaf]:
        """Splits the leaf: each piece has at most `rows_max` rows and about `bytes_max` bytes of keys, unless one hash
        has more."""
        slots, hashes, checks, keys = self._ordered()
        batch = RowBatch(self.pane, hashes, checks, keys, slots, *self._states.of(slots))
        parts = max(-(-len(self) // rows_max), -(-self.key_bytes // bytes_max))
        leaves = []
        for start, end in _cuts(hashes, parts):
            low = (self.pane, int(hashes[start]))
            high = int(hashes[end]) if end < len(hashes) else self._high
            leaf = Leaf(self._layout, self.pane, low if start else min(self.low, low), self._coder, high=high)
            for new in merge(batch, [Part(leaf, start, end)], len(self)).left:
                leaf.add(batch, new.rows, keys.encoded(slots[new.rows]))
            leaves.append(leaf)
        return leaves

    def _ordered(self) -> tuple[Rows, Hashes, Checks, Keys]:
        """The slots, hashes and checks of all keys, in order, and the keys by their slots. O(leaf + bytes)."""
        keys = self._keys.all(len(self))
        if isinstance(self._index, LeafIndex):
            return *self._index.order(), keys
        slots, checks = self._index.order()
        hashes = hashes_of(self._layout, keys, len(self))[slots]
        if (hashes[1:] < hashes[:-1]).any():
            order = np.argsort(hashes, kind="stable")
            slots, hashes, checks = slots[order], hashes[order], checks[order]
        return slots, hashes, checks, keys

    def check(self, low: Bound, high: Bound) -> None:
        """Asserts a leaf's invariants."""
        slots, hashes, checks, _ = self._ordered()
        bounds = [(self.pane, int(hash_)) for hash_ in hashes]
        assert bounds == sorted(bounds), "identities are in hash order"
        assert all(low <= bound < high for bound in bounds), "keys lie in their leaf's range"
        assert len({*zip(hashes, checks, strict=True)}) == len(self), "each key is there once"
        assert sorted(slots) == list(range(len(self))), "each key has its slot"
        frame = self.frame()
        assert frame.schema == self._layout.schema
        assert self._layout.merge([frame]).equals(frame), "a leaf is sorted and aggregated"


class Part(NamedTuple):
    """The rows of a batch, from `start` to `end`, that belong in a leaf."""

    leaf: Leaf
    start: int
    end: int


class NewKeys(NamedTuple):
    """Rows of a batch whose keys are new to a leaf, which has them to `add`."""

    leaf: Leaf
    batch: RowBatch
    rows: Rows


class Merged(NamedTuple):
    """The number of keys that leaves have added in a merge, and the keys that they have still to add."""

    added: int
    left: list[NewKeys]


def merge(batch: RowBatch, parts: Sequence[Part], rows_max: int) -> Merged:
    """Merges the states of known keys, and adds the others where the kernel can. The leaves' indexes know all of them
    from then on. Keys of a leaf of more than `rows_max`, which is split next, stay as they are. O(n log leaf + recent).
    """
    in_kernel = [part.leaf._index for part in parts if isinstance(part.leaf._index, KernelIndex)]
    if in_kernel:
        return _merge_in_kernel(batch, parts, in_kernel, rows_max)
    left = []
    for leaf, start, end in parts:
        assert isinstance(leaf._index, LeafIndex)
        found, slots, others = leaf._index.merge(batch.hashes[start:end], batch.checks[start:end])
        if len(found):
            leaf._states.add(slots, batch.arrays, batch.others, found + start)
        if len(others):
            left.append(NewKeys(leaf, batch, others + start))
    return Merged(0, left)


def _merge_in_kernel(
    batch: RowBatch, parts: Sequence[Part], indexes: Sequence[KernelIndex], rows_max: int
) -> Merged:  # fmt: skip
    texts = texts_of(batch.keys) if batch.others is None else None
    bounds = np.array([part[1:] for part in parts], np.int64)
    new = NewRows(batch.hashes, batch.checks, batch.arrays, batch.rows, texts)
    found, slots, others, figures = KernelIndex.merge(indexes, bounds, new)
    left = []
    first = other = 0
    for (leaf, _, _), (end, other_end, keys, waiting, nbytes) in zip(parts, figures, strict=True):
        if texts is not None:
            if keys <= rows_max:
                leaf._keys.settle(waiting, nbytes)
        elif other_end > other:
            left.append(NewKeys(leaf, batch, others[other:other_end]))
        if batch.others is not None and end > first:
            leaf._states.add(slots[first:end], {}, batch.others, found[first:end])
        first, other = end, other_end
    return Merged(0 if texts is None else other, left)


def _cuts(hashes: Hashes, parts: int) -> Iterator[tuple[int, int]]:
    """Ranges that do not part equal hashes, each at most two `parts`th of all, or of a single hash."""
    count = len(hashes)
    bounds = {0, count}
    for part in range(1, parts):
        at = hashes[count * part // parts]
        start = int(np.searchsorted(hashes, at))
        bounds.add(start if start not in bounds else int(np.searchsorted(hashes, at, side="right")))
    yield from pairwise(sorted(bounds))
