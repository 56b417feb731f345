"""What the shop's own logs say about windows, to hold the fleet's answer against it."""

import re
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from elf.demo.story.board import ShownWindow

_TIME = re.compile(rb'^\{"created_at":"([^"]+)"|^[^\[]+\[([^\]]+)\]')
"""Where a line of either log says when it was: an event first of all, an access line between its first brackets."""
_MOMENTS = 4096


@dataclass(frozen=True, slots=True)
class Verdict:
    """Windows shown, those that lacked an agent throughout, and whether the logs hold what was counted in them.

    Nothing exact can be said of windows with late events or in which agents were there for a part only, as in the
    first one if the query came to some agents after it had begun: `unsure`. `wrong` has a line for every window that
    should have been equal and was not.
    """

    complete: int
    complete_events: int
    lacking: int
    lacking_events: int
    unsure: int
    wrong: tuple[str, ...]


def count_by_window(log: Path, starts_ms: Sequence[int], window_ms: int) -> Counter[int]:
    """How many lines of one of a server's logs lie in each window, by its start; `starts_ms` ascend."""
    moment_of = lru_cache(_MOMENTS)(_moment_ms)
    counted: Counter[int] = Counter()
    with log.open("rb") as lines:
        for line in lines:
            if (found := _TIME.search(line)) is None:
                continue
            moment_ms = moment_of(found[1] or found[2])
            position = bisect(starts_ms, moment_ms) - 1
            if position >= 0 and moment_ms < starts_ms[position] + window_ms:
                counted[starts_ms[position]] += 1
    return counted


def count_lines(log: Path) -> int:
    with log.open("rb") as lines:
        return sum(1 for _ in lines)


def judge(windows: Sequence[ShownWindow], logs: Mapping[str, Sequence[Path]], window_ms: int) -> Verdict:
    """Compares what was shown with the logs; `logs` are those that each agent reads."""
    starts = sorted({window.start_ms for window in windows})
    written = {
        agent: sum((count_by_window(log, starts, window_ms) for log in paths), Counter[int]())
        for agent, paths in logs.items()
    }
    complete: list[ShownWindow] = []
    lacking: list[ShownWindow] = []
    wrong: list[str] = []
    unsure = 0
    any_late = any(window.late for window in windows)
    for window in windows:
        if window.partial or any_late or window.expected < len(logs):
            unsure += 1
            continue
        expected = sum(counted[window.start_ms] for agent, counted in written.items() if agent not in window.missing)
        (lacking if window.missing else complete).append(window)
        if expected != window.events:
            wrong.append(f"{window.title}: {window.events:,} counted, {expected:,} in the logs")
    return Verdict(
        complete=len(complete),
        complete_events=sum(window.events for window in complete),
        lacking=len(lacking),
        lacking_events=sum(window.events for window in lacking),
        unsure=unsure,
        wrong=tuple(wrong),
    )


def _moment_ms(text: bytes) -> int:
    written = text.decode()
    if written.endswith("Z"):
        moment = datetime.fromisoformat(written)
    else:
        moment = datetime.strptime(written, "%d/%b/%Y:%H:%M:%S %z")
    return round(moment.timestamp() * 1000)
