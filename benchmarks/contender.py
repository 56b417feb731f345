"""What every contender's program does alike: warm up, take the time of one run, print it with its answer.

Standard library only, since it runs inside the environments of all contenders.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Answer:
    """What tells results of the same query apart, in whatever order their rows come."""

    rows: int
    total: int
    squares: int

    @classmethod
    def of(cls, sums: Sequence[int]) -> "Answer":
        return cls(len(sums), sum(sums), sum(value * value for value in sums))


@dataclass(frozen=True, slots=True)
class Measurement:
    """One timed run of one contender."""

    seconds: float
    answer: Answer


def measure(work: Callable[[list[str]], Result], summarise: Callable[[Result], Answer]) -> None:
    """Run `work` on the files of a folder and print one JSON line; the body of a contender's program.

    The command line is DATA_FOLDER WARM_UPS. Imports and the start of sessions lie before this call, warm-up
    runs before the timed one, and `summarise` after it.
    """
    folder, warm_ups = Path(sys.argv[1]), int(sys.argv[2])
    paths = [str(path) for path in sorted(folder.iterdir())]
    for _ in range(warm_ups):
        work(paths)
    started = time.perf_counter()
    result = work(paths)
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "answer": asdict(summarise(result))}))


def parse(line: str) -> Measurement:
    """The line `measure` printed. ValueError if it is something else."""
    try:
        found = json.loads(line)
        return Measurement(float(found["seconds"]), Answer(**found["answer"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a measurement: {line[:200]}") from error
