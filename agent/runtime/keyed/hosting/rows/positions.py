"""The number of the last row that each logical node has taken from each channel, on each route."""

from __future__ import annotations

import numpy as np
import polars as pl

from agent.runtime.keyed.elements.runtime import NODE, SEQ, SOURCE
from agent.runtime.keyed.hosting.options import Bools, Ints
from agent.runtime.keyed.logical_nodes import NODES, mask_of
from cbt.native.library import load

CHANNELS_MAX = 1 << 14
"""Channels from which one route takes rows; rows of others are refused."""
ROUTE = "@route"
SCHEMA = pl.Schema({ROUTE: pl.Int64(), NODE: pl.Int64(), SOURCE: pl.Int64(), SEQ: pl.Int64()})


_NONE = SCHEMA.to_frame()


class TooManyChannelsError(Exception):
    """Rows come from more channels than one job can have."""


class _Route:
    """A table of channels × nodes, and which of its places have changed."""

    def __init__(self, elements: int) -> None:
        self.table: Ints = np.full((16, NODES), -1, np.int64)
        self.changed: Bools = np.zeros((16, NODES), bool)
        self.channels: list[int] = []
        self._of_element: Ints = np.full(elements * NODES, -1, np.int32)
        self._others: dict[int, int] = {}

    def lines(self, channels: Ints) -> Ints:
        """The line of each row's channel in the table."""
        own = channels >= 0
        if own.all():
            found = self._of_element[channels]
            if (found < 0).any():
                for channel in np.unique(channels[found < 0]).tolist():
                    self._of_element[channel] = self._new(channel)
                found = self._of_element[channels]
            return found
        if own.any():
            found = np.empty(len(channels), np.int32)
            found[own], found[~own] = self.lines(channels[own]), self.lines(channels[~own])
            return found
        different, inverse = np.unique(channels, return_inverse=True)
        return np.array([self._other(channel) for channel in different.tolist()], np.int32)[inverse]

    def _other(self, channel: int) -> int:
        if (line := self._others.get(channel)) is None:
            line = self._others[channel] = self._new(channel)
        return line

    def _new(self, channel: int) -> int:
        line = len(self.channels)
        if line >= CHANNELS_MAX:
            raise TooManyChannelsError
        if line == len(self.table):
            self.table = np.concatenate([self.table, np.full_like(self.table, -1)])
            self.changed = np.concatenate([self.changed, np.zeros_like(self.changed)])
        self.channels.append(channel)
        return line

    def take(self, lines: Ints, nodes: Ints, seqs: Ints) -> Ints:
        """The places of rows whose numbers are new, which become the last ones. O(rows)."""
        if (library := load().library) is not None:
            nodes, seqs = np.ascontiguousarray(nodes, np.int16), np.ascontiguousarray(seqs)
            places = np.empty(len(nodes), np.int64)
            arrays = self.table.ctypes.data, self.changed.ctypes.data, places.ctypes.data
            rows = lines.ctypes.data, nodes.ctypes.data, seqs.ctypes.data
            return places[: library.elf_fresh(*rows, len(nodes), NODES, *arrays)]
        places = np.flatnonzero((seqs > self.table[lines, nodes]) & _ascends(lines, nodes, seqs))
        np.maximum.at(self.table, (lines[places], nodes[places]), seqs[places])
        self.changed[lines[places], nodes[places]] = True
        return places

    def frame(self, route: int, chosen: Bools) -> pl.DataFrame:
        """The numbers at some places."""
        lines, nodes = np.nonzero(chosen[: len(self.channels)])
        return position_rows(route, nodes, np.array(self.channels, np.int64)[lines], self.table[lines, nodes])


class Positions:
    """Tells rows that have not come yet from those that have."""

    def __init__(self, routes: int, elements: int) -> None:
        self._elements = elements
        self._routes = [_Route(elements) for _ in range(routes)]

    def fresh(self, route: int, nodes: Ints, channels: Ints, seqs: Ints) -> Ints:
        """The places of the rows that are new to their nodes; they are known from now on. O(rows)."""
        if not ((channels < self._elements * NODES).all() and (nodes >= 0).all()):
            raise TooManyChannelsError
        found = self._routes[route]
        return found.take(found.lines(channels), nodes, seqs)

    def take_changes(self) -> pl.DataFrame:
        """The positions that have changed since the last call."""
        frames = [route.frame(number, route.changed) for number, route in enumerate(self._routes)]
        for route in self._routes:
            route.changed[:] = False
        return pl.concat([_NONE, *frames])

    def of(self, nodes: Ints) -> pl.DataFrame:
        """All positions of some nodes."""
        own = mask_of(nodes)
        frames = [route.frame(number, (route.table >= 0) & own) for number, route in enumerate(self._routes)]
        return pl.concat([_NONE, *frames])

    def put(self, frame: pl.DataFrame) -> None:
        """Takes positions of nodes that come here; they are changes, so that the next commit is one of these nodes."""
        for number, route in enumerate(self._routes):
            part = frame.filter(pl.col(ROUTE) == number)
            if part.height:
                lines = route.lines(part[SOURCE].to_numpy())
                places = (lines, part[NODE].to_numpy())
                np.maximum.at(route.table, places, part[SEQ].to_numpy())
                route.changed[places] = True

    def drop(self, nodes: Ints) -> None:
        """Forgets nodes."""
        for route in self._routes:
            route.table[:, nodes] = -1
            route.changed[:, nodes] = False


def position_rows(route: int, nodes: Ints, channels: Ints | int, numbers: Ints) -> pl.DataFrame:
    """Numbers of nodes and channels on one route. Most commits have none, or few, for most routes."""
    if not len(nodes):
        return _NONE
    columns = (np.full(len(nodes), route), nodes, np.broadcast_to(channels, len(nodes)), numbers)
    return pl.DataFrame([pl.Series(name, column) for name, column in zip(SCHEMA, columns, strict=True)])


def compact_positions(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """The last number of each route, node and channel."""
    if not frames:
        return _NONE
    return pl.concat(frames).group_by(ROUTE, NODE, SOURCE).agg(pl.col(SEQ).max())


def _ascends(lines: Ints, nodes: Ints, seqs: Ints) -> Bools:
    """Whether each row has a higher number than those before it of its channel and node: what an agent sends again may
    come twice in one batch."""
    key = lines.astype(np.int64) * NODES + nodes
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    if (np.diff(seqs[order])[same] > 0).all():
        return np.ones(len(seqs), bool)
    before = pl.col(SEQ).cum_max().shift(1).over("key").fill_null(-1)
    return pl.DataFrame({"key": key, SEQ: seqs}).select(pl.col(SEQ) > before).to_series().to_numpy()
