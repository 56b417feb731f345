"""A block of events with its rows grouped by key."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class EventBlock:
    """Distinct keys of a block, as hashes in ascending order, how many events each has, and whose row each row is."""

    def __init__(self, hashes: npt.NDArray[np.uint64]) -> None:
        self.rows = len(hashes)
        self._order = hashes.argsort(kind="stable")
        ordered = hashes[self._order]
        begins = np.empty(len(hashes), bool)
        begins[0] = True
        np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
        starts = begins.nonzero()[0]
        self.keys = ordered[starts]
        self.counts = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=self.counts[:-1])
        self.counts[-1] = self.rows - starts[-1]

    def rows_of(self, keys: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Whether each row, in the order of keys, is one of these keys'."""
        return keys.repeat(self.counts)

    def in_order(self, by_key: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        """The events' values in their own order, from those in the order of keys."""
        placed = np.empty_like(by_key)
        placed[self._order] = by_key
        return placed
