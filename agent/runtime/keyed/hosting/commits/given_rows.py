"""Keeps what the job's query has been given of some logical nodes, and by whom, until the query's windows are out.

Theory. An agent gives its query the events of the nodes that it hosts. If it dies, they are gone with the panes that it
had not sealed. So each host keeps what has been given of its nodes, by whichever agent: those that stand by hold the
events anyway, and hold them on, and all that moves with a node has them. Whoever hosts the nodes of a dead agent can
then tell exactly what it was given, and its part of a window is made again (`agent.runtime.master.lacking_parts`).

Events of a node are numbered and given in order, so of each node it is enough to know the number up to which each giver
has given. A giver is a stretch of one agent's life between two moments at which nodes come to it: a node that comes
back has been given by others meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import polars as pl

from agent.runtime.keyed.elements.runtime import EVENT_TIME, NODE, SEQ, SOURCE
from agent.runtime.keyed.hosting.commits.records import Table
from agent.runtime.keyed.hosting.options import Bools, Ints
from agent.runtime.keyed.hosting.rows.numbering import NODE_BITS
from agent.runtime.keyed.hosting.rows.outgoing import NEVER
from agent.runtime.keyed.hosting.rows.positions import ROUTE, position_rows
from agent.runtime.keyed.hosting.rows.selection import Events, of_nodes, where
from agent.runtime.keyed.hosting.slot import BEGINNING
from agent.runtime.keyed.logical_nodes import NODES

GIVEN_BYTES_MAX = 64 << 20
"""Upper bound on the events that one job keeps at one agent; past it the older half goes, and a window that lacks an
agent names it."""
STRETCH_BITS = 22
"""Low bits of a giver's number, which tell the stretches of one agent's life apart."""
GIVERS_MAX = 16
"""Givers of one element from which on those are forgotten of which no event is kept."""


class Giver(NamedTuple):
    """One process of an agent."""

    node_id: int
    incarnation: int

    def number(self, stretch: int) -> int:
        """The number of a stretch of its life."""
        low = _digest(f"{self.incarnation}/{stretch}") % (1 << STRETCH_BITS)
        return _agent_bits(self.node_id) << STRETCH_BITS | low


@lru_cache(maxsize=1 << 12)
def _agent_bits(node_id: int) -> int:
    return 1 + _digest(f"{node_id:032x}") % ((1 << 63 - STRETCH_BITS) - 1)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class _Kept:
    """The events of one type. `from_ms`: the time before which windows are out; `lacks_ms`: for each node, the time
    before which some of its events may not be here."""

    def __init__(self) -> None:
        self.frames: list[tuple[pl.DataFrame, int]] = []
        """With the newest time in each."""
        self.from_ms = BEGINNING
        self.lacks_ms: Ints = np.full(NODES, BEGINNING)
        self.bytes = 0

    def add(self, rows: pl.DataFrame) -> None:
        if rows.height and (newest := _newest(rows)) >= self.from_ms:
            self.frames.append((rows, newest))
            self.bytes += int(rows.estimated_size())

    def cut(self, from_ms: int) -> None:
        """Drops frames whose events are all older; those that are partly so are cut when they are read."""
        self.frames = [(rows, newest) for rows, newest in self.frames if newest >= from_ms]
        self.bytes = sum(int(rows.estimated_size()) for rows, _ in self.frames)

    def drop_older_half(self) -> None:
        """Drops events before a time in the middle of them, and notes that they are not here."""
        times = np.concatenate([rows[EVENT_TIME].to_numpy() for rows, _ in self.frames])
        from_ms = int(np.median(times)) + 1
        self.lacks_ms = np.maximum(self.lacks_ms, from_ms)
        rest = [where(rows, rows[EVENT_TIME].to_numpy() >= from_ms) for rows, _ in self.frames]
        self.frames = [(rows, _newest(rows)) for rows in rest if rows.height]
        self.cut(from_ms)

    def rows(self, nodes: Bools) -> pl.DataFrame | None:
        """The events of some nodes, each once."""
        found = [of_nodes(rows, nodes) for rows, _ in self.frames]
        found = [where(rows, rows[EVENT_TIME].to_numpy() >= self.from_ms) for rows in found]
        filled = [rows for rows in found if rows.height]
        return pl.concat(filled).unique([SOURCE, SEQ], maintain_order=True) if filled else None


class GivenRows:
    """`me`: the process that gives here. `left_out` counts events that there was no room to keep."""

    def __init__(self, elements: Iterable[int], me: Giver) -> None:
        self._process, self._stretch = me, 0
        self._me = me.number(0)
        self._kept: dict[str, _Kept] = {}
        self._upto: dict[int, dict[int, Ints]] = {place: {} for place in elements}
        self._told: dict[tuple[int, int], Ints] = {}
        self.bytes_max = GIVEN_BYTES_MAX
        self.left_out = 0

    # Events.

    def expect(self, name: str) -> None:
        """Notes that events of a type are to be kept, here and where agents stand by."""
        self._kept.setdefault(name, _Kept())

    def keep(self, name: str, rows: pl.DataFrame) -> None:
        """Keeps events that have been given."""
        self.expect(name)
        self._kept[name].add(rows)
        while sum(one.bytes for one in self._kept.values()) > self.bytes_max:
            largest = max(self._kept.values(), key=lambda one: one.bytes)
            before = sum(one.height for one, _ in largest.frames)
            largest.drop_older_half()
            self.left_out += before - sum(one.height for one, _ in largest.frames)

    def pass_over(self, name: str, rows: pl.DataFrame) -> None:
        """Notes that events have been given that are not kept: nobody stands by."""
        self.expect(name)
        kept = self._kept[name]
        kept.lacks_ms = np.maximum(kept.lacks_ms, _newest(rows) + 1)

    def forget(self, name: str, from_ms: int) -> None:
        """Learns that windows over a type are out that end before a time."""
        kept = self._kept.get(name)
        if kept is not None and from_ms > kept.from_ms:
            kept.from_ms = from_ms
            kept.cut(from_ms)
            if any(len(uptos) > GIVERS_MAX for uptos in self._upto.values()):
                self._forget_givers()

    def kept_from(self, owned: Bools) -> dict[str, int]:
        """The time of each type from which on those that stand by are to keep its events."""
        return {
            name: max(kept.from_ms, int(kept.lacks_ms[owned].max(initial=BEGINNING)))
            for name, kept in self._kept.items()
        }

    def events(self, nodes: Bools) -> Events:
        """All events of some nodes, by type."""
        found = ((name, kept.rows(nodes)) for name, kept in self._kept.items())
        return [(name, rows) for name, rows in found if rows is not None]

    def by_agent(self, node_id: int, name: str, nodes: Bools, from_ms: int, before_ms: int) -> pl.DataFrame | None:
        """The events of a type, of some nodes and of times in a range, that an agent's query has been given. O(events ·
        givers)."""
        rows = None if name not in self._kept else self._kept[name].rows(nodes)
        if rows is None:
            return None
        times = rows[EVENT_TIME].to_numpy()
        rows = where(rows, (times >= from_ms) & (times < before_ms))
        return where(rows, self._givers(rows) >> STRETCH_BITS == _agent_bits(node_id))

    def _givers(self, rows: pl.DataFrame) -> Ints:
        """The giver of each event: of those that have given more of its node, that which has given the least."""
        channels, seqs = rows[SOURCE].to_numpy(), rows[SEQ].to_numpy()
        nodes, places = channels % NODES, channels >> NODE_BITS
        givers, least = np.zeros(rows.height, np.int64), np.full(rows.height, NEVER)
        for place, uptos in self._upto.items():
            for giver, upto in uptos.items():
                given = upto[nodes]
                nearer = (places == place) & (seqs < given) & (given < least)
                givers[nearer], least[nearer] = giver, given[nearer]
        return givers

    def lacks(self, names: Sequence[str], from_ms: int) -> Bools:
        """The nodes of which events from a time on may be lacking."""
        kept = [self._kept[name].lacks_ms > from_ms for name in names if name in self._kept]
        found: Bools = np.logical_or.reduce([np.zeros(NODES, bool), *kept])
        return found

    # Givers.

    def gave(self, place: int, nodes: Ints, seqs: Ints) -> None:
        """Notes that events of an element's nodes are given here."""
        np.maximum.at(self._of(place, self._me), nodes, seqs + 1)

    def _of(self, place: int, giver: int) -> Ints:
        return self._upto[place].setdefault(giver, np.zeros(NODES, np.int64))

    def take_changes(self, place: int, route: int) -> list[Table]:
        """The numbers up to which givers have given, where that is new since the last call, as positions."""
        found = []
        for giver, upto in self._upto[place].items():
            told = self._told.setdefault((place, giver), np.zeros(NODES, np.int64))
            found.append(_table(route, giver, upto, np.flatnonzero(upto != told)))
            told[:] = upto
        return found

    def positions(self, place: int, route: int, nodes: Ints) -> list[Table]:
        """The numbers up to which givers have given of some nodes, as positions."""
        return [_table(route, giver, upto, nodes[upto[nodes] > 0]) for giver, upto in self._upto[place].items()]

    def begin_stretch(self) -> None:
        """Nodes come here: what is given from now on is told apart from what was given before."""
        self._stretch += 1
        self._me = self._process.number(self._stretch)

    def inherit_positions(self, place: int, positions: pl.DataFrame) -> None:
        """Learns what others have given of nodes that come here."""
        for giver in positions[SOURCE].unique().to_list():
            own = positions.filter(pl.col(SOURCE) == giver)
            np.maximum.at(self._of(place, giver), own[NODE].to_numpy(), own[SEQ].to_numpy())

    def inherit_lacks(self, name: str, nodes: Ints, lacks_ms: Ints) -> None:
        """Learns before which times events of nodes that come here may be lacking."""
        if (lacks_ms <= BEGINNING).all() and name not in self._kept:
            return
        self.expect(name)
        kept = self._kept[name]
        kept.lacks_ms[nodes] = np.maximum(kept.lacks_ms[nodes], lacks_ms)

    def lose(self, gone: Bools) -> None:
        """Forgets nodes that are elsewhere now, and givers of none."""
        for kept in self._kept.values():
            rest = [(of_nodes(rows, ~gone), newest) for rows, newest in kept.frames]
            kept.frames = [(rows, newest) for rows, newest in rest if rows.height]
            kept.cut(kept.from_ms)
            kept.lacks_ms[gone] = BEGINNING
        for place, uptos in self._upto.items():
            for giver, upto in list(uptos.items()):
                upto[gone] = 0
                if not upto.any() and giver != self._me:
                    self._forget_giver(place, giver)
                elif (told := self._told.get((place, giver))) is not None:
                    told[gone] = 0

    def _forget_givers(self) -> None:
        """Forgets givers of which no event is kept."""
        events = self.events(np.ones(NODES, bool))
        named = {giver for _, rows in events for giver in np.unique(self._givers(rows)).tolist()}
        for place, uptos in self._upto.items():
            for giver in uptos.keys() - named - {self._me}:
                self._forget_giver(place, giver)

    def _forget_giver(self, place: int, giver: int) -> None:
        del self._upto[place][giver]
        self._told.pop((place, giver), None)


def _newest(rows: pl.DataFrame) -> int:
    """The newest time in a frame."""
    return int(rows[EVENT_TIME].to_numpy().max(initial=BEGINNING))


def _table(route: int, giver: int, upto: Ints, nodes: Ints) -> Table:
    return Table("positions", 0, ROUTE, position_rows(route, nodes, giver, upto[nodes]))
