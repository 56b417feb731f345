"""Counts the shop's own logs by window, to compare them with the fleet's answer."""

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
"""Time in a line of either log: first in an event, between the first brackets in an access line."""
_MOMENTS = 4096


@dataclass(frozen=True, slots=True)
class Verdict:
    """Numbers of windows that were complete and that lacked an agent throughout, with their events.

    `unsure` counts windows with late or partial events, for which nothing exact can be said, such as the first one if
    some agents got the query after it had begun. `wrong` has a line for every other window whose count differs from the
    logs.
    """

    complete: int
    complete_events: int
    lacking: int
    lacking_events: int
    unsure: int
    wrong: tuple[str, ...]


def count_by_window(log: Path, starts_ms: Sequence[int], window_ms: int) -> Counter[int]:
    """Counts the lines of a server's log by window start; `starts_ms` ascend."""
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
    """Compares the windows with the logs; `logs` are those that each agent reads.

    An agent that was missing brings its events late when it is back; any others that are late leave windows unsure.
    """
    starts = sorted({window.start_ms for window in windows})
    written = {
        agent: sum((count_by_window(log, starts, window_ms) for log in paths), Counter[int]())
        for agent, paths in logs.items()
    }
    complete: list[ShownWindow] = []
    lacking: list[ShownWindow] = []
    wrong: list[str] = []
    unsure = 0
    late = sum(window.late for window in windows)
    absent = sum(written[agent][window.start_ms] for window in windows for agent in window.missing if agent in written)
    for window in windows:
        expected = sum(counted[window.start_ms] for agent, counted in written.items() if agent not in window.missing)
        is_explained = late <= absent and not 0 < expected - window.events <= late
        if window.partial or not is_explained or window.expected < len(logs):
            unsure += 1
            continue
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
