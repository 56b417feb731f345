"""Counts what the logs hold, line by line and without ELF, and compares results with it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elf.client import Result
from elf.demo.elements.adverts import BOT_QUERY
from elf.demo.story.truth import instant

LEADERS = 10
WRONG_MAX = 5
WITHIN_MS, SPAN_MS = 1_800_000, 24 * 3_600_000
"""The time from a serve to its click, and that of a window, in the job ctr."""
SEEN_MAX, SEEN_MS = 30, 60_000
"""Ads that its BotFilter lets a user see, and the time in which."""

ON_ITS_WAY = 32
"""Part of the nodes of a host that may have come to it between the last look at it and its end."""

Rates = dict[tuple[str, str], tuple[int, int]]
"""Serves that count of each query and ad, and those of them that were clicked."""


@dataclass(frozen=True, slots=True)
class LogComparison:
    """The outcome of holding results against the logs. `checked`: the number of figures compared. `given_up`: what the
    results say that they lack; `may_lack`: that explains what is wrong. `notes`: further lines for the viewer."""

    checked: int
    words: str
    wrong: tuple[str, ...] = ()
    given_up: str = ""
    notes: tuple[str, ...] = ()
    may_lack: bool = True


@dataclass(frozen=True, slots=True)
class HostKill:
    """The host `name` that was killed. `shown`: the windows that had come before; `nodes`: the logical nodes it hosted;
    `lost`: those that results name; `over_ms`: the time in the logs when the last of them began anew."""

    name: str = ""
    shown: int = 0
    nodes: int = 0
    lost: int = 0
    over_ms: int = 0


def given_up(result: Result) -> str:
    """Reads what a result says that its elements have given up; "" for nothing."""
    parts = [f"{result.evicted:,} elements evicted"] if result.evicted else []
    parts += [f"{result.shed:,} events shed"] if result.shed else []
    parts += [f"{len(result.lost):,} logical nodes begun anew"] if result.lost else []
    parts += [f"{result.missed:,} events missed by elements"] if result.missed else []
    return ", ".join(parts)


def top_words(windows: Sequence[Result], logs: Iterable[Path], _kill: HostKill) -> LogComparison:
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


def click_rates(windows: Sequence[Result], logs: Sequence[Path], kill: HostKill) -> LogComparison:
    """Compares each window with the serves logged in the 24 hours up to its end, and the clicks on them. Those that
    came after a host was killed, and begin before its nodes had begun anew elsewhere, may differ if they say so."""
    kept = _kept(*logs)
    shown = [window for window in windows if window.rows]
    checked, same, lacking, wrong, robot, after, shed, slow, before = 0, [], [], [], 0, 0, 0, 0, 0
    for place, window in enumerate(shown):
        end_ms = instant(window.window_end or "")
        truth = _rates(kept, end_ms - SPAN_MS, end_ms)
        found = {(row["query"], row["ad"]): (row["serves"], round(row["serves"] * row["ctr"])) for row in window.rows}
        checked += len(truth)
        robot = sum(serves for (query, _), (serves, _) in truth.items() if query == BOT_QUERY)
        may_lack = bool(window.lost) and place >= kill.shown and end_ms - SPAN_MS < kill.over_ms
        after += bool(kill.nodes) and end_ms - SPAN_MS >= kill.over_ms
        if found == truth:
            same.append(window)
            before += place < kill.shown
        elif _are_shed(found, truth, window.shed):
            shed += 1
        elif {*window.missing, *window.partial, *window.leaped_over} - {kill.name}:
            slow += 1
        elif may_lack:
            lacking.append((window, _difference(found, truth)))
        else:
            wrong += [f"{window.window_end}: {line}" for line in _different(found, truth)]
    if not shown:
        return LogComparison(0, "no window came", ("no window came",), may_lack=False)
    if kill.lost > kill.nodes + kill.nodes // ON_ITS_WAY:
        wrong.append(f"{kill.lost:,} logical nodes have begun anew; the killed host had {kill.nodes:,}")
    if kill.nodes and not after:
        wrong.append("no window came of the hours after those in which a host was killed")
    words = f"{len(same)} of {len(shown)} windows, {checked:,} rates in all"
    words += f" (of the robot's serves, {robot:,} count in the last window's hours)"
    notes = []
    if lacking:
        worst = max(share for _, share in lacking)
        ends = f"{lacking[0][0].window_end} to {lacking[-1][0].window_end}"
        notes.append(
            f"{before} of the {kill.shown} windows that had come before a host was killed are among them;"
            f" {len(lacking)} ({ends}) hold hours in which it was. The job's events are not"
            f" guaranteed: they differ by at most {100 * worst:.1f} % of the serves, and name what was lost"
        )
        again = [one for one in same if (one.window_end or "") > (lacking[-1][0].window_end or "")]
        notes.append(f"{len(again)} windows after them equal the logs again")
    if slow:
        notes.append(f"{slow} windows name agents that are not in them: they were too slow for this machine")
    if shed:
        notes.append(f"{shed} windows lack nothing but events left out at the job's entry, which they count")
    return LogComparison(checked, words, tuple(wrong[:WRONG_MAX]), given_up(shown[-1]), tuple(notes), may_lack=False)


def _kept(serves: Path, clicks: Path) -> list[tuple[int, tuple[str, str], bool]]:
    """Time, query and ad of each serve that BotFilter leaves in, and whether it was clicked in time."""
    clicked: dict[tuple[str, str], list[int]] = {}
    for event in _events([clicks]):
        clicked.setdefault((event["serve"], event["ad"]), []).append(event["time"])
    seen: dict[str, list[int]] = {}
    kept = []
    for event in _events([serves]):
        at_ms, user = event["time"], event["user"]
        seen[user] = [one for one in seen.get(user, ()) if one > at_ms - SEEN_MS] + [at_ms]
        if len(seen[user]) <= SEEN_MAX:
            times = clicked.get((event["serve"], event["ad"]), ())
            is_clicked = any(abs(one - at_ms) <= WITHIN_MS for one in times)
            kept.append((at_ms, (event["query"], event["ad"]), is_clicked))
    return kept


def _rates(kept: Iterable[tuple[int, tuple[str, str], bool]], start_ms: int, end_ms: int) -> Rates:
    found: Rates = {}
    for at_ms, key, is_clicked in kept:
        if start_ms <= at_ms < end_ms:
            serves, clicks = found.get(key, (0, 0))
            found[key] = serves + 1, clicks + is_clicked
    return found


def _are_shed(found: Rates, truth: Rates, shed: int) -> bool:
    """Whether all that results lack are serves and clicks left out at the job's entry, which they count."""
    none = (0, 0)
    is_less = all(
        found[key][0] <= truth.get(key, none)[0] and found[key][1] <= truth.get(key, none)[1] for key in found
    )
    lacking = sum(served - found.get(key, none)[0] for key, (served, _) in truth.items())
    unclicked = sum(clicked - found.get(key, none)[1] for key, (_, clicked) in truth.items())
    return is_less and max(lacking, unclicked) <= shed


def _difference(found: Rates, truth: Rates) -> float:
    """The part of the serves by which results differ."""
    keys = found.keys() | truth.keys()
    differ = sum(abs(found.get(key, (0, 0))[0] - truth.get(key, (0, 0))[0]) for key in keys)
    return differ / max(1, sum(serves for serves, _ in truth.values()))


def _different(found: Rates, truth: Rates) -> Iterator[str]:
    for key in sorted(found.keys() | truth.keys()):
        (serves, clicks), (served, clicked) = found.get(key, (0, 0)), truth.get(key, (0, 0))
        if (serves, clicks) != (served, clicked):
            query, ad = key
            yield f"{query}, {ad}: {serves:,} serves, {clicks:,} clicked; in the logs {served:,}, {clicked:,}"


def _events(logs: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for log in logs:
        with log.open("rb") as lines:
            yield from map(json.loads, lines)
