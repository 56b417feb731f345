"""Lives seeds of the restart matrix again, as `python tests/restarts/replay_restarts.py 17 100-120`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "agent"), str(HERE.parent)]

from test_restart_matrix import failure  # noqa: E402


def main(words: list[str]) -> int:
    """Replays the seeds that the words name; 1 if anything fails."""
    failed = 0
    for word in words:
        first, _, last = word.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            if (why := failure(seed)) is not None:
                failed = 1
                print(why, flush=True)
    print("failed" if failed else "nothing lost, nothing doubled")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
