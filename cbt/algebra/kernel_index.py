"""The index of a leaf's keys in the kernel: smaller than `LeafIndex`, and merged with those of many leaves at once.

Of a key's hash it keeps the place in the leaf's range, in 32 bits, so that hashes are taken from the keys again where
they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL

import numpy as np
import numpy.typing as npt

from cbt.algebra.key_index import Checks, Hashes, Rows

_PLACE_BITS = 32


class KernelIndex:
    """The identities of a leaf's keys, whose hashes are likely from `low` on and below `high`."""

    __slots__ = ("_address", "_library")

    def __init__(self, library: CDLL, low: int, high: int) -> None:
        self._library = library
        shift = max(0, (high - low - 1).bit_length() - _PLACE_BITS)
        self._address: int | None = library.elf_leaf_new(low, shift)
        if self._address is None:
            raise MemoryError("no memory for a leaf")

    def __del__(self) -> None:
        if self._address is not None:
            self._library.elf_leaf_free(self._address)

    def __len__(self) -> int:
        return int(self._library.elf_leaf_count(self._address))

    @property
    def nbytes(self) -> int:
        return int(self._library.elf_leaf_bytes(self._address))

    def order(self) -> tuple[Rows, Checks]:
        """The slots of all keys, ordered but where hashes are close, and their checks. O(leaf)."""
        slots, checks = np.empty(len(self), np.intp), np.empty(len(self), np.uint32)
        self._library.elf_leaf_order(self._address, slots.ctypes.data, checks.ctypes.data)
        return slots, checks

    @staticmethod
    def merge(
        indexes: Sequence[KernelIndex], bounds: npt.NDArray[np.int64], hashes: Hashes, checks: Checks
    ) -> tuple[Rows, Rows, Rows, list[list[int]]]:
        """Looks up identities, whose hashes ascend, and adds those that are not there: each index has the rows between
        two of `bounds`. Returns the rows that were there, their slots, the other rows, and the ends of the first and
        of the last for each index."""
        library = indexes[0]._library
        addresses = np.array([index._address for index in indexes], np.uint64)
        found, slots, others = np.empty((3, len(hashes)), np.intp)
        ends = np.empty((len(indexes), 2), np.int64)
        if not library.elf_leaves_merge(
            addresses.ctypes.data, bounds.ctypes.data, len(indexes), hashes.ctypes.data, checks.ctypes.data,
            found.ctypes.data, slots.ctypes.data, others.ctypes.data, ends.ctypes.data,
        ):  # fmt: skip
            raise MemoryError("no memory for the keys of leaves")
        return found, slots, others, ends.tolist()
