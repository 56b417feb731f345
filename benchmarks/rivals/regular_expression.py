"""Python: a loop over lines with one compiled pattern and a dictionary."""

import re
from pathlib import Path

from benchmarks.contender import Answer, measure

LINE = re.compile(
    r'(\S+) (\S+) (\S+) \[([^]]*)\] "(?:[A-Z]+) ([^ ?"]*)(?:\?[^ "]*)?(?: [^"]*)?" (\d{3}) (\d+|-) "([^"]*)" "([^"]*)"'
)


def hits_and_bytes(paths: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for path in paths:
        with Path(path).open(encoding="utf-8") as lines:
            for line in lines:
                match = LINE.match(line)
                if match is None:
                    continue
                size = match[7]
                counts = found.setdefault(match[5], [0, 0])
                counts[0] += 1
                counts[1] += 0 if size == "-" else int(size)
    return found


if __name__ == "__main__":
    measure(hits_and_bytes, lambda found: Answer.of([number for counts in found.values() for number in counts]))
