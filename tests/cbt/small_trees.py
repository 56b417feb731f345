"""What machines that drive trees share: limits so small that a few rows make deep trees, and hashes that collide."""

import polars as pl
from hypothesis import strategies as st

import cbt.layout

LIMITS = st.fixed_dictionaries(
    {"buffer_rows": st.integers(1, 12), "fanout": st.integers(2, 4), "leaf_rows": st.integers(2, 6)},
    optional={"memory_limit_bytes": st.integers(1, 20_000)},
)
PANES = st.integers(-2, 3)
REAL_HASH = cbt.layout.key_hash


def colliding_hash(keys: list[pl.Series], seed: int) -> pl.Series:
    """Three hashes for all keys."""
    return (REAL_HASH(keys, seed) % 3).alias("hash")
