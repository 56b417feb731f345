"""Helpers of the machines that drive trees: limits so small that few rows make deep trees, and hashes that collide."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

import cbt.layout.layout
from cbt.native import library
from cbt.native.loading import SWITCH

LIMITS = st.fixed_dictionaries(
    {"buffer_rows": st.integers(1, 12), "fanout": st.integers(2, 4), "leaf_rows": st.integers(2, 6)},
    optional={"memory_limit_bytes": st.integers(1, 20_000)},
)
PANES = st.integers(-2, 3)
REAL_HASH = cbt.layout.layout.key_hash


@contextmanager
def without_kernel() -> Iterator[None]:
    """Trees made and used meanwhile have no kernel: with hashes of a test's own, for instance."""
    before = library.load()
    library.load.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, "0")
        library.load()
    yield
    library.load.cache_clear()
    assert library.load().reason == before.reason


def colliding_hash(keys: list[pl.Series], seed: int) -> pl.Series:
    """Three hashes for all keys."""
    return (REAL_HASH(keys, seed) % 3).alias("hash")


class MachineWithDisk(RuleBasedStateMachine):
    """Drives a tree that may write to `directory`, with keys hashed by `hashing`."""

    hashing = staticmethod(REAL_HASH)

    def __init__(self) -> None:
        super().__init__()
        self.directory = TemporaryDirectory()
        self._stack = ExitStack()
        if self.hashing is not REAL_HASH:
            self._stack.enter_context(without_kernel())
        cbt.layout.layout.key_hash = self.hashing

    def teardown(self) -> None:
        self.directory.cleanup()
        cbt.layout.layout.key_hash = REAL_HASH
        self._stack.close()
