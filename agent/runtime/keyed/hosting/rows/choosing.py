"""Chooses the workers of rows on split routes, by the grouping of the elements there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from agent.grouping import Assignment, Grouping, Report, make_grouping
from agent.runtime.keyed.elements.runtime import SEQ, SOURCE
from agent.runtime.keyed.hosting.layout import GraphLayout, RouteLayout, TypeLayout
from agent.runtime.keyed.hosting.options import Bools, Ints
from agent.runtime.keyed.hosting.rows.choice_log import UNCHOSEN, ChoiceLog
from agent.runtime.keyed.hosting.rows.hot_names import HOT_SHOWN, HotNames
from agent.runtime.keyed.hosting.rows.numbering import derived_channel
from agent.runtime.keyed.logical_nodes import Hashes, key_hashes
from overlay import Id

CHANNELS_MAX = 1 << 14
"""Upper bound on the channels of logs that are remembered; rows of older files go to first workers."""


class WorkerChooser:
    """Chooses once for each row. The choice is in a column of the row, and goes with it wherever it goes.

    A row that may be made again has to go to the same worker again. Events of keyed elements have their choices in
    commits, rows of this agent's own logs in a log; for others, which clients may send again to another agent, it is
    the first worker of their key, the same everywhere.
    """

    def __init__(self, me: Id, layout: GraphLayout, log: ChoiceLog) -> None:
        self.log = log
        split = [route for type_ in layout.types for route in type_.split]
        numbers = {route.workers: workers_of(route.workers) for route in split}
        source = int(me) % 2**32
        self.groupings: dict[int, Grouping] = {
            one.index: make_grouping(one.grouping, numbers[one.workers], source) for one in split
        }
        self._firsts = {one.index: make_grouping("fields", numbers[one.workers], source) for one in split}
        self.names = {one.index: HotNames(layout.key_kinds(one)) for one in split}
        self._roots: dict[int, int] = {}
        """By channel, the channel of this agent's logs that its rows come from."""
        self._safe: dict[int, int] = {}

    def reads(self, channel: int) -> None:
        """Learns that a channel numbers rows of this agent's logs."""
        self._roots[channel] = channel

    def derives(self, rows: pl.DataFrame, element: int, taken: int, emitted: int) -> None:
        """Learns that an element without a key makes rows of a type from these, by the places of the types."""
        if not self.groupings:
            return
        for parent in rows[SOURCE].unique().to_list():
            if (root := self._roots.get(parent)) is not None:
                self._roots[derived_channel(parent, element, taken, emitted)] = root

    def chosen(self, type_: TypeLayout, rows: pl.DataFrame, now: float) -> pl.DataFrame:
        """The rows with their workers; those that have them stay as they are. O(rows)."""
        if type_.has_workers(rows):
            return rows
        columns = [pl.Series(one.worker, self._workers(type_, one, rows, now), pl.Int64) for one in type_.split]
        return type_.plain(rows.hstack(columns))

    def _workers(self, type_: TypeLayout, route: RouteLayout, rows: pl.DataFrame, now: float) -> Ints:
        hashes = key_hashes(rows[route.fields])
        workers = self._of_rows(type_, route, rows, hashes, now)
        self.names[route.index].note(self.groupings[route.index], rows, hashes, now)
        return workers

    def _of_rows(self, type_: TypeLayout, route: RouteLayout, rows: pl.DataFrame, hashes: Hashes, now: float) -> Ints:
        channels, seqs = rows[SOURCE].to_numpy(), rows[SEQ].to_numpy()
        grouping = self.groupings[route.index]
        of_logs = channels < 0
        if not (type_.guaranteed and of_logs.any()):
            return grouping.assign(hashes, now)
        workers: Ints = np.empty(rows.height, np.int16)
        if not of_logs.all():
            workers[~of_logs] = grouping.assign(hashes[~of_logs], now)
        for channel in np.unique(channels[of_logs]).tolist():
            of = channels == channel
            workers[of] = self._of_channel(route.index, channel, seqs[of], hashes[of], now)
        return workers

    def _of_channel(self, route: int, channel: int, seqs: Ints, hashes: Hashes, now: float) -> Ints:
        """The workers of rows that may be made again."""
        workers = self.log.chosen_before(route, channel, seqs)
        free = workers == UNCHOSEN
        if not free.any():
            return workers
        if channel in self._roots:
            workers[free] = self.groupings[route].assign(hashes[free], now)
            if self.log.keep(route, channel, seqs[free], workers[free]):
                return workers
        workers[free] = self._firsts[route].assign(hashes[free], now)
        return workers

    def heard(self, type_: TypeLayout, here: Bools, event_s: float, share: float, now: float) -> None:
        """Learns how long an event takes at a host of these nodes, and this agent's share of the events there. It goes
        through the events of all of its workers, one after the other."""
        for route in type_.split:
            places = np.flatnonzero(here[: route.workers]).tolist()
            for place in places:
                self.groupings[route.index].heard(Report(place, event_s * len(places), share), now)

    def describe(self, routes: Collection[int]) -> dict[str, Any]:
        """Tells what these routes' groupings know, as this agent sends: hot keys, their parts, waits of workers."""
        split = [one for one in routes if one in self.groupings]
        if not split:
            return {}
        groupings = [self.groupings[one] for one in split]
        waits = np.max([np.nan_to_num(one.waits) for one in groupings], axis=0)
        found = {one: self.groupings[one].hot_keys() for one in split}
        hot = [name for one, keys in found.items() for name in self.names[one].named(keys)]
        return {
            "grouping": groupings[0].name,
            "workers": len(waits),
            "hot_keys": sum(len(one.hashes) for one in found.values()),
            "split_keys": sum(one.split_keys for one in found.values()),
            "mean_parts": max(one.mean_parts for one in found.values()),
            "hot": [list(one) for one in sorted(hot, key=lambda one: -one.share)[:HOT_SHOWN]],
            "waits": [float(one) for one in waits],
            "refused_reports": sum(one.refused_reports for one in groupings),
        }

    def statistics(self) -> dict[str, int]:
        """Counts by name."""
        found = [one.hot_keys() for one in self.groupings.values()]
        return {"hot_keys": sum(len(one.hashes) for one in found), "split_keys": sum(one.split_keys for one in found)}

    def stop(self, stopped: Bools) -> None:
        """Learns which nodes take nothing at the moment: what may go elsewhere does."""
        for grouping in self.groupings.values():
            workers = grouping.assignment.workers
            grouping.exclude(worker for worker, is_so in zip(workers, stopped, strict=False) if is_so)

    def forget(self, safe: Mapping[int, int]) -> None:
        """Forgets choices for rows that are never read again: below these numbers of channels of this agent's logs."""
        self._safe.update(safe)
        self.log.forget(lambda channel: self._safe.get(self._roots.get(channel, channel), 0))
        for known in (self._roots, self._safe):
            while len(known) > CHANNELS_MAX:
                del known[next(iter(known))]


@lru_cache(maxsize=8)
def workers_of(count: int) -> Assignment:
    """The workers of a route: so many logical nodes, the first, as these are placed most evenly."""
    return Assignment(0, 0, tuple(f"node {node}".encode() for node in range(count)))
