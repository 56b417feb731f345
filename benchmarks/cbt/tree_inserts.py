"""ELF's own program: counts keys in a compressed buffer tree, frame by frame, and flushes it at the end.

`python -m benchmarks.cbt.tree_inserts speed|memory FILE`
"""

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.cbt.keys import read_keys
from benchmarks.cbt.runs import Run
from benchmarks.contender import Answer
from benchmarks.processes import usage
from cbt import Aggregate, CompressedBufferTree, Key

FRAME_ROWS = 2**16
_WARM_UP_FRAMES = 8


def tree_of_counts(executor: Executor | None = None) -> CompressedBufferTree:
    return CompressedBufferTree([Key("key", "string")], [Aggregate("n", "count", None, "any")], executor=executor)


def frames_of(keys: NDArray[np.bytes_], pane: int = 0) -> list[pl.DataFrame]:
    """The keys as a parser yields them: frames of 65,536 rows, each with strings of its own."""
    starts = range(0, len(keys), FRAME_ROWS)
    return [
        pl.DataFrame({"key": keys[start : start + FRAME_ROWS]}).select(
            pane=pl.lit(pane, dtype=pl.Int64), key=pl.col("key").cast(pl.String)
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
        total += int(counts.sum())
        squares += int((counts * counts).sum())
    return Answer(rows, total, squares)


def speed(frames: Sequence[pl.DataFrame]) -> Run:
    with ThreadPoolExecutor(1) as pool:
        executor = pool if len(os.sched_getaffinity(0)) > 1 else None
        warm = tree_of_counts(executor)
        insert_all(warm, frames[:_WARM_UP_FRAMES])
        flushed(warm)
        started = time.perf_counter()
        tree = tree_of_counts(executor)
        insert_all(tree, frames)
        answer = flushed(tree)
        return Run(answer, {"seconds": time.perf_counter() - started})


def memory(frames: Sequence[pl.DataFrame]) -> Run:
    before_mb = usage(os.getpid()).memory_mb
    tree = tree_of_counts()
    insert_all(tree, frames)
    grown = (usage(os.getpid()).memory_mb - before_mb) * 1e6
    figures = {"tracked_bytes": tree.memory_bytes, "resident_bytes": grown}
    return Run(flushed(tree), figures)


if __name__ == "__main__":
    {"speed": speed, "memory": memory}[sys.argv[1]](frames_of(read_keys(Path(sys.argv[2])))).report()
