"""ELF's own program: counts keys in a compressed buffer tree, frame by frame, and flushes it at the end.

`python -m benchmarks.cbt.tree_inserts speed|memory FILE`
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from benchmarks.cbt.keys import read_keys
from benchmarks.cbt.runs import report
from benchmarks.contender import Answer
from benchmarks.processes import usage
from cbt import Aggregate, CompressedBufferTree, Key

FRAME_ROWS = 2**16
_WARM_UP_FRAMES = 8


def tree_of_counts() -> CompressedBufferTree:
    return CompressedBufferTree([Key("key", "string")], [Aggregate("n", "count", None, "any")])


def frames_of(path: Path) -> list[pl.DataFrame]:
    """The keys as a parser yields them: frames of 65,536 rows, each with strings of its own."""
    keys = read_keys(path)
    starts = range(0, len(keys), FRAME_ROWS)
    return [
        pl.DataFrame({"key": keys[start : start + FRAME_ROWS]}).select(
            pane=pl.lit(0, dtype=pl.Int64), key=pl.col("key").cast(pl.String)
        )
        for start in starts
    ]


def insert_all(tree: CompressedBufferTree, frames: Sequence[pl.DataFrame]) -> None:
    for frame in frames:
        tree.insert(frame)


def flushed(tree: CompressedBufferTree) -> Answer:
    rows = total = squares = 0
    for frame in tree.flush():
        counts = tree.layout.lower(frame)["n"]
        rows += len(counts)
        total += counts.sum()
        squares += (counts * counts).sum()
    return Answer(rows, total, squares)


def main() -> None:
    mode, path = sys.argv[1], Path(sys.argv[2])
    frames = frames_of(path)
    if mode == "speed":
        warm = tree_of_counts()
        insert_all(warm, frames[:_WARM_UP_FRAMES])
        flushed(warm)
    resident = usage(os.getpid()).memory_mb
    started = time.perf_counter()
    tree = tree_of_counts()
    insert_all(tree, frames)
    inserted_s = time.perf_counter() - started
    grown = round((usage(os.getpid()).memory_mb - resident) * 1e6)
    tracked = tree.memory_bytes
    started = time.perf_counter()
    answer = flushed(tree)
    report(inserted_s + time.perf_counter() - started, answer, tracked, grown)


if __name__ == "__main__":
    main()
