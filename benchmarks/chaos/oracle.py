"""Holds windows against the logs, event by event: nothing counts twice, nobody is silently left out."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from elf.client import Result

from .servers import Servers

SHOWN_IDS = 5
"""Upper bound on the ids that a finding names."""


@dataclass(slots=True)
class Verdict:
    """Findings on all windows. `deficit`: events of agents said to be whole that are in no window."""

    windows: int = 0
    complete: int = 0
    events: int = 0
    deficit: int = 0
    late: int = 0
    wrong: list[str] = field(default_factory=list)


def judge(results: Sequence[Result], servers: Servers, names: Sequence[str]) -> Verdict:
    """Judges the windows of a query that collects the ids of events by server."""
    verdict, seen, counted = Verdict(), set[str](), Counter[int]()
    for result in results:
        assert result.window_start is not None
        if result.window_start in seen:
            verdict.wrong.append(f"{result.window_start}: published twice")
        seen.add(result.window_start)
        _judge_one(result, servers, names, verdict, counted)
    if twice := [number for number, times in counted.items() if times > 1]:
        verdict.wrong.append(f"{len(twice)} events are counted twice: {twice[:SHOWN_IDS]}")
    if verdict.deficit > verdict.late:
        verdict.wrong.append(f"{verdict.deficit} events are in no window, and {verdict.late} were late")
    return verdict


def _judge_one(result: Result, servers: Servers, names: Sequence[str], verdict: Verdict, counted: Counter[int]) -> None:
    start = result.window_start
    assert start is not None
    assert result.window_end is not None
    begin_ms, end_ms = _ms(start), _ms(result.window_end)
    own = {row["server"]: ids_of(row["ids"]) for row in result.rows}
    verdict.windows += 1
    verdict.events += result.events
    verdict.late += result.late
    verdict.complete += result.contributors == result.expected == len(names) and not result.partial
    if result.contributors + len(result.missing) + result.leaped != result.expected:
        verdict.wrong.append(f"{start}: {result.contributors} agents and {result.missing} missing are "
                             f"not {result.expected}")  # fmt: skip
    for name in names:
        ids, truth = own.get(name, []), servers.logged(name, begin_ms, end_ms)
        counted.update(ids)
        if strange := sorted(set(ids) - truth):
            verdict.wrong.append(f"{start}: {name} counts {strange[:SHOWN_IDS]}, which its log does not hold there")
        if name in result.missing and ids:
            verdict.wrong.append(f"{start}: {name} is missing, and counts {len(ids)}")
        if result.expected == len(names) and name not in (*result.missing, *result.partial):
            verdict.deficit += len(truth - set(ids))


def ids_of(collected: object) -> list[int]:
    """The ids in a row: a list, also as the text of one."""
    found = json.loads(collected) if isinstance(collected, str) else collected
    assert isinstance(found, list)
    return found


def _ms(moment: str) -> int:
    return round(1000 * datetime.fromisoformat(moment).timestamp())
