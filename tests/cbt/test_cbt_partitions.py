"""Partitions are even ranges of the key hash, for any number of them."""

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cbt import Aggregate, CompressedBufferTree, Key
from cbt.algebra.partitions import partition_of

COUNTS = st.integers(1, 2**32)


@given(COUNTS, st.data())
@example(3, None)
@example(2**32, None)
def test_partitions_ascend_from_the_first_to_the_last(partitions: int, data: st.DataObject | None) -> None:
    hashes = st.lists(st.integers(0, 2**64 - 1), max_size=5)
    numbers = [
        partition_of(key_hash, partitions) for key_hash in [0, *sorted(data.draw(hashes) if data else []), 2**64 - 1]
    ]
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1]) == (0, partitions - 1)


@given(st.integers(0, 32), st.integers(0, 2**64 - 1))
def test_of_a_power_of_two_the_upper_bits_are_the_partition(bits: int, key_hash: int) -> None:
    assert partition_of(key_hash, 2**bits) == key_hash >> (64 - bits)


@given(COUNTS, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_hashes_with_one_upper_half_stay_together(partitions: int, upper: int, one: int, other: int) -> None:
    assert partition_of(upper << 32 | one, partitions) == partition_of(upper << 32 | other, partitions)


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
def test_partitions_are_about_as_large_as_each_other(partitions: int) -> None:
    tree = CompressedBufferTree([Key("k", "integer")], [Aggregate("n", "count", None, "any")])
    tree.insert(pl.DataFrame({"pane": [0] * 10_000, "k": range(10_000)}))
    sizes = [frame.height for _, frame in tree.flush(0, partitions=partitions)]
    assert len(sizes) == partitions
    assert sum(sizes) == 10_000
    assert max(sizes) < 1.5 * 10_000 / partitions


@pytest.mark.parametrize("partitions", [0, -1, 2**32 + 1])
def test_other_numbers_of_partitions_are_refused(partitions: int) -> None:
    tree = CompressedBufferTree([], [Aggregate("n", "count", None, "any")])
    with pytest.raises(ValueError, match="partitions"):
        tree.flush(partitions=partitions)
