"""A tree of which most is on disk behaves as a dict, also while the disk is full now and then."""

from collections import Counter
from contextlib import suppress

import polars as pl
from full_disk import full_disk
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from small_trees import MachineWithDisk, colliding_hash

from cbt import Aggregate, CompressedBufferTree, Key, SpillError

PANES = st.integers(0, 1)
STARTS = st.integers(0, 30)


class SpillMachine(MachineWithDisk):
    @initialize(
        limit_bytes=st.sampled_from([1, 300, 1500, 4000]),
        buffer_rows=st.integers(1, 40),
        fanout=st.integers(2, 8),
        leaf_rows=st.integers(4, 160),
    )
    def plant(self, limit_bytes: int, buffer_rows: int, fanout: int, leaf_rows: int) -> None:
        self.limit_bytes, self.may_be_over = limit_bytes, False
        self.tree = CompressedBufferTree(
            [Key("k", "integer")],
            [Aggregate("n", "count", None, "any")],
            buffer_rows=buffer_rows,
            fanout=fanout,
            leaf_rows=leaf_rows,
            memory_limit_bytes=limit_bytes,
            spill_directory=self.directory.name,
        )
        self.model: Counter[tuple[int, int]] = Counter()

    @rule(pane=PANES, start=STARTS, count=st.integers(1, 40))
    def insert(self, pane: int, start: int, count: int) -> None:
        numbers = range(start, start + count)
        self.model.update((pane, k) for k in numbers)
        self.tree.insert(pl.DataFrame({"pane": [pane] * count, "k": numbers}))

    @rule(pane=PANES, start=STARTS)
    def insert_while_the_disk_is_full(self, pane: int, start: int) -> None:
        with full_disk(), suppress(SpillError):
            self.insert(pane, start, 20)
        self.may_be_over = True

    @rule()
    def flush(self) -> None:
        rows = [row for frame in self.tree.flush() for row in frame.select("pane", "k", "n.n").rows()]
        assert len(rows) == len(self.model)
        assert {(pane, k): n for pane, k, n in rows} == self.model
        self.may_be_over = False

    @rule(pane=PANES)
    def empty(self, pane: int) -> None:
        self.tree.empty(pane)
        self.model = Counter({key: n for key, n in self.model.items() if key[0] != pane})

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "tree"):
            self.tree.check()
            assert self.may_be_over or self.tree.memory_bytes <= self.limit_bytes


class CollidingSpillMachine(SpillMachine):
    hashing = staticmethod(colliding_hash)


MACHINE_SETTINGS = settings(max_examples=settings.default.max_examples // 6, stateful_step_count=20)
TestSpilling = SpillMachine.TestCase
TestSpilling.settings = MACHINE_SETTINGS
TestCollidingSpilling = CollidingSpillMachine.TestCase
TestCollidingSpilling.settings = MACHINE_SETTINGS
