"""The keys of a leaf in the kernel: their index, smaller than `LeafIndex`, their states, and the texts that came last.
Rows are merged into many leaves at once.

Of a key's hash it keeps the place in the leaf's range, in 32 bits, so that hashes are taken from the keys again where
they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import CDLL, byref, c_void_p
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cbt.algebra.key_index import Checks, Hashes, Rows
from cbt.native.library import ANY, LEAF_FIGURES, LEAST_RANK, Batch, Texts

_PLACE_BITS = 32
_TYPES = {LEAST_RANK: np.uint64, LEAST_RANK + 1: np.uint64, ANY: np.bool_}
Values = npt.NDArray[Any]


class TextColumn(NamedTuple):
    """Texts by rows: their bytes, where each ends, and which are not NULL (None: all)."""

    text: bytes
    ends: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_] | None


class NewRows(NamedTuple):
    """Rows for leaves, whose hashes ascend: identities, states by part, and the row of each in `texts`, which are not
    taken if there are none. Parts that are neutral throughout are missing."""

    hashes: Hashes
    checks: Checks
    states: Mapping[str, Values]
    rows: Rows
    texts: TextColumn | None


class KernelIndex:
    """The keys of a leaf, whose hashes are likely from `low` on and below `high`, and the `parts` of their states, each
    with the kernel's number of how it is merged."""

    __slots__ = ("_address", "_library", "_parts")

    def __init__(self, library: CDLL, low: int, high: int, parts: Mapping[str, int]) -> None:
        self._library, self._parts = library, parts
        shift = max(0, (high - low - 1).bit_length() - _PLACE_BITS)
        self._address: int | None = library.elf_leaf_new(low, shift, bytes(parts.values()), len(parts))
        if self._address is None:
            raise MemoryError("no memory for a leaf")

    def __del__(self) -> None:
        if self._address is not None:
            self._library.elf_leaf_free(self._address)

    def __len__(self) -> int:
        return int(self._library.elf_leaf_count(self._address))

    @property
    def nbytes(self) -> int:
        """Bytes of the identities and states."""
        return int(self._library.elf_leaf_bytes(self._address))

    @property
    def texts_count(self) -> int:
        """The number of texts that came last."""
        return int(self._library.elf_tail_count(self._address))

    @property
    def texts_nbytes(self) -> int:
        return int(self._library.elf_tail_bytes(self._address)) + 4 * self.texts_count

    def order(self) -> tuple[Rows, Checks]:
        """The slots of all keys, ordered but where hashes are close, and their checks. O(leaf)."""
        slots, checks = np.empty(len(self), np.intp), np.empty(len(self), np.uint32)
        self._library.elf_leaf_order(self._address, slots.ctypes.data, checks.ctypes.data)
        return slots, checks

    def states(self, slots: Rows) -> dict[str, Values]:
        """The states of some slots, by part. O(slots)."""
        found: dict[str, Values] = {}
        for number, (part, merging) in enumerate(self._parts.items()):
            values: Values = np.empty(len(slots), _TYPES.get(merging, np.int64))
            if self._library.elf_leaf_states(
                self._address, number, slots.ctypes.data, len(slots), values.ctypes.data
            ):  # fmt: skip
                found[part] = values
        return found

    def texts(self) -> tuple[npt.NDArray[np.bool_] | None, npt.NDArray[np.int64], bytes]:
        """The texts that came last: which are not NULL, their lengths, and their bytes."""
        count = self.texts_count
        valid, lengths = np.empty(count, np.bool_), np.empty(count, np.int64)
        text = np.empty(self._library.elf_tail_bytes(self._address), np.uint8)
        self._library.elf_tail_copy(self._address, valid.ctypes.data, lengths.ctypes.data, text.ctypes.data)
        return None if valid.all() else valid, lengths, text.tobytes()

    def append_texts(self, texts: TextColumn) -> None:
        """Adds texts to those that came last."""
        rows = np.arange(len(texts.ends))
        if not self._library.elf_tail_append(self._address, byref(_texts(texts)), rows.ctypes.data, len(rows)):
            raise MemoryError("no memory for the keys of a leaf")

    def clear_texts(self) -> None:
        self._library.elf_tail_clear(self._address)

    @staticmethod
    def merge(
        indexes: Sequence[KernelIndex], bounds: npt.NDArray[np.int64], new: NewRows
    ) -> tuple[Rows, Rows, Rows, list[list[int]]]:
        """Looks up rows, merges the states of those whose keys are there, and adds the others: each index has the rows
        between two of `bounds`. Returns the rows that were there, their slots, the other rows, and of each index its
        `LEAF_FIGURES`."""
        library, parts = indexes[0]._library, indexes[0]._parts
        addresses = np.array([index._address for index in indexes], np.uint64)
        found, slots, others = np.empty((3, len(new.hashes)), np.intp)
        figures = np.empty((len(indexes), LEAF_FIGURES), np.int64)
        states: dict[str, Values] = {
            part: np.ascontiguousarray(values, _TYPES.get(parts[part], np.int64)) for part, values in new.states.items()
        }
        addresses_of_states = (c_void_p * max(1, len(parts)))(
            *(states[part].ctypes.data if part in states else None for part in parts)
        )
        texts = Texts() if new.texts is None else _texts(new.texts)
        batch = Batch(new.hashes.ctypes.data, new.checks.ctypes.data, addresses_of_states, new.rows.ctypes.data, texts)
        if not library.elf_leaves_merge(
            addresses.ctypes.data, bounds.ctypes.data, len(indexes), byref(batch), found.ctypes.data,
            slots.ctypes.data, others.ctypes.data, figures.ctypes.data,
        ):  # fmt: skip
            raise MemoryError("no memory for the keys of leaves")
        return found, slots, others, figures.tolist()


def _texts(texts: TextColumn) -> Texts:
    """Texts as the kernel takes them; they have to outlive it."""
    valid = None if texts.valid is None else texts.valid.ctypes.data
    return Texts(np.frombuffer(texts.text, np.uint8).ctypes.data, texts.ends.ctypes.data, valid)
