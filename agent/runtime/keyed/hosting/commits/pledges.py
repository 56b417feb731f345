"""Events of guaranteed elements on their way to the job's query: a host gives them once its standbys hold that it does.

So a later host of their node knows which ones are given, and this one, if it was taken for dead, drops the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import numpy as np
import polars as pl

from agent.runtime.keyed.elements.runtime import NODE, SEQ, SOURCE
from agent.runtime.keyed.hosting.commits.given_rows import GivenRows, Giver
from agent.runtime.keyed.hosting.commits.records import Table
from agent.runtime.keyed.hosting.options import Bools, Ints
from agent.runtime.keyed.hosting.rows.numbering import NODE_BITS
from agent.runtime.keyed.hosting.rows.positions import ROUTE, position_rows
from agent.runtime.keyed.hosting.rows.selection import Events, events_of, where
from agent.runtime.keyed.logical_nodes import NODES

FIRST_ROUTE, GIVERS_ROUTE = -1_000, -2_000
"""Positions of what is given travel as those of a route for each element, from this one down; from the second on down
those of each giver, as channels."""


class Pledges:
    """`give` takes what is the query's for good, with the name of its type. `wants`: whether the query reads a type.
    `me`: this agent's process, among those who give."""

    def __init__(
        self,
        elements: Iterable[int],
        give: Callable[[str, pl.DataFrame], None],
        wants: Callable[[str], bool],
        me: Giver,
    ) -> None:
        self._give, self._wants = give, wants
        self._upto: dict[int, Ints] = {place: np.zeros(NODES, np.int64) for place in elements}
        self.given = GivenRows(self._upto, me)
        self._told: dict[int, Ints] = {place: np.zeros(NODES, np.int64) for place in self._upto}
        self._waiting: Events = []
        self._pledged: deque[tuple[int, Events]] = deque()

    def add(self, name: str, rows: pl.DataFrame) -> None:
        """Takes events that standbys hold; those that a host before has given are passed over."""
        if self._wants(name):
            self.given.expect(name)
            if (new := where(rows, self._are_new(rows))).height:
                self._waiting.append((name, new))

    def _are_new(self, rows: pl.DataFrame) -> Bools:
        """Whether each event has not been given yet."""
        nodes, places = _nodes(rows), rows[SOURCE].to_numpy() >> NODE_BITS
        are_new = np.zeros(rows.height, bool)
        for place in np.unique(places).tolist():
            own = places == place
            are_new[own] = rows[SEQ].to_numpy()[own] >= self._upto[place][nodes[own]]
        return are_new

    def pledge(self, commit: int, whole: Ints) -> tuple[list[Table], list[Table]]:
        """Pledges all that waits in a commit; returns what that says of it: changes, and all of some nodes."""
        if waiting := self._take_waiting():
            self._pledged.append((commit, waiting))
        changes = []
        for place, upto in self._upto.items():
            changes.append(_table(place, upto, np.flatnonzero(upto != self._told[place])))
            changes.extend(self.given.take_changes(place, GIVERS_ROUTE - place))
            self._told[place] = upto.copy()
        found = [_table(place, upto, whole) for place, upto in self._upto.items()]
        for place in self._upto:
            found.extend(self.given.positions(place, GIVERS_ROUTE - place, whole))
        return changes, found

    def _take_waiting(self) -> Events:
        """The events that wait, which are to be given to the query."""
        waiting, self._waiting = self._waiting, []
        for _, rows in waiting:
            nodes, places, seqs = _nodes(rows), rows[SOURCE].to_numpy() >> NODE_BITS, rows[SEQ].to_numpy()
            for place in np.unique(places).tolist():
                own = places == place
                np.maximum.at(self._upto[place], nodes[own], seqs[own] + 1)
                self.given.gave(place, nodes[own], seqs[own])
        return waiting

    def held(self, commit: int) -> None:
        """Gives what has been pledged in commits up to one, which standbys hold."""
        while self._pledged and self._pledged[0][0] <= commit:
            self._give_all(self._pledged.popleft()[1])

    def give_all(self) -> None:
        """Gives everything, and keeps nothing of it: there are no standbys."""
        while self._pledged:
            self._give_all(self._pledged.popleft()[1], is_kept=False)
        self._give_all(self._take_waiting(), is_kept=False)

    def _give_all(self, events: Events, *, is_kept: bool = True) -> None:
        for name, rows in events:
            self._give(name, rows)
            if is_kept:
                self.given.keep(name, rows)
            else:
                self.given.pass_over(name, rows)

    def put(self, positions: pl.DataFrame) -> None:
        """Learns what hosts before this one have given of nodes that come here."""
        for place, upto in self._upto.items():
            own = positions.filter(pl.col(ROUTE) == FIRST_ROUTE - place)
            np.maximum.at(upto, own[NODE].to_numpy(), own[SEQ].to_numpy())
            self.given.inherit_positions(place, positions.filter(pl.col(ROUTE) == GIVERS_ROUTE - place))

    def inherit(self, name: str, rows: pl.DataFrame, *, is_safe: bool) -> None:
        """Takes events of nodes that come here, once their positions are known: those that have been given are kept; of
        what is safe elsewhere the others are still to be given."""
        are_new = self._are_new(rows)
        self.given.keep(name, where(rows, ~are_new))
        if is_safe:
            self.add(name, where(rows, are_new))

    def lose(self, gone: Bools, moved: Bools) -> Events:
        """Forgets events of nodes that are elsewhere now: their new host gives them. Whether it gives those that have
        been pledged is not known, unless the node was `moved`; returns these."""
        self._waiting = events_of(self._waiting, ~gone)
        unsure = gone & ~moved
        found = [one for _, events in self._pledged for one in events_of(events, unsure)]
        self._pledged = deque((commit, events_of(events, ~unsure)) for commit, events in self._pledged)
        for place in self._upto:
            self._upto[place][gone] = self._told[place][gone] = 0
        self.given.lose(gone)
        return found

    @property
    def is_waiting(self) -> bool:
        """Whether events wait for a commit."""
        return bool(self._waiting)

    @property
    def pledged(self) -> Events:
        """The events that no other host may give, as far as its standbys hold the pledge."""
        return [one for _, events in self._pledged for one in events]

    def given_of(self, nodes: Bools) -> Events:
        """The events of some nodes that are given, or will be by nobody else, in windows that are not out."""
        return [*events_of(self.pledged, nodes), *self.given.events(nodes)]

    @property
    def events(self) -> Events:
        """All events that are not given yet."""
        return [*self._waiting, *self.pledged]


def _nodes(rows: pl.DataFrame) -> Ints:
    return rows[SOURCE].to_numpy() % NODES


def _table(place: int, upto: Ints, nodes: Ints) -> Table:
    return Table("positions", 0, ROUTE, position_rows(FIRST_ROUTE - place, nodes, 0, upto[nodes]))
