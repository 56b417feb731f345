"""Maps keys to logical nodes, and logical nodes to keys of the ring (S4, section II.D).

Emitters know logical nodes only. It is one pure function of the key, the same on every agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import polars as pl

import cbt
from overlay import Id, tree_id

NODES = 1024
"""Number of logical nodes of each job."""
Hashes = npt.NDArray[np.uint64]
_SEED = 0
_BITS = 10
_FIRST_RING_KEY = 1 << 16
"""Number of the first ring key of a job that is a logical node's, beyond those of its trees."""


class BegunNodes(NamedTuple):
    """Logical nodes that have been begun somewhere, as bits, and an epoch that none of them was beyond."""

    epoch: int = 0
    bits: bytes = b""

    @classmethod
    def of(cls, epochs: npt.NDArray[np.int64]) -> Self:
        """The nodes whose epochs are not 0."""
        return cls(int(epochs.max()), packed(epochs > 0))

    @property
    def epochs(self) -> npt.NDArray[np.int64]:
        """For each node an epoch that it was not beyond, 0 where it is not known to have been begun."""
        return np.where(in_any([self.bits]), self.epoch, 0).astype(np.int64)


NONE_BEGUN = BegunNodes()


def mask_of(nodes: Sequence[int] | npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
    """For each logical node whether it is one of these."""
    found = np.zeros(NODES, bool)
    found[nodes] = True
    return found


def packed(nodes: npt.NDArray[np.bool_]) -> bytes:
    """A bit for each logical node."""
    return np.packbits(nodes, bitorder="little").tobytes()


def in_any(bitmaps: Iterable[bytes]) -> npt.NDArray[np.bool_]:
    """The nodes whose bits are set in any of some bitmaps, whatever their lengths are."""
    found = 0
    for bitmap in bitmaps:
        found |= int.from_bytes(bitmap[: NODES // 8], "little")
    return np.unpackbits(np.frombuffer(found.to_bytes(NODES // 8, "little"), np.uint8), bitorder="little").astype(bool)


def nodes_of(key: Sequence[pl.Series]) -> pl.Series:
    """The logical node of each row's key, from the columns of the key: UInt16, named `@node`. O(rows · columns).

    >>> nodes_of([pl.Series(["a", "b", "a"])]).to_list()
    [878, 991, 878]
    """
    return pl.Series("@node", node_numbers(pl.DataFrame([column.alias(str(n)) for n, column in enumerate(key)])))


def node_numbers(keys: pl.DataFrame) -> npt.NDArray[np.uint16]:
    """The logical nodes of keys, whose columns are a frame's."""
    return cbt.key_places(keys, _SEED, _BITS)


def key_hashes(keys: pl.DataFrame) -> Hashes:
    """The hashes of keys, whose upper bits are their logical nodes."""
    return cbt.key_hash(keys, _SEED).to_numpy()


@lru_cache(maxsize=1 << 14)
def ring_key(app_id: Id, node: int) -> Id:
    """The place of a logical node in the ring: its root is the agent closest to it."""
    return tree_id(app_id, _FIRST_RING_KEY + node)
