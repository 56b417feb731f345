"""The index of a leaf's keys: their hashes in order, the checks that tell keys with equal hashes apart, and the keys'
slots. A key's slot is the number of keys that were added before it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Checks = npt.NDArray[np.uint32]
Rows = npt.NDArray[np.intp]

_RECENT_MIN, _RECENT_SHARE = 64, 8


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


class LeafIndex:
    """The identities of a leaf's keys.

    New keys are *recent* until they are an eighth as many as the others: inserting them in order costs a pass over all.
    """

    __slots__ = ("_known", "_recent")

    def __init__(self) -> None:
        self._known, self._recent = KeyIndex(), KeyIndex()

    def __len__(self) -> int:
        return len(self._known) + len(self._recent)

    @property
    def nbytes(self) -> int:
        return self._known.nbytes + self._recent.nbytes

    def merge(self, hashes: Hashes, checks: Checks) -> tuple[Rows, Rows, Rows]:
        """Looks up identities, whose hashes ascend, and adds those that are not there. Returns the rows that were
        there, their slots, and the other rows. O(n log leaf + recent)."""
        rows = places = np.arange(len(hashes))
        found, slots = [rows[:0]], [rows[:0]]
        for identities in (self._known, self._recent):
            places, is_there = identities.find(hashes[rows], checks[rows])
            there, others = np.flatnonzero(is_there), np.flatnonzero(~is_there)
            found.append(rows[there])
            slots.append(identities.slots[places[there]].astype(np.intp))
            rows, places = rows[others], places[others]
        if len(rows):
            first = len(self)
            self._recent.insert(places, hashes[rows], checks[rows], np.arange(first, first + len(rows)))
            if len(self._recent) > max(_RECENT_MIN, len(self._known) // _RECENT_SHARE):
                self._known, self._recent = self._whole(), KeyIndex()
        return np.concatenate(found), np.concatenate(slots), rows

    def order(self) -> tuple[Rows, Hashes, Checks]:
        """The slots, hashes and checks of all keys, in order. O(leaf)."""
        whole = self._whole()
        return whole.slots.astype(np.intp), whole.hashes, whole.checks

    def _whole(self) -> KeyIndex:
        """The index of all keys, recent ones included. O(leaf)."""
        if not len(self._recent):
            return self._known
        if not len(self._known):
            return self._recent
        whole = self._known.copy()
        places, _ = whole.find(self._recent.hashes, self._recent.checks)
        whole.insert(places, self._recent.hashes, self._recent.checks, self._recent.slots)
        return whole


def _interleaved(is_old: npt.NDArray[np.bool_], old: npt.NDArray[Any], at: Rows, new: npt.NDArray[Any]) -> Any:
    whole = np.empty(len(is_old), dtype=old.dtype)
    whole[is_old] = old
    whole[at] = new
    return whole
