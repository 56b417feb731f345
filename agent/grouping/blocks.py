"""A block of events with its rows grouped by key."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class EventBlock:
    """Distinct keys of a block, as hashes in ascending order, how many events each has, and whose row each row is."""

    def __init__(self, hashes: npt.NDArray[np.uint64]) -> None:
        self.rows = len(hashes)
        self._order = np.argsort(hashes, kind="stable")
        ordered = hashes[self._order]
        begins = np.empty(len(hashes), bool)
        begins[0] = True
        np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
        self.starts = np.flatnonzero(begins)
        self.keys = ordered[self.starts]
        self.counts = np.diff(self.starts, append=len(hashes))

    def rows_of(self, keys: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Whether each row, in the order of keys, is one of these keys'."""
        return np.repeat(keys, self.counts)

    def in_order(self, by_key: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
        """The events' values in their own order, from those in the order of keys."""
        placed = np.empty_like(by_key)
        placed[self._order] = by_key
        return placed
