"""Answers the shipped jobs' questions from a shop's own logs: counted plainly, event by event, without ELF.

Events are those of each server in the order of its log; windows are named by their start (epoch ms).
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

WINDOW_MS = 5_000
SLIDING_MS = 30_000
STRONG = 3

Edge = tuple[str, str]
Point = tuple[float, float]


class Event(NamedTuple):
    """A line of a log, and its time (epoch ms)."""

    at_ms: int
    fields: Mapping[str, Any]

    @property
    def window(self) -> int:
        return self.at_ms // WINDOW_MS * WINDOW_MS


def instant(text: str) -> int:
    """Epoch ms of an RFC 3339 time."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def read_events(log: Path) -> list[Event]:
    """The events of a server's log."""
    with log.open("rb") as lines:
        events = map(json.loads, lines)
        return [Event(instant(fields["created_at"]), fields) for fields in events]


def clicks(events: Iterable[Event]) -> Counter[str]:
    """Clicks on video games, by product, without products that nobody clicked."""
    counted: Counter[str] = Counter()
    for _, fields in events:
        if fields["store"] == "video_games" and fields["clicks_count"] > 0:
            counted[fields["product"]] += fields["clicks_count"]
    return counted


def leaders(counted: Counter[str]) -> list[tuple[str, int]]:
    """Products with their clicks, most clicked first, ties by name."""
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def deeds(events: Iterable[Event], product: str) -> tuple[int, int, int]:
    """Clicks, likes and purchases of a product."""
    mine = [fields for _, fields in events if fields["product"] == product]
    names = ("clicks_count", "likes_count", "buys_count")
    clicked, liked, bought = (sum(fields[name] for fields in mine) for name in names)
    return clicked, liked, bought


def sales(events: Iterable[Event], query: str) -> list[tuple[Any, ...]]:
    """The rows of spam-campaign's queries: accounts or places with most sales, or, in one place, accounts with few
    followers.

    `query` is "account", "place" or the name of a place.
    """
    counted: Counter[tuple[Any, ...]] = Counter()
    for user in [fields["user"] for _, fields in events if fields.get("sale")]:
        if query in ("account", "place"):
            counted[(user["name" if query == "account" else "location"],)] += 1
        elif user["location"] == query and user["followers"] < 10:
            counted[user["name"], user["followers"]] += 1
    first = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:10]
    return [(*key, posts) for key, posts in first]


def edges_by_window(servers: Iterable[Sequence[Event]]) -> dict[int, Counter[Edge]]:
    """Pairs of video games that a visitor wanted within 30 seconds on one server, by window of the later event."""
    counted: dict[int, Counter[Edge]] = defaultdict(Counter)
    for events in servers:
        last: dict[Any, dict[str, int]] = defaultdict(dict)
        for event in events:
            product, fields = event.fields["product"], event.fields
            if fields["store"] != "video_games" or not fields["likes_count"] + fields["buys_count"]:
                continue
            wanted = last[fields["user"]["id"]]
            for other, at_ms in wanted.items():
                if other != product and event.at_ms - at_ms < SLIDING_MS:
                    counted[event.window][min(product, other), max(product, other)] += 1
            wanted[product] = event.at_ms
    return counted


@dataclass(frozen=True, slots=True)
class _Bundle:
    products: frozenset[str]
    seen: int


def bundles_by_window(servers: Iterable[Sequence[Event]], starts: Iterable[int]) -> dict[int, set[frozenset[str]]]:
    """The components of strong edges after each window, as long as one of their edges was seen in the last six
    windows.
    """
    edges = edges_by_window(servers)
    bundles: list[_Bundle] = []
    between: dict[int, Counter[Edge]] = {}
    found: dict[int, set[frozenset[str]]] = {}
    for start in sorted(starts):
        bundles = [one for one in bundles if one.seen > start - SLIDING_MS]
        inside = {edge for edge in edges[start] for one in bundles if one.products.issuperset(edge)}
        between[start] = Counter({edge: n for edge, n in edges[start].items() if edge not in inside})
        recent = [counts for at_ms, counts in between.items() if at_ms > start - SLIDING_MS]
        strong = {edge for edge in between[start] if sum(counts[edge] for counts in recent) >= STRONG}
        for edge in inside | strong:
            touched = [one for one in bundles if one.products & set(edge)]
            products = frozenset(edge).union(*(one.products for one in touched))
            bundles = [one for one in bundles if one not in touched] + [_Bundle(products, start)]
        found[start] = {one.products for one in bundles}
    return found


def points(events: Iterable[Event]) -> list[Point]:
    """Positions of the events' visitors."""
    return [(fields["user"]["longitude"], fields["user"]["latitude"]) for _, fields in events]


def lloyd(cloud: Sequence[Point], centroids: Sequence[Point]) -> list[list[Point]]:
    """The centroids after each step of Lloyd's iteration, until they no longer move. A cluster without points stays in
    place.
    """
    steps = [list(centroids)]
    weights = Counter(cloud)
    while len(steps) < 2 or steps[-1] != steps[-2]:
        before = steps[-1]
        clusters: list[list[Point]] = [[] for _ in before]
        for point in weights:
            clusters[min(range(len(before)), key=lambda k: math.dist(point, before[k]))].append(point)
        steps.append([_mean(cluster, weights, old) for cluster, old in zip(clusters, before, strict=True)])
    return steps[:-1]


def _mean(cluster: Sequence[Point], weights: Counter[Point], otherwise: Point) -> Point:
    count = sum(weights[point] for point in cluster)
    if not count:
        return otherwise
    return (
        math.fsum(weights[point] * point[0] for point in cluster) / count,
        math.fsum(weights[point] * point[1] for point in cluster) / count,
    )
