"""Holds windows against the logs: nothing counts twice, nobody is silently left out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from elf.client import Result

from .servers import Logged, Servers


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
    """Judges the windows of a query that counts events and sums ids by server."""
    verdict, seen = Verdict(), set[str]()
    for result in results:
        assert result.window_start is not None
        if result.window_start in seen:
            verdict.wrong.append(f"{result.window_start}: published twice")
        seen.add(result.window_start)
        _judge_one(result, servers, names, verdict)
    if verdict.deficit > verdict.late:
        verdict.wrong.append(f"{verdict.deficit} events are in no window, and {verdict.late} were late")
    return verdict


def _judge_one(result: Result, servers: Servers, names: Sequence[str], verdict: Verdict) -> None:
    assert result.window_start is not None
    assert result.window_end is not None
    begin_ms, end_ms = _ms(result.window_start), _ms(result.window_end)
    counted = {row["server"]: Logged(row["events"], row["ids"]) for row in result.rows}
    verdict.windows += 1
    verdict.events += result.events
    verdict.late += result.late
    verdict.complete += result.contributors == result.expected == len(names) and not result.partial
    if result.contributors + len(result.missing) + result.leaped != result.expected:
        verdict.wrong.append(f"{result.window_start}: {result.contributors} agents and {result.missing} missing are "
                             f"not {result.expected}")  # fmt: skip
    for name in names:
        own, truth = counted.get(name, Logged(0, 0)), servers.logged(name, begin_ms, end_ms)
        if own.events > truth.events or (own.events == truth.events and own.ids != truth.ids):
            verdict.wrong.append(f"{result.window_start}: {name} counts {own}, its log holds {truth}")
        if name in result.missing and own.events:
            verdict.wrong.append(f"{result.window_start}: {name} is missing, and counts {own.events}")
        if result.expected == len(names) and name not in (*result.missing, *result.partial):
            verdict.deficit += truth.events - own.events


def _ms(moment: str) -> int:
    return round(1000 * datetime.fromisoformat(moment).timestamp())
