"""The index of a leaf's keys: their hashes in order, the checks that tell keys with equal hashes apart, and the keys'
slots."""

from __future__ import annotations

import copy
from ctypes import CDLL, byref
from typing import Any

import numpy as np
import numpy.typing as npt

from cbt.native.library import Index

Hashes = npt.NDArray[np.uint64]
Checks = npt.NDArray[np.uint32]
Rows = npt.NDArray[np.intp]


class KeyIndex:
    """Three arrays of one length: `hashes` ascending, `checks`, and `slots` in the narrowest type."""

    __slots__ = ("checks", "hashes", "slots")

    def __init__(self) -> None:
        self.hashes: Hashes = np.empty(0, np.uint64)
        self.checks: Checks = np.empty(0, np.uint32)
        self.slots: npt.NDArray[np.integer[Any]] = np.empty(0, np.uint16)

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def nbytes(self) -> int:
        return self.hashes.nbytes + self.checks.nbytes + self.slots.nbytes

    def copy(self) -> KeyIndex:
        """A copy that changes independently. O(1)."""
        return copy.copy(self)

    def find(self, hashes: Hashes, checks: Checks) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """Each identity's place, or the place where it belongs, and whether it is present. O(n log m); the hashes
        ascend."""
        if not len(self):
            return np.zeros(len(hashes), np.intp), np.zeros(len(hashes), dtype=bool)
        last = len(self) - 1
        places = np.searchsorted(self.hashes, hashes)
        within = np.minimum(places, last)
        same_hash = self.hashes[within] == hashes
        found = same_hash & (self.checks[within] == checks)
        left = np.flatnonzero(same_hash & ~found)
        while len(left):  # several keys with one hash stand side by side
            places[left] += 1
            left = left[places[left] <= last]
            left = left[self.hashes[places[left]] == hashes[left]]
            match = self.checks[places[left]] == checks[left]
            found[left[match]] = True
            left = left[~match]
        return places, found

    def look_up(
        self, library: CDLL, hashes: Hashes, checks: Checks, rows: Rows | None
    ) -> tuple[Rows, Rows, Rows, Rows]:  # fmt: skip
        """`find` by the kernel, of some rows or all: those that are present with their slots, the others with the
        places where they belong."""
        count = len(hashes) if rows is None else len(rows)
        found, slots, others, places = np.empty((4, count), np.intp)
        there = library.elf_find(
            byref(self._in_kernel()), hashes.ctypes.data, checks.ctypes.data,
            None if rows is None else rows.ctypes.data, count,
            found.ctypes.data, slots.ctypes.data, others.ctypes.data, places.ctypes.data,
        )  # fmt: skip
        return found[:there], slots[:there], others[: count - there], places[: count - there]

    def merge(self, library: CDLL, hashes: Hashes, checks: Checks, rows: Rows, places: Rows, first: int) -> None:
        """`insert` by the kernel, of some rows, whose slots begin with `first`. O(m + n)."""
        is_wide = self.slots.itemsize > 2 or first + len(rows) > 2**16
        self._merge(library, (hashes, checks, rows, places), Index(), first, is_wide=is_wide)

    def merged(self, library: CDLL, other: KeyIndex) -> KeyIndex:
        """The index of both, whose identities differ. O(m + n)."""
        _, _, rows, places = self.look_up(library, other.hashes, other.checks, None)
        both = self.copy()
        is_wide = self.slots.itemsize > 2 or other.slots.itemsize > 2
        both._merge(library, (other.hashes, other.checks, rows, places), other._in_kernel(), 0, is_wide=is_wide)
        return both

    def _merge(
        self, library: CDLL, new: tuple[Hashes, Checks, Rows, Rows], slots: Index, first: int, *, is_wide: bool
    ) -> None:  # fmt: skip
        hashes, checks, rows, places = new
        count, before, held = len(self) + len(rows), self._in_kernel(), self.slots
        merged: tuple[Hashes, Checks, npt.NDArray[np.integer[Any]]] = (
            np.empty(count, np.uint64),
            np.empty(count, np.uint32),
            np.empty(count, np.uint32 if is_wide else np.uint16),
        )
        library.elf_merge(
            byref(before), hashes.ctypes.data, checks.ctypes.data, rows.ctypes.data, places.ctypes.data,
            len(rows), byref(slots), first, *(array.ctypes.data for array in merged), merged[2].itemsize,
        )  # fmt: skip
        del held
        self.hashes, self.checks, self.slots = merged

    def _in_kernel(self) -> Index:
        return Index(
            self.hashes.ctypes.data, self.checks.ctypes.data, self.slots.ctypes.data, len(self.hashes),
            self.slots.itemsize,
        )  # fmt: skip

    def insert(self, places: Rows, hashes: Hashes, checks: Checks, slots: npt.NDArray[np.integer[Any]]) -> None:
        """Inserts identities, in hash order, at the places that `find` gave. O(m + n)."""
        old = np.ones(len(self) + len(places), dtype=bool)
        new = places + np.arange(len(places))
        old[new] = False
        width = np.uint16 if len(slots) == 0 or int(slots.max()) < 2**16 else np.uint32
        if np.dtype(width).itemsize > self.slots.itemsize:
            self.slots = self.slots.astype(width)
        self.hashes = _interleaved(old, self.hashes, new, hashes)
        self.checks = _interleaved(old, self.checks, new, checks)
        self.slots = _interleaved(old, self.slots, new, slots)


def _interleaved(is_old: npt.NDArray[np.bool_], old: npt.NDArray[Any], at: Rows, new: npt.NDArray[Any]) -> Any:
    whole = np.empty(len(is_old), dtype=old.dtype)
    whole[is_old] = old
    whole[at] = new
    return whole
