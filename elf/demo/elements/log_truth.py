"""Counts what the logs hold, line by line and without ELF, and compares results with it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elf.client import Result
from elf.demo.elements.adverts import BOT_QUERY
from elf.demo.story.truth import instant

LEADERS = 10
WRONG_MAX = 5
_WITHIN_MS = 1_800_000


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


def click_rates(windows: Sequence[Result], serves: Iterable[Path], clicks: Iterable[Path]) -> LogComparison:
    """Compares each window with the serves logged within it, and the clicks on them. What the robot looks at is left
    out: which of its serves are beyond 30 a minute is a matter of their order."""
    clicked: dict[tuple[str, str], list[int]] = {}
    for event in _events(clicks):
        clicked.setdefault((event["serve"], event["ad"]), []).append(event["time"])
    served = [event for event in _events(serves) if event["query"] != BOT_QUERY]
    checked, wrong = 0, []
    for window in windows:
        start, end = instant(window.window_start or ""), instant(window.window_end or "")
        truth = _rates([event for event in served if start <= event["time"] < end], clicked)
        shown = {(row["query"], row["ad"]): row for row in window.rows if row["query"] != BOT_QUERY}
        checked += len(truth)
        wrong += [f"{window.window_end}: {line}" for line in _different(shown, truth)]
    people = sum(row["serves"] for row in windows[-1].rows if row["query"] != BOT_QUERY) if windows else 0
    robot = sum(row["serves"] for row in windows[-1].rows if row["query"] == BOT_QUERY) if windows else 0
    words = (
        f"{checked:,} rates in {len(windows)} windows; the last one holds {people:,} serves to people, and of the"
        f" robot's all but {robot:,} are left out"
    )
    if not checked:
        wrong.append("no window with serves came")
    return LogComparison(checked, words, tuple(wrong[:WRONG_MAX]), given_up(windows[-1]) if windows else "")


def _rates(
    served: Iterable[Mapping[str, Any]], clicked: Mapping[tuple[str, str], list[int]]
) -> dict[tuple[str, str], tuple[int, int]]:
    """Query and ad → serves, and those of them that were clicked in time."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for event in served:
        times = clicked.get((event["serve"], event["ad"]), ())
        is_clicked = any(abs(time - event["time"]) <= _WITHIN_MS for time in times)
        serves, clicks = found.get((event["query"], event["ad"]), (0, 0))
        found[event["query"], event["ad"]] = serves + 1, clicks + is_clicked
    return found


def _different(
    shown: Mapping[tuple[str, str], Mapping[str, Any]], truth: Mapping[tuple[str, str], tuple[int, int]]
) -> Iterator[str]:
    for key in sorted(shown.keys() | truth.keys()):
        serves, clicks = truth.get(key, (0, 0))
        row = shown.get(key, {"serves": 0, "ctr": None})
        if row["serves"] != serves or (serves and abs(row["ctr"] - clicks / serves) > 1e-9):
            ours = f"{row['serves']:,} serves, {100 * (row['ctr'] or 0):.3f} %"
            yield f"{key[0]}, {key[1]}: {ours}, in the logs {serves:,}, {100 * clicks / max(1, serves):.3f} %"


def _events(logs: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for log in logs:
        with log.open("rb") as lines:
            yield from map(json.loads, lines)
