"""Compares the results of shipped jobs with the shop's own logs (`truth.py`)."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elf.client import Result
from elf.demo.catalogue import CAMPAIGN, SPAMMERS
from elf.demo.story import truth
from elf.demo.story.truth import Event, instant

LEADERS = 10
_START = [(-15.0, 0.0), (-5.0, 0.0), (5.0, 0.0), (15.0, 0.0)]
_POINTS_MAX = 20_000
_TOLERANCE = 1e-6
_WRONG_MAX = 5


@dataclass(slots=True)
class JobRecord:
    """All windows of a job, the lines its code has logged, and every JSON value that it has shown to a web server."""

    windows: list[Result] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    shown: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a comparison with the logs: in words, with each difference. `checked`: the number of things
    compared.
    """

    checked: int
    words: str
    wrong: tuple[str, ...] = ()


Logs = Sequence[Sequence[Event]]
"""The events of each server."""
Check = Callable[[Mapping[str, JobRecord], Logs], Finding]


def check(app: str, seen: Mapping[str, JobRecord], servers: Logs) -> Finding:
    """Checks one job. Where windows are incomplete by their own account, nothing exact can be checked."""
    lacking = [one for one in seen[app].windows if not _is_whole(one, len(servers))]
    if lacking:
        return Finding(0, f"{len(lacking)} of {len(seen[app].windows)} windows say that they lack something")
    if not seen[app].windows:
        return Finding(0, "no window came", (f"{app}: no window came",))
    found = CHECKS[app](seen, servers)
    return Finding(found.checked, found.words, tuple(f"{app}: {line}" for line in found.wrong[:_WRONG_MAX]))


def _is_whole(window: Result, agents: int) -> bool:
    return window.contributors == window.expected == agents and not window.partial and not window.late


def _events(servers: Logs) -> list[Event]:
    return [event for events in servers for event in events]


def _in_window(events: Sequence[Event], window: Result) -> list[Event]:
    start, end = instant(window.window_start or ""), instant(window.window_end or "")
    return [event for event in events if start <= event.at_ms < end]


def micro_promotion(seen: Mapping[str, JobRecord], servers: Logs) -> Finding:
    """Compares the sums of all batches, since only the master knows where one begins, and the discounts that visitors
    saw.
    """
    mine, events = seen["micro-promotion"], _events(servers)
    counted: Counter[str] = Counter()
    leading: set[str] = set()
    for window in mine.windows:
        counted.update({row["product"]: row["clicks"] for row in window.rows})
        leading.update(row["product"] for row in window.rows[:LEADERS])
    wrong = _differences(counted, truth.clicks(events))
    total = sum(window.events for window in mine.windows)
    if total != len(events):
        wrong.append(f"{total:,} events in all batches, {len(events):,} in the logs")
    discounted = [event.fields["product"] for event in events if event.fields.get("discount")]
    wrong += [f"{product} had a discount and never led" for product in sorted(set(discounted) - leading)]
    if not discounted:
        wrong.append("no visitor has seen a discount")
    words = (
        f"{len(mine.windows)} batches hold {sum(counted.values()):,} clicks on {len(counted)} products, and"
        f" {len(discounted):,} pages were shown with a discount, on {len(set(discounted))} products that led"
    )
    return Finding(len(counted), words, tuple(wrong))


def _differences(counted: Mapping[str, int], logged: Mapping[str, int]) -> list[str]:
    names = sorted(counted.keys() | logged.keys())
    pairs = [(name, counted.get(name, 0), logged.get(name, 0)) for name in names]
    return [f"{name}: {ours:,} counted, {theirs:,} in the logs" for name, ours, theirs in pairs if ours != theirs]


def product_bundling(seen: Mapping[str, JobRecord], servers: Logs) -> Finding:
    """Compares the bundles after each window, whatever agents knew of earlier ones."""
    mine = seen["product-bundling"]
    expected = _bundles(mine, servers)
    told = {one["as_of"]: frozenset(map(frozenset, one["bundles"])) for one in mine.shown}
    common = [end for end in told if end in expected]
    wrong = [f"the bundles as of {end} are others" for end in common if told[end] != expected[end]]
    if not common:
        wrong.append("no bundles were shown")
    last = expected[max(common)] if common else frozenset()
    words = f"after each of {len(common)} windows the bundles are those of the logs; in the end {len(last)}"
    return Finding(len(common), words, tuple(wrong))


def _bundles(mine: JobRecord, servers: Logs) -> dict[str, frozenset[frozenset[str]]]:
    """End of a window → the bundles after it, by the logs."""
    ends = {instant(window.window_start or ""): window.window_end or "" for window in mine.windows}
    return {ends[start]: frozenset(found) for start, found in truth.bundles_by_window(servers, ends).items()}


def sale_prediction(seen: Mapping[str, JobRecord], servers: Logs) -> Finding:
    """Compares each prediction with the other two jobs' results at its time, and its windows with the logs."""
    mine, events = seen["sale-prediction"], _events(servers)
    wrong = []
    for window in mine.windows:
        deeds = truth.deeds(_in_window(events, window), "Angry Birds Season")
        found = tuple(value or 0 for row in window.rows for value in row.values())
        if found != deeds:
            wrong.append(f"clicks, likes and purchases from {window.window_start} are {deeds} in the logs, not {found}")
    bundles = _bundles(seen["product-bundling"], servers)
    batches = {window.window_end: window for window in seen["micro-promotion"].windows}
    checked = 0
    for one in mine.shown:
        known, batch = bundles.get(one["together_as_of"]), batches.get(one["popular_as_of"])
        if known is None or batch is None:
            continue
        checked += 1
        together = next((found for found in known if one["product"] in found), {one["product"]})
        most_clicked = [row["product"] for row in batch.rows[:LEADERS]]
        popular = [product for product in most_clicked if product in together]
        right = (sorted(together), popular, 2 * len(popular) > len(together))
        if (one["together"], one["popular"], one["sells"]) != right:
            wrong.append(f"the prediction as of {one['together_as_of']} does not follow from the logs")
    if not checked:
        wrong.append("it has made no prediction")
    words = (
        f"{checked} predictions follow from what the other two had found, {len(mine.windows)} windows of its own too"
    )
    return Finding(checked, words, tuple(wrong))


def spam_campaign(seen: Mapping[str, JobRecord], servers: Logs) -> Finding:
    """Compares every window with the query of its version, and the accounts found with the campaign's."""
    mine, events = seen["spam-campaign"], _events(servers)
    queries = {window.version: query_of(window.rows[0]) for window in mine.windows if window.rows}
    wrong = []
    for window in mine.windows:
        query = queries.get(window.version, "place")  # no window of the version has rows, so any query does
        if [tuple(row.values()) for row in window.rows] != truth.sales(_in_window(events, window), query):
            wrong.append(f"the window from {window.window_start} of version {window.version} is not what {query} gives")
    accounts = {account for one in mine.shown for account in one["spam"]}
    strangers = accounts - {user.name for user in SPAMMERS}
    if strangers:
        wrong.append(f"{', '.join(sorted(strangers))}: not of the campaign")
    if not accounts:
        wrong.append("it has not found the campaign")
    words = (
        f"{len(mine.windows)} windows, each by the one query of its version ({len(queries)} of them);"
        f" {len(accounts)} of {len(SPAMMERS)} accounts of the campaign were found, and nobody else"
    )
    return Finding(len(mine.windows), words, tuple(wrong))


def query_of(row: Mapping[str, Any]) -> str:
    """The query that gives such rows: "account", "place", or the place that was zoomed into."""
    if "place" in row:
        return "place"
    return CAMPAIGN if "followers" in row else "account"


def kmeans(seen: Mapping[str, JobRecord], servers: Logs) -> Finding:
    """Checks that the last run over all points takes the steps of Lloyd's iteration, and ends where it does.

    Another run begins every few seconds: the last windows may belong to one that has not come to rest yet.
    """
    mine, cloud = seen["kmeans"], [point for events in servers for point in truth.points(events[-_POINTS_MAX:])]
    steps = truth.lloyd(cloud, _START)
    runs = finished_runs(mine.windows, len(cloud))
    told = [line for line in mine.said if line.startswith(f"{len(cloud)} points, ")]
    if not runs or not told:
        return Finding(0, "", (f"no run over all {len(cloud):,} points",))
    by_logs = [*steps[1:], steps[-1]]  # the last step finds that no centroid moves
    last = runs[-1][-len(by_logs) :]
    wrong = [
        f"step {number}: cluster {cluster} is at {centre}, by the logs at {right[cluster]}"
        for number, (found, right) in enumerate(zip(last, by_logs, strict=False))
        for cluster, centre in found.items()
        if math.dist(centre, right[cluster]) > _TOLERANCE
    ]
    if len(last) < len(by_logs) or not told[-1].startswith(f"{len(cloud)} points, {len(steps) - 1} steps "):
        wrong.append(f"Lloyd's iteration takes {len(steps) - 1} steps, and not: {told[-1]}")
    words = (
        f"{len(mine.windows)} steps in all; the last run over all {len(cloud):,} points rests where Lloyd's iteration"
        f" does, after {len(steps) - 1}"
    )
    return Finding(len(last), words, tuple(wrong))


def finished_runs(windows: Sequence[Result], points: int) -> list[list[Mapping[int, truth.Point]]]:
    """The runs of k-means over so many points that came to rest: after each step, the centres of clusters with points.

    In the last two steps of a run they are the same. Steps of a run that was given up go with the next one's.
    """
    runs: list[list[Mapping[int, truth.Point]]] = []
    steps: list[Mapping[int, truth.Point]] = []
    for window in windows:
        if sum(row["points"] for row in window.rows) != points:
            continue
        steps.append({row["cluster"]: (row["x"] / row["points"], row["y"] / row["points"]) for row in window.rows})
        if steps[-2:-1] == steps[-1:]:
            runs.append(steps)
            steps = []
    return runs


CHECKS: Mapping[str, Check] = {
    "kmeans": kmeans,
    "micro-promotion": micro_promotion,
    "product-bundling": product_bundling,
    "sale-prediction": sale_prediction,
    "spam-campaign": spam_campaign,
}
