"""Lives schedules again and says what does not hold in them.

`python tests/oracle/replay.py 17`, `... 100-200` (seeds), or `... "Schedule(seed=17, ...)"`, as a failure prints it. Of
a single one that fails it shows the smallest schedule that still does.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / one) for one in ("agent", "elf", "fleet", "."))]

from judgement import failure  # noqa: E402
from schedules import Schedule, draw, parse  # noqa: E402
from shrinking import shrink  # noqa: E402


def main(words: list[str]) -> int:
    """Replays what the words name; 1 if anything fails."""
    failed = 0
    for word in words:
        for schedule in _schedules(word):
            why = failure(schedule)
            if why is not None:
                failed = 1
                print(f"FAILED seed {schedule.seed}: {why}", flush=True)
                if len(words) == 1 and "-" not in word:
                    print(f"smallest: {shrink(schedule, lambda one: failure(one) is not None)!r}", flush=True)
    print("failed" if failed else "all promises held")
    return failed


def _schedules(word: str) -> list[Schedule]:
    if word.startswith("Schedule"):
        return [parse(word)]
    first, _, last = word.partition("-")
    return [draw(seed) for seed in range(int(first), int(last or first) + 1)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
