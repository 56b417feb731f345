"""Partitions: ranges of the 64-bit key hash that divide the keys evenly, the same ones on every agent."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

_HIGH_BITS = 32
"""Number of upper bits of a hash that decide: rows that agree in them are always in one partition."""
PARTITIONS_MAX = 2**_HIGH_BITS


def partition_of(key_hash: int, partitions: int) -> int:
    """The number, from 0, of the partition that a hash is in. O(1).

    >>> [partition_of(key_hash, 4) for key_hash in (0, 2**62, 2**64 - 1)]
    [0, 1, 3]
    """
    return (key_hash >> _HIGH_BITS) * partitions >> _HIGH_BITS


def partitions_of(hashes: npt.NDArray[np.uint64], partitions: int) -> npt.NDArray[np.uint64]:
    """The numbers of the partitions that hashes are in. O(n)."""
    numbers: npt.NDArray[np.uint64] = (hashes >> np.uint64(_HIGH_BITS)) * np.uint64(partitions) >> np.uint64(_HIGH_BITS)
    return numbers


def cut(frame: pl.DataFrame, partitions: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """A PAO frame, in the order of (pane, hash), as (partition, frame) pairs in that order. O(n)."""
    if partitions == 1 or not frame.height:
        yield 0, frame
        return
    panes, hashes = frame["pane"].to_numpy(), frame["hash"].to_numpy()
    numbers = partitions_of(hashes, partitions)
    begins = np.flatnonzero((panes[1:] != panes[:-1]) | (numbers[1:] != numbers[:-1])) + 1
    for start, end in pairwise([0, *begins.tolist(), frame.height]):
        yield int(numbers[start]), frame.slice(start, end - start)
