"""An eager hash-slate, as in Muppet or Storm, in Python's own structures: state is updated as events come.

`python -m benchmarks.cbt.slate event|batch speed FILE`: with `event`, a dictionary is updated once per
key; with `batch`, a `collections.Counter` takes 65,536 keys at a time in a loop that is in C: the best effort.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cbt.keys import read_keys
from benchmarks.cbt.runs import Run
from benchmarks.contender import Answer

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


def speed(how: str, path: Path) -> Run:
    keys = read_keys(path).astype(str).tolist()
    count = {"event": count_events, "batch": count_batches}[how]
    started = time.perf_counter()
    counts = count(keys).values()
    answer = Answer(len(counts), sum(counts), sum(count * count for count in counts))
    return Run(answer, {"seconds": time.perf_counter() - started})


if __name__ == "__main__":
    speed(sys.argv[1], Path(sys.argv[3])).report()
