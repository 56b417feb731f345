"""Figure 6 of the paper: the error of estimated click-through rates where more events come than hosts can process.

The shares that hosts take and what emitters drop are decided by the objects that run in production, from queues of
rows in virtual time: each serve and click takes a host some time, and so does the rate of its query and ad elsewhere.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.runtime.keyed.hosting.layout import GraphLayout, TypeLayout
from agent.runtime.keyed.hosting.rows.shedding import Shedder, TakenShare
from agent.runtime.keyed.logical_nodes import nodes_of
from benchmarks.report import Comparison
from overlay import Id, Peer

from .clicks import Traffic, error_of, rates, traffic_of
from .graphs import CLICK, SERVE, click_rates
from .lines import at_least, at_most

HOSTS = 16
LOADS = (0.25, 0.5, 1.0, 1.5, 2.0, 2.75)
"""Rates of events, as multiples of the capacity."""
HOST_ROWS_PER_S = 5_000.0
STEP_S = 0.05
"""Simulated time between two looks at everything: a share is obeyed so much later."""
PAPER_PERCENT = 4.2
"""The error in the paper's table at 2.75 times the rate at which errors begin."""
LABEL = "Fig. 6 (policy in virtual time, 16 hosts)"
_LINES = 1_000

Ints = npt.NDArray[np.int64]


class Events(NamedTuple):
    """All events in order: which is a serve, its row there, and the hosts that join it and that keep its rate."""

    is_serve: npt.NDArray[np.bool_]
    row: Ints
    joined_at: Ints
    rated_at: Ints


class Replayed(NamedTuple):
    """What came of one rate: the events that were not shed, and the time until all was processed beyond
    that of the events."""

    kept: Traffic
    shed: int
    processed: int
    behind_s: float


def run(events: int, loads: Sequence[float], with_targets: bool) -> list[Comparison]:
    """Replays the same events at each rate."""
    traffic = traffic_of(events)
    truth, ordered = rates(*traffic), _events(traffic)
    rows = np.bincount(ordered.joined_at, minlength=HOSTS)
    rows += np.bincount(ordered.rated_at[ordered.is_serve], minlength=HOSTS)
    capacity = HOST_ROWS_PER_S * traffic.events / rows.max()
    lines: list[Comparison] = []
    for load in loads:
        replayed = _replayed(traffic, ordered, load * capacity)
        aim = None if not with_targets or 1.0 < load < max(LOADS) else PAPER_PERCENT if load > 1.0 else 0.0
        lines += _lines(traffic, truth, replayed, load, load * capacity, aim)
    return [*lines, _singly(traffic, truth, max(loads))]


def _lines(
    traffic: Traffic, truth: pl.DataFrame, replayed: Replayed, load: float, rate: float, aim: float | None
) -> list[Comparison]:
    error = error_of(rates(*replayed.kept), truth)
    sent, processed, shed = traffic.events, replayed.processed, replayed.shed
    place = f"{load:g} x capacity"
    return [
        at_most(f"{LABEL}, error of CTR weighted by serves, {error.pairs} pairs: {place}", error.weighted, "%", aim),
        at_most(f"{LABEL}, error of CTR, plain: {place}", error.plain, "%"),
        at_most(f"{LABEL}, logs of {rate:,.0f} events/s: {place}", rate * _line_bytes(traffic) * 8 / 1e6, "Mbps"),
        at_most(f"{LABEL}, all done after the last event: {place}", replayed.behind_s, "s"),
        at_least(
            f"{LABEL}, {sent:,} sent = {processed:,} processed + {shed:,} shed: {place}",
            float(sent == processed + shed),
            "equal",
            1.0,
        ),
    ]


def _singly(traffic: Traffic, truth: pl.DataFrame, load: float) -> Comparison:
    """The same share of all events, but each kept or not without a look at its serve."""
    kept = (rows.sample(fraction=1 / load, seed=seed) for seed, rows in enumerate(traffic))
    error = error_of(rates(*kept), truth)
    return at_most(f"{LABEL}, events shed singly instead, weighted: {load:g} x capacity", error.weighted, "%")


def _line_bytes(traffic: Traffic) -> float:
    """The mean length of an event as a line of JSON."""
    share = len(traffic.serves) / traffic.events
    serve, click = (len(rows.head(_LINES).write_ndjson()) / min(_LINES, len(rows)) for rows in traffic)
    return share * serve + (1 - share) * click


def _events(traffic: Traffic) -> Events:
    counts = [len(rows) for rows in traffic]
    order = np.argsort(np.concatenate([rows["@time"].to_numpy() for rows in traffic]), kind="stable")
    row = np.concatenate([np.arange(count) for count in counts])
    joined = np.concatenate([_hosts(rows, "serve", "ad") for rows in traffic])
    rated = np.concatenate([_hosts(traffic.serves, "query", "ad"), np.zeros(counts[1], np.int64)])
    return Events(order < counts[0], row[order], joined[order], rated[order])


def _hosts(rows: pl.DataFrame, *key: str) -> Ints:
    """The host of each row: logical nodes are dealt evenly."""
    return nodes_of([rows[name] for name in key]).to_numpy().astype(np.int64) % HOSTS


class _Queues:
    """The rows that wait at each host, and what its host says of them."""

    def __init__(self) -> None:
        self.queued = np.zeros(HOSTS)
        self._processed = np.zeros(HOSTS)
        self._shares = [TakenShare() for _ in range(HOSTS)]
        self._peers = [Peer(Id(number), f"host-{number}:1") for number in range(HOSTS)]

    def pass_step(self, came: Ints, now: float, shedder: Shedder) -> None:
        """Rows come, and for some time hosts process what they have."""
        self.queued += came
        done = np.minimum(self.queued, HOST_ROWS_PER_S * STEP_S)
        self.queued -= done
        self._processed += done
        for host, share in enumerate(self._shares):
            share.look(int(self._processed[host]), int(self.queued[host]), now)
            shedder.heard(self._peers[host], share.told)


def _replayed(traffic: Traffic, events: Events, rate: float) -> Replayed:
    types = GraphLayout(click_rates()).by_name
    shedder, queues = Shedder(), _Queues()
    kept: tuple[list[Ints], list[Ints]] = ([], [])
    rated = np.zeros(HOSTS, np.int64)
    total, now, at, processed = traffic.events, 0.0, 0, 0
    while at < total or queues.queued.any() or rated.any():
        now += STEP_S
        upto = min(total, round(now * rate))
        taken = _taken(traffic, events, types, slice(at, upto), shedder)
        for rows, is_wanted in zip(kept, (True, False), strict=True):
            rows.append(events.row[taken[events.is_serve[taken] == is_wanted]])
        came = np.bincount(events.joined_at[taken], minlength=HOSTS) + rated
        rated = np.bincount(events.rated_at[taken[events.is_serve[taken]]], minlength=HOSTS)
        queues.pass_step(came, now, shedder)
        processed += len(taken)
        at = upto
    serves, clicks = (rows[np.concatenate(own)] for rows, own in zip(traffic, kept, strict=True))
    return Replayed(Traffic(serves, clicks), shedder.shed.total(), processed, now - total / rate)


def _taken(traffic: Traffic, events: Events, types: dict[str, TypeLayout], new: slice, shedder: Shedder) -> Ints:
    """The events of a stretch that are not shed."""
    numbers = np.arange(new.start, new.stop)
    taken = []
    for name, rows, is_wanted in ((SERVE, traffic.serves, True), (CLICK, traffic.clicks, False)):
        own = numbers[events.is_serve[new] == is_wanted]
        frame = rows[events.row[own]].with_columns(pl.Series("@number", own))
        taken.append(shedder.kept(types[name], frame)["@number"].to_numpy())
    return np.sort(np.concatenate(taken))
