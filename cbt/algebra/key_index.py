"""The index of a leaf's keys: their hashes in order, the checks that tell keys with equal hashes apart, and the keys'
slots."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

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
