"""Maps keys to logical nodes, and logical nodes to keys of the ring (S4, section II.D).

Emitters know logical nodes only. It is one pure function of the key, the same on every agent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

import cbt
from overlay import Id, tree_id

NODES = 1024
"""Number of logical nodes of each job."""
_SEED = 0
_BITS = 10
_FIRST_RING_KEY = 1 << 16
"""Number of the first ring key of a job that is a logical node's, beyond those of its trees."""


def nodes_of(key: Sequence[pl.Series]) -> pl.Series:
    """The logical node of each row's key, from the columns of the key: UInt16, named `@node`. O(rows · columns).

    >>> nodes_of([pl.Series(["a", "b", "a"])]).to_list()
    [878, 991, 878]
    """
    return pl.Series("@node", node_numbers(pl.DataFrame([column.alias(str(n)) for n, column in enumerate(key)])))


def node_numbers(keys: pl.DataFrame) -> npt.NDArray[np.uint16]:
    """The logical nodes of keys, whose columns are a frame's."""
    return cbt.key_places(keys, _SEED, _BITS)


def ring_key(app_id: Id, node: int) -> Id:
    """The place of a logical node in the ring: its root is the agent closest to it."""
    return tree_id(app_id, _FIRST_RING_KEY + node)
