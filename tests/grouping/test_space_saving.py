"""Counts of SpaceSaving are never too low, and too high by at most the least."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.grouping.space_saving import SpaceSaving

BLOCKS = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=40), min_size=1, max_size=12)


@given(BLOCKS, st.integers(1, 12), st.sampled_from([1.0, 0.9, 0.2]))
def test_true_counts_are_bounded(blocks: list[list[int]], capacity: int, factor: float) -> None:
    counted, true = SpaceSaving(capacity), Counter[int]()
    for block in blocks:
        keys, counts = np.unique(np.array(block, np.uint64), return_counts=True)
        slots, _ = counted.add(keys, counts)
        true.update(block)
        there = slots >= 0
        assert (counted.hashes[slots[there]] == keys[there]).all()
        least = counted.counts.min() if counted.size == capacity else 0.0
        kept = dict(zip(counted.hashes[: counted.size].tolist(), counted.counts[: counted.size], strict=True))
        assert len(kept) == counted.size == min(capacity, len(true))
        for key, amount in true.items():
            assert amount - 1e-9 <= kept.get(key, least) <= amount + least + 1e-9
        counted.decay(factor)
        true = Counter({key: amount * factor for key, amount in true.items()})


@given(BLOCKS, st.integers(1, 12), st.integers(1, 12))
def test_another_capacity_keeps_the_largest_counts(blocks: list[list[int]], before: int, after: int) -> None:
    counted = SpaceSaving(before)
    for block in blocks:
        counted.add(*np.unique(np.array(block, np.uint64), return_counts=True))
    largest = np.sort(counted.counts[: counted.size])[::-1][:after]
    counted.resize(after)
    assert counted.counts[: counted.size].tolist() == largest.tolist()
    assert (counted.find(counted.hashes[: counted.size]) == np.arange(counted.size)).all()


def test_least_counts_are_replaced_first() -> None:
    counted = SpaceSaving(2)
    one = np.ones(1, np.int64)
    for key in (1, 1, 2, 3):
        slots, _ = counted.add(np.array([key], np.uint64), one)
    assert slots.tolist() == [1]
    assert counted.hashes.tolist() == [1, 3]
    assert counted.counts.tolist() == [2.0, 2.0]
