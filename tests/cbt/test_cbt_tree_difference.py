"""The rows between two flushes of a tree are the later flush without the earlier, to the last bit."""

from collections import Counter

import polars as pl
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from small_trees import LIMITS, PANES, MachineWithDisk, colliding_hash

from cbt import Aggregate, CompressedBufferTree, Key
from cbt.windows.subtraction import subtract_frames

KEYS = [Key("k", "integer")]
AGGREGATES = [Aggregate("n", "count", "x", "integer"), Aggregate("total", "sum", "x", "integer")]
KEY_PARTS = st.none() | st.integers(0, 12)
VALUES = st.none() | st.integers(-9, 9) | st.sampled_from([2**63 - 1, -(2**63)])


class DifferenceMachine(MachineWithDisk):
    @initialize(limits=LIMITS)
    def plant(self, limits: dict[str, int]) -> None:
        directory = self.directory.name if "memory_limit_bytes" in limits else None
        self.tree = CompressedBufferTree(KEYS, AGGREGATES, spill_directory=directory, **limits)
        self.remember()

    @rule(pane=PANES, rows=st.lists(st.tuples(KEY_PARTS, VALUES), min_size=1, max_size=25), repeated=st.integers(1, 3))
    def insert(self, pane: int, rows: list[tuple[int | None, int | None]], repeated: int) -> None:
        k, x = (pl.Series(values, dtype=pl.Int64) for values in zip(*rows * repeated, strict=True))
        self.tree.insert(pl.DataFrame({"pane": pl.repeat(pane, len(k), dtype=pl.Int64, eager=True), "k": k, "x": x}))
        for k, x in rows * repeated:
            self.counts[pane, k] += x is not None
            self.sums[pane, k] += x or 0

    @rule()
    def remember(self) -> None:
        self.earlier = self.flushed()
        self.counts: Counter[tuple[int, int | None]] = Counter()
        self.sums: Counter[tuple[int, int | None]] = Counter()

    @rule(pane=PANES)
    def empty(self, pane: int) -> None:
        self.tree.empty(pane)
        self.remember()

    @rule()
    def restore(self) -> None:
        self.tree.restore(self.tree.snapshot())

    @rule()
    def subtract(self) -> None:
        layout = self.tree.layout
        later = self.flushed()
        difference = layout.lower(subtract_frames(layout, later, self.earlier))
        assert difference.height == later.height
        assert {(pane, k): (n, total) for pane, k, n, total in difference.rows()} == {
            (pane, k): (self.counts[pane, k], self.sums[pane, k] if self.counts[pane, k] else None)
            for pane, k in later.select("pane", "k").rows()
        }
        assert set(self.counts) <= set(later.select("pane", "k").rows())

    def flushed(self) -> pl.DataFrame:
        return pl.concat([self.tree.layout.empty(), *self.tree.flush()])

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "tree"):
            self.tree.check()


class CollidingDifferenceMachine(DifferenceMachine):
    hashing = staticmethod(colliding_hash)


MACHINE_SETTINGS = settings(max_examples=settings.default.max_examples // 6, stateful_step_count=15)
TestDifference = DifferenceMachine.TestCase
TestDifference.settings = MACHINE_SETTINGS
TestCollidingDifference = CollidingDifferenceMachine.TestCase
TestCollidingDifference.settings = MACHINE_SETTINGS
