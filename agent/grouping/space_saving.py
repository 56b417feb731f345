"""Counts the most frequent keys of a stream in bounded memory: SpaceSaving (Metwally and others, 2005), by blocks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Slots = npt.NDArray[np.int64]


class SpaceSaving:
    """Counts of at most `capacity` keys, each in a slot of its own; a new key takes the slot of the least and adds to
    its count, so that true <= count <= true + least.

    Rows of a block count key by key: those in the table first, then new ones in the order of their hashes.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.total = 0.0
        self.hashes = np.empty(capacity, np.uint64)
        self.counts = np.zeros(capacity)
        self.size = 0
        self._sorted = np.empty(0, np.uint64)
        self._slots = np.empty(0, np.int64)

    def add(self, keys: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64]) -> tuple[Slots, Slots]:
        """Counts distinct keys. Gives the slot of each, -1 where a later one has taken it, and the slots with new keys.
        O(keys · log capacity + capacity · log capacity)."""
        self.total += float(counts.sum())
        slots = self.find(keys)
        new = (slots < 0).nonzero()[0]
        if not len(new):
            self.counts[slots] += counts
            return slots, _NONE
        there = slots >= 0
        self.counts[slots[there]] += counts[there]
        taken = slots[new] = self._enter(keys[new], counts[new])
        self._index()
        slots[self.hashes[slots] != keys] = -1
        return slots, taken

    def find(self, keys: npt.NDArray[np.uint64]) -> Slots:
        """The slot of each key, -1 where it has none. O(keys · log capacity)."""
        if not self.size:
            return np.full(len(keys), -1)
        at = self._sorted.searchsorted(keys)
        found = self._slots.take(at, mode="clip")
        found[self.hashes[found] != keys] = -1
        return found

    def decay(self, factor: float) -> None:
        """Multiplies all counts, and their sum."""
        self.counts *= factor
        self.total *= factor

    def resize(self, capacity: int) -> Slots:
        """Changes the capacity, keeping the largest counts. Gives the former slots of what is in the first slots."""
        kept = np.argsort(-self.counts[: self.size], kind="stable")[:capacity]
        hashes, counts = self.hashes[kept], self.counts[kept]
        self.capacity, self.size = capacity, len(kept)
        self.hashes, self.counts = np.empty(capacity, np.uint64), np.zeros(capacity)
        self.hashes[: self.size], self.counts[: self.size] = hashes, counts
        self._index()
        return kept

    def above(self, count: float) -> Slots:
        """Slots with larger counts, the largest first, equal ones in their order."""
        found = np.flatnonzero(self.counts[: self.size] > count)
        return found[np.argsort(-self.counts[found], kind="stable")]

    def _enter(self, keys: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64]) -> Slots:
        """Gives slots to new keys: free ones first, then those of the least counts, one after the other."""
        free = min(self.capacity - self.size, len(keys))
        taken = np.empty(len(keys), np.int64)
        taken[:free] = np.arange(self.size, self.size + free)
        self.counts[taken[:free]] = counts[:free]
        self.hashes[taken[:free]] = keys[:free]
        self.size += free
        done = free
        while done < len(keys):
            next_least = self._least(len(keys) - done)
            these = slice(done, done + len(next_least))
            taken[these] = next_least
            self.counts[next_least] += counts[these]
            self.hashes[next_least] = keys[these]
            done += len(next_least)
        return taken

    def _least(self, most: int) -> Slots:
        """Slots that are replaced before any that a replacement makes, in this order, at most so many."""
        found = (self.counts < self.counts.min() + 1).nonzero()[0]
        counts = self.counts[found]
        if most < len(found) // 4:
            among = (counts <= np.partition(counts, most - 1)[most - 1]).nonzero()[0]
            found, counts = found[among], counts[among]
        replaced: Slots = found[counts.argsort(kind="stable")[:most]]
        return replaced

    def _index(self) -> None:
        hashes = self.hashes[: self.size]
        self._slots = hashes.argsort()
        self._sorted = hashes[self._slots]


_NONE = np.empty(0, np.int64)
