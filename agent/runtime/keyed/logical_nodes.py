"""Maps keys to logical nodes, and logical nodes to keys of the ring (S4, section II.D).

Emitters know logical nodes only. It is one pure function of the key, the same on every agent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

import cbt
from overlay import Id, tree_id

NODES = 1024
"""Number of logical nodes of each job."""
_SEED = 0
_SHIFT = np.uint64(64 - 10)
_FIRST_RING_KEY = 1 << 16
"""Number of the first ring key of a job that is a logical node's, beyond those of its trees."""


def nodes_of(key: Sequence[pl.Series]) -> pl.Series:
    """The logical node of each row's key, from the columns of the key: UInt16, named `@node`. O(rows · columns).

    >>> nodes_of([pl.Series(["a", "b", "a"])]).to_list()
    [878, 991, 878]
    """
    hashes = cbt.key_hash(key, _SEED).to_numpy()
    return pl.Series("@node", (hashes >> _SHIFT).astype(np.uint16))


def ring_key(app_id: Id, node: int) -> Id:
    """The place of a logical node in the ring: its root is the agent closest to it."""
    return tree_id(app_id, _FIRST_RING_KEY + node)
