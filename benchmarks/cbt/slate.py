"""An eager hash-slate, as in Muppet or Storm, in Python's own structures: state is updated as events come.

`python -m benchmarks.cbt.slate event|batch speed|memory FILE`: with `event`, a dictionary is updated once per
key; with `batch`, a `collections.Counter` takes 65,536 keys at a time in a loop that is in C: the best effort.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cbt.keys import read_keys
from benchmarks.cbt.runs import report
from benchmarks.contender import Answer
from benchmarks.processes import usage

BATCH_KEYS = 2**16


def count_events(keys: Sequence[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    before = counts.get
    for key in keys:
        counts[key] = before(key, 0) + 1
    return counts


def count_batches(keys: Sequence[str]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for start in range(0, len(keys), BATCH_KEYS):
        counts.update(keys[start : start + BATCH_KEYS])
    return counts


def main() -> None:
    count = {"event": count_events, "batch": count_batches}[sys.argv[1]]
    keys = read_keys(Path(sys.argv[3])).astype(str).tolist()
    resident = usage(os.getpid()).memory_mb
    started = time.perf_counter()
    counts = count(keys)
    counted_s = time.perf_counter() - started
    grown = round((usage(os.getpid()).memory_mb - resident) * 1e6)
    started = time.perf_counter()
    values = counts.values()
    answer = Answer(len(counts), sum(values), sum(count * count for count in values))
    report(counted_s + time.perf_counter() - started, answer, None, grown)


if __name__ == "__main__":
    main()
