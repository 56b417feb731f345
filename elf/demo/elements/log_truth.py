"""Counts what the logs hold, line by line and without ELF, and compares results with it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elf.client import Result

LEADERS = 10
WRONG_MAX = 5


@dataclass(frozen=True, slots=True)
class LogComparison:
    """The outcome of holding results against the logs. `checked`: the number of figures compared. `given_up`: what the
    results say that they lack."""

    checked: int
    words: str
    wrong: tuple[str, ...] = ()
    given_up: str = ""


def given_up(result: Result) -> str:
    """Reads what a result says that its elements have given up; "" for nothing."""
    parts = [f"{result.evicted:,} elements evicted"] if result.evicted else []
    parts += [f"{result.shed:,} events shed"] if result.shed else []
    parts += [f"{len(result.lost):,} logical nodes begun anew"] if result.lost else []
    return ", ".join(parts)


def top_words(windows: Sequence[Result], logs: Iterable[Path]) -> LogComparison:
    """Compares the last list with the words of all quotations that were logged."""
    counted = Counter(word for event in _events(logs) for word in event["text"].lower().split())
    lists = [window for window in windows if window.rows]
    if not lists:
        return LogComparison(0, "no list came", ("no list came",))
    shown = {row["word"]: row["n"] for row in lists[-1].rows}
    wrong = [
        f"{word}: {n:,} in the list, {counted[word]:,} in the logs" for word, n in shown.items() if n != counted[word]
    ]
    best = sorted(counted.values(), reverse=True)[:LEADERS]
    if not wrong and sorted(shown.values(), reverse=True) != best:
        wrong.append(f"the largest counts in the logs are {best}")
    words = f"the {len(shown)} words of the last list, with {sum(shown.values()):,} of {counted.total():,} uses"
    return LogComparison(len(shown), words, tuple(wrong[:WRONG_MAX]), given_up(lists[-1]))


def _events(logs: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for log in logs:
        with log.open("rb") as lines:
            yield from map(json.loads, lines)
