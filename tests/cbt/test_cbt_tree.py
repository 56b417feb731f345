"""The compressed buffer tree behaves as a dict of exact Python numbers, however deep it is."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from full_disk import full_disk
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from small_trees import LIMITS, PANES, MachineWithDisk, colliding_hash, without_kernel

import cbt.layout.layout
from cbt import Aggregate, CompressedBufferTree, Key, SpillError, canonical_json
from cbt.algebra.partitions import partition_of

KEYS = [Key("k", "any"), Key("s", "string")]
AGGREGATES = [
    Aggregate("n", "count", None, "any"),
    Aggregate("total", "sum", "x", "number"),
    Aggregate("top", "max", "x", "number"),
]
KEY_PARTS = st.sampled_from(
    [
        None,
        True,
        0,
        1,
        1.0,
        -0.0,
        2.5,
        float("nan"),
        2**53,
        2.0**53,
        "",
        "1",
        "a-string-of-more-than-twelve-bytes",
    ]
) | st.integers(0, 40)
VALUES = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-999, 999).map(lambda cents: cents / 100)
ROWS = st.lists(st.tuples(PANES, KEY_PARTS, st.sampled_from([None, "", "b"]), VALUES), min_size=1, max_size=25)

OTHER_THREAD = ThreadPoolExecutor(1)

ModelKey = tuple[int, str | None, str | None]


class Group:
    """One key's state in the model."""

    def __init__(self) -> None:
        self.n = 0
        self.values: list[float] = []

    def lowered(self) -> tuple[int, float | None, float | None]:
        if not self.values:
            return self.n, None, None
        return self.n, float(sum(map(Fraction, self.values))), float(max(self.values, key=Fraction))


class TreeMachine(MachineWithDisk):
    @initialize(limits=LIMITS, on_two_threads=st.booleans())
    def plant(self, limits: dict[str, int], on_two_threads: bool) -> None:
        self.executor = OTHER_THREAD if on_two_threads else None
        self.tree = self._new(limits)
        self.model: dict[ModelKey, Group] = {}

    def _new(self, limits: dict[str, int]) -> CompressedBufferTree:
        self.limits = limits
        directory = self.directory.name if "memory_limit_bytes" in limits else None
        return CompressedBufferTree(
            KEYS, AGGREGATES, seed=1, spill_directory=directory, executor=self.executor, **limits
        )

    @rule(rows=ROWS)
    def insert(self, rows: list[tuple[int, object, str | None, float | None]]) -> None:
        for pane, k, s, x in rows:
            self.tree.insert(pl.DataFrame({"pane": [pane], "k": [k], "s": [s], "x": [x]}))
            self._add(pane, k, s, x)

    @precondition(lambda self: "memory_limit_bytes" in self.limits)
    @rule(pane=PANES, start=st.integers(0, 10**6))
    def insert_while_the_disk_is_full(self, pane: int, start: int) -> None:
        with full_disk(), suppress(SpillError):
            self.insert_many(pane, start, 30, 1)
            self.tree.check()
        list(self.tree.flush())

    @rule(pane=PANES, start=st.integers(0, 10**6), count=st.integers(1, 60), x=VALUES)
    def insert_many(self, pane: int, start: int, count: int, x: float | None) -> None:
        numbers = range(start, start + count)
        for number in numbers:
            self._add(pane, number, "many", x)
        self.tree.insert(
            pl.DataFrame({"pane": [pane] * count, "k": list(numbers), "s": ["many"] * count, "x": [x] * count})
        )

    def _add(self, pane: int, k: object, s: str | None, x: float | None) -> None:
        group = self.model.setdefault((pane, canonical_json(pl.Series([k])).item(), s), Group())
        group.n += 1
        if x is not None:
            group.values.append(x)

    @rule(pane=st.none() | PANES)
    def flush(self, pane: int | None) -> None:
        expected = {key: group.lowered() for key, group in self.model.items() if pane in (None, key[0])}
        self._expect(list(self.tree.flush(pane)), expected)

    @rule(upto=PANES)
    def flush_upto(self, upto: int) -> None:
        expected = {key: group.lowered() for key, group in self.model.items() if key[0] <= upto}
        self._expect(list(self.tree.flush(upto=upto)), expected)

    @rule(partitions=st.sampled_from([1, 2, 3, 16, 2**32]), pane=st.none() | PANES)
    def flush_partitions(self, partitions: int, pane: int | None) -> None:
        expected = {key: group.lowered() for key, group in self.model.items() if pane in (None, key[0])}
        pairs = list(self.tree.flush(pane, partitions=partitions))
        self._expect([frame for _, frame in pairs], expected)
        for partition, frame in pairs:
            assert {partition_of(hash_, partitions) for hash_ in frame["hash"]} == {partition}

    def _expect(
        self, frames: list[pl.DataFrame], expected: dict[ModelKey, tuple[int, float | None, float | None]]
    ) -> None:
        assert all(0 < frame.height <= self.limits["leaf_rows"] for frame in frames)
        rows = [row for frame in frames for row in self._lowered(frame)]
        assert len(rows) == len(expected), "every key appears once"
        assert dict(rows) == expected
        order = [bounds for frame in frames for bounds in frame.select("pane", "hash").rows()]
        assert order == sorted(order)

    def _lowered(self, frame: pl.DataFrame) -> Iterator[tuple[ModelKey, tuple[int, float | None, float | None]]]:
        for pane, k, s, n, total, top in self.tree.layout.lower(frame).rows():
            doubles = (None if total is None else float(total), None if top is None else float(top))
            yield (pane, k, s), (n, *doubles)

    @rule()
    def snapshot_and_restore(self) -> None:
        self.tree.restore(self.tree.snapshot())

    @rule(limits=LIMITS)
    def move(self, limits: dict[str, int]) -> None:
        snapshot = self.tree.snapshot()
        self.tree = self._new(limits)
        self.tree.restore(snapshot)

    @rule()
    def flush_a_part(self) -> None:
        next(self.tree.flush(), None)

    @precondition(lambda self: len(self.model) > 20)
    @rule()
    def empty(self) -> None:
        self.tree.empty()
        self.model.clear()
        assert self.tree.memory_bytes == 0

    @rule(pane=PANES)
    def empty_pane(self, pane: int) -> None:
        self.tree.empty(pane)
        self.model = {key: group for key, group in self.model.items() if key[0] != pane}
        assert not list(self.tree.flush(pane))

    @rule(upto=PANES)
    def empty_upto(self, upto: int) -> None:
        self.tree.empty(upto=upto)
        self.model = {key: group for key, group in self.model.items() if key[0] > upto}
        assert not list(self.tree.flush(upto=upto))

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "tree"):
            self.tree.check()
            assert self.tree.memory_bytes <= self.limits.get("memory_limit_bytes", 2**30)
            files = [path for path in Path(self.directory.name).rglob("*") if path.is_file()]
            assert sum(path.stat().st_size for path in files) == self.tree.statistics().disk_bytes


class CollidingTreeMachine(TreeMachine):
    hashing = staticmethod(colliding_hash)


class HugeKeyTreeMachine(TreeMachine):
    @rule(pane=PANES, letter=st.sampled_from("abcd"), count=st.integers(1, 3), x=VALUES)
    def insert_huge(self, pane: int, letter: str, count: int, x: float | None) -> None:
        for number in range(count):
            text = f"{number}" + letter * 2**20
            self._add(pane, text, text, x)
            self.tree.insert(pl.DataFrame({"pane": [pane], "k": [text], "s": [text], "x": [x]}))


MACHINE_SETTINGS = settings(max_examples=settings.default.max_examples // 5, stateful_step_count=15)
TestTree = TreeMachine.TestCase
TestTree.settings = MACHINE_SETTINGS
TestCollidingTree = CollidingTreeMachine.TestCase
TestCollidingTree.settings = MACHINE_SETTINGS
TestHugeKeyTree = HugeKeyTreeMachine.TestCase
TestHugeKeyTree.settings = settings(max_examples=max(1, settings.default.max_examples // 20), stateful_step_count=8)


def counting(**limits: int) -> CompressedBufferTree:
    return CompressedBufferTree([Key("k", "integer")], [Aggregate("n", "count", None, "any")], **limits)


def keys(start: int, stop: int, pane: int = 0) -> pl.DataFrame:
    return pl.DataFrame({"pane": pl.repeat(pane, stop - start, dtype=pl.Int64, eager=True), "k": range(start, stop)})


def counts(tree: CompressedBufferTree, pane: int | None = None) -> dict[int, int]:
    return {k: n for frame in tree.flush(pane) for k, n in frame.select("k", "n.n").rows()}


def test_a_deep_tree() -> None:
    tree = counting(buffer_rows=32, fanout=2, leaf_rows=16)
    for start in range(0, 1400, 50):
        tree.insert(keys(start, start + 100))
    statistics = tree.statistics()
    assert statistics.levels > 4
    assert statistics.leaves > 100
    assert statistics.stored_rows + statistics.buffered_rows >= 1450
    tree.check()
    assert counts(tree) == {k: 1 if k < 50 or k >= 1400 else 2 for k in range(1450)}


def test_keys_that_repeat_take_no_more_room() -> None:
    tree = counting(buffer_rows=100, fanout=4, leaf_rows=64)
    for _ in range(100):
        tree.insert(keys(0, 40))
    statistics = tree.statistics()
    assert statistics.fragments == 0
    assert statistics.stored_rows <= 40
    assert 40 <= statistics.stored_rows + statistics.buffered_rows < 140
    assert counts(tree) == dict.fromkeys(range(40), 100)


def test_one_distinct_key_cannot_split_a_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_hash(columns: list[pl.Series], seed: int) -> pl.Series:  # noqa: ARG001
        return pl.Series("hash", [2**64 - 1] * len(columns[0]), dtype=pl.UInt64)

    monkeypatch.setattr(cbt.layout.layout, "key_hash", one_hash)
    with without_kernel():
        tree = counting(buffer_rows=4, fanout=2, leaf_rows=2)
        tree.insert(keys(0, 50))
        tree.insert(keys(0, 50))
        tree.check()
        assert counts(tree) == dict.fromkeys(range(50), 2)


def test_a_leaf_with_few_hashes_is_split_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def few_hashes(columns: list[pl.Series], seed: int) -> pl.Series:  # noqa: ARG001
        return ((columns[0] + 2) // 4).cast(pl.UInt64).alias("hash")

    monkeypatch.setattr(cbt.layout.layout, "key_hash", few_hashes)
    with without_kernel():
        tree = counting(buffer_rows=1, fanout=2, leaf_rows=4)
        tree.insert(keys(0, 7))
        tree.check()
        assert counts(tree) == dict.fromkeys(range(7), 1)


def test_reading_in_the_middle_changes_nothing() -> None:
    tree = counting(buffer_rows=8, fanout=2, leaf_rows=4)
    for start in range(0, 100, 10):
        tree.insert(keys(start, start + 20))
        next(tree.flush())
        list(tree.flush())
    assert sum(counts(tree).values()) == 200


def test_a_tree_that_changes_ends_its_flushes() -> None:
    tree = counting(leaf_rows=2)
    tree.insert(keys(0, 10))
    for change in (lambda: tree.insert(keys(0, 1)), lambda: tree.empty(5), tree.empty):
        flush = tree.flush()
        change()
        with pytest.raises(RuntimeError, match="changed"):
            list(flush)
        tree.insert(keys(0, 10))


def test_panes_come_and_go() -> None:
    tree = counting(buffer_rows=16, fanout=2, leaf_rows=8)
    for pane in range(8):
        tree.insert(keys(0, 100, pane))
        if pane >= 3:
            assert counts(tree, pane - 3) == dict.fromkeys(range(100), 1)
            tree.empty(pane - 3)
        tree.check()
    assert tree.statistics().nodes < 400
    for pane in range(8):
        tree.empty(pane)
    assert tree.memory_bytes == 0
    assert tree.statistics().nodes == 1


def test_a_tree_of_which_little_is_left_is_low_again() -> None:
    tree = counting(buffer_rows=16, fanout=16, leaf_rows=8)
    for pane in range(20):
        tree.insert(keys(0, 100, pane))
    assert tree.statistics().levels > 3
    tree.empty(upto=18)
    tree.insert(keys(0, 16, 30))
    tree.empty(19)
    assert counts(tree) == dict.fromkeys(range(16), 1)
    assert tree.statistics().levels == 2
    tree.check()


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1, 20, 127, 128, 200, 40_000])), max_size=12))
@example([(0, 20), (1, 20), (0, 20), (1, 20), (1, 20), (2, 130)])
def test_counts_of_any_size_are_kept(batches: list[tuple[int, int]]) -> None:
    """Counts are held as narrow as they may be, and keys come and grow in any order."""
    tree = counting(buffer_rows=1)
    model: Counter[int] = Counter()
    for k, count in batches:
        tree.insert(pl.DataFrame({"pane": [0] * count, "k": [k] * count}))
        model[k] += count
    assert counts(tree) == model


@pytest.mark.slow
def test_huge_keys_fill_buffers_by_their_bytes() -> None:
    tree = CompressedBufferTree([Key("k", "string")], [Aggregate("n", "count", None, "any")])
    for n in range(100):
        tree.insert(pl.DataFrame({"pane": [0], "k": [f"{n:03}" + "x" * 2**20]}))
        assert tree.memory_bytes < 2**27
    assert tree.statistics().leaves > 1
    heights = [frame.height for frame in tree.flush()]
    assert sum(heights) == 100
    assert max(heights) <= 16, "frames are bounded in bytes"


def test_state_does_not_keep_blocks_alive() -> None:
    tree = CompressedBufferTree([Key("k", "string")], [Aggregate("n", "count", None, "any")])
    tree.insert(pl.DataFrame({"pane": [0] * 280_000, "k": ["a-string-of-more-than-twelve-bytes"] * 280_000}))
    assert tree.memory_bytes < 1000


def test_empty_frames_and_wrong_ones() -> None:
    tree = counting()
    tree.insert(keys(0, 0))
    assert list(tree.flush()) == []
    with pytest.raises(ValueError, match="'k' is String"):
        tree.insert(pl.DataFrame({"pane": [0], "k": ["a"]}))
    with pytest.raises(ValueError, match="leaf_rows >= 2"):
        counting(leaf_rows=1)


def test_a_block_that_is_sorted_by_another_thread_is_in_every_answer() -> None:
    with ThreadPoolExecutor(1) as executor:
        tree = CompressedBufferTree(
            [Key("k", "integer")], [Aggregate("n", "count", None, "any")], buffer_rows=100, executor=executor
        )
        tree.insert(keys(0, 150))
        statistics = tree.statistics()
        assert (statistics.buffered_rows, statistics.stored_rows) == (150, 0)
        assert tree.memory_bytes >= 150 * 16
        tree.insert(keys(0, 10, pane=7))
        tree.empty(7)
        assert counts(tree) == dict.fromkeys(range(150), 1)
        tree.insert(keys(0, 100))
        other = counting()
        other.restore(tree.snapshot())
        assert counts(other) == counts(tree) == {k: 2 if k < 100 else 1 for k in range(150)}
        tree.insert(keys(0, 100))
        tree.empty()
        assert (counts(tree), tree.memory_bytes) == ({}, 0)
