"""The elements that this agent hosts: rows come in, are new or not, and go to elements; what these emit goes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from agent.runtime.keyed.elements.runtime import NODE, SEQ, SOURCE, ElementRuntime, Emitted
from agent.runtime.keyed.hosting.commits.given_rows import Giver
from agent.runtime.keyed.hosting.commits.pledges import Pledges
from agent.runtime.keyed.hosting.layout import NOWHERE, ROUTES, GraphLayout, TypeLayout
from agent.runtime.keyed.hosting.options import Bools, Ints, KeyedOptions
from agent.runtime.keyed.hosting.rows.emitter import Emitter
from agent.runtime.keyed.hosting.rows.incoming import RowStream, Streams
from agent.runtime.keyed.hosting.rows.numbering import number_keyed, number_keyless
from agent.runtime.keyed.hosting.rows.outgoing import NEVER
from agent.runtime.keyed.hosting.rows.parents import Parents
from agent.runtime.keyed.hosting.rows.positions import Positions
from agent.runtime.keyed.hosting.rows.selection import Events, events_of, of_nodes, where
from agent.runtime.keyed.hosting.slot import BEGINNING, ElementSlot
from agent.runtime.keyed.hosting.time.hold import Hold
from agent.runtime.keyed.logical_nodes import NODES

PARKED_S, UNPARK_S = 30.0, 0.05
"""Time for which rows wait for the host of their node to be known, before they are lost, and between looks at them
while no node comes here."""

UNCOMMITTED_SHARE = 4
"""Share of the rows that may be under way for events that wait for standbys: what takes long to commit takes longer the
more there is of it."""


class _Parked(NamedTuple):
    """Rows that came for nodes that are not here, or take none while they move."""

    since: float
    type: TypeLayout
    rows: pl.DataFrame
    nodes: Ints


class Host:
    """Slots of elements with and without keys, and the rows that come for them.

    `owned`: nodes that are here; `open`: those of them that take rows, as they do not while they move; `touched`: those
    that have taken some, or come with their state. `is_stirred`: something has happened that may move event time.
    `passing_until`: for so long, results may wait for what is committed, and from `hurry_from` on what they wait for is
    here; `is_calm`: at other times, nothing waits.
    """

    def __init__(
        self,
        layout: GraphLayout,
        options: KeyedOptions,
        runtimes: Mapping[str, ElementRuntime],
        emitter: Emitter,
        on_rows: Callable[[str, pl.DataFrame], None],
        wants: Callable[[str], bool],
        giver: Giver,
    ) -> None:
        self._layout, self._options, self._emitter = layout, options, emitter
        self._on_rows = on_rows
        self.pledges = Pledges(layout.guaranteed, on_rows, wants, giver)
        self.owned: Bools = np.zeros(NODES, bool)
        self.open: Bools = np.zeros(NODES, bool)
        self.touched: Bools = np.zeros(NODES, bool)
        self.positions = Positions(len(layout.routes), len(layout.elements))
        self.streams = Streams()
        self._parents = Parents(layout, emitter)
        self.family = self._parents.family
        self.slots: dict[int, ElementSlot] = {}
        self.holds: dict[int, Hold] = {}
        keyed = set(layout.keyed)
        for place, element in enumerate(layout.elements):
            emits = [layout.by_name[name].place for name in layout.graph.emits(element)]
            runtime, room = runtimes[element.name], self._room(emits, place)
            rests = place in keyed and not options.bounded
            self.slots[place] = ElementSlot(
                place, runtime, room, self._emitted, rests=rests, clocks=emitter.wrong_clocks
            )
            is_held = not self._is_from_circle(place) if options.bounded else element.ordered
            if place in keyed and is_held:
                self.holds[place] = Hold(place, element, is_bounded=options.bounded)
        self.keyed = keyed
        self.collected: dict[int, list[tuple[str, pl.DataFrame]]] = {place: [] for place in layout.guaranteed}
        self.uncommitted = 0
        """Events of guaranteed elements in commits that standbys do not hold yet, or are not given to the query yet."""
        self.collects = False
        self.next_commit = 1
        self.is_dirty = self.is_stirred = False
        self.passing_until = self.hurry_from = 0.0
        self.is_calm = False
        self._parked: list[_Parked] = []
        self._unpark_at, self._has_gained = 0.0, False
        self.lost_nodes: set[int] = set()
        """Nodes some of whose rows are lost, as nobody took them."""
        self._aside: list[tuple[int, TypeLayout, pl.DataFrame]] = []
        self.lost = self.emitted_rows = 0
        self.now = 0.0

    def _is_from_circle(self, place: int) -> bool:
        """Whether an element reads what comes from a circle: what goes round cannot wait for its end."""
        return not self._layout.graph.from_circles.isdisjoint(self._layout.inputs(place))

    def _room(self, emits: list[int], place: int) -> Callable[[], bool]:
        return lambda: all(self._emitter.has_room(one) for one in emits) and self._may_emit(place)

    def _may_emit(self, place: int) -> bool:
        """Whether not so much of what elements have emitted waits for standbys that more of it is to wait, too."""
        if place not in self.collected:
            return True
        waiting = self.uncommitted + sum(rows.height for _, rows in self.collected[place])
        return waiting < self._options.pending_rows_max // UNCOMMITTED_SHARE

    # Rows in.

    def batch(self, type_: TypeLayout, stream: RowStream, rows: pl.DataFrame) -> list[int]:
        """Takes the next batch of a stream. Returns the nodes that are not here; then a batch of a guaranteed type has
        not been taken."""
        elsewhere = self.take(type_, rows)
        if not (elsewhere and type_.guaranteed):
            commit = self.next_commit if type_.guaranteed and self.collects else None
            stream.took(rows.height, commit, self.now)
        return elsewhere

    def take(self, type_: TypeLayout, rows: pl.DataFrame) -> list[int]:
        """Gives rows to the elements that take them; returns nodes that are not here, whose rows wait or go on."""
        nodes = type_.nodes(rows)
        is_foreign = (nodes != NOWHERE) & ~self.open[nodes]
        elsewhere: list[int] = []
        if is_foreign.any():
            elsewhere = np.unique(nodes[is_foreign]).tolist()
            if type_.guaranteed:
                return elsewhere
            self._park(type_, rows, nodes, is_foreign)
            nodes = np.where(is_foreign, np.int16(NOWHERE), nodes)
        self.is_dirty |= type_.guaranteed
        self.touched[nodes[nodes != NOWHERE]] = True
        for place, route in enumerate(type_.routes):
            self._to_route(type_, route.index, route.consumers, rows, nodes[place])
        return elsewhere

    def _to_route(
        self, type_: TypeLayout, index: int, consumers: tuple[int, ...], rows: pl.DataFrame, nodes: Ints
    ) -> None:
        taken = nodes != NOWHERE
        if not taken.all():
            rows, nodes = where(rows, taken), nodes[taken]
        if type_.guaranteed and rows.height:
            fresh = self.positions.fresh(index, nodes, rows[SOURCE].to_numpy(), rows[SEQ].to_numpy())
            if len(fresh) < len(nodes):
                rows, nodes = rows[fresh], nodes[fresh]
        if not rows.height:
            return
        if len(type_.routes) > 1:
            rows = rows.drop(ROUTES)
        rows = type_.without_workers(rows)
        rows = rows.hstack([pl.Series(NODE, nodes.astype(np.uint16))])
        for consumer in consumers:
            if (hold := self.holds.get(consumer)) is not None:
                hold.add(type_.name, rows)
            else:
                self.slots[consumer].rows(type_.name, rows)

    def _park(self, type_: TypeLayout, rows: pl.DataFrame, nodes: Ints, is_foreign: Bools) -> None:
        parked = self._on_routes(type_, rows, is_foreign)
        self._parked.append(_Parked(self.now, type_, parked, np.unique(nodes[is_foreign])))

    def unpark(self, is_taken_for_host: Callable[[int], bool]) -> None:
        """Takes rows whose nodes are here now, and sends on those whose nodes are not to come here."""
        if not self._parked or (self.now < self._unpark_at and not self._has_gained):
            return
        self._unpark_at, self._has_gained = self.now + UNPARK_S, False
        parked, self._parked = self._parked, []
        for one in parked:
            if self.open[one.nodes].any():
                self.take(one.type, one.rows)
                continue
            stays = [node for node in one.nodes.tolist() if self.owned[node] or is_taken_for_host(node)]
            if stays:
                self._park_on(one, stays)
            else:
                self._emitter.emit(one.type, one.rows, self.now)

    def _park_on(self, parked: _Parked, stays: list[int]) -> None:
        """Lets rows of nodes that may come here wait, but not for ever, and sends on the others."""
        if len(stays) < len(parked.nodes):
            rows, nodes = parked.rows, parked.type.nodes(parked.rows)
            staying = np.isin(nodes, stays)
            others = (nodes != NOWHERE) & ~staying
            self._emitter.emit(parked.type, self._on_routes(parked.type, rows, others), self.now)
            parked = parked._replace(rows=self._on_routes(parked.type, rows, staying), nodes=np.array(stays))
        if self.now < parked.since + PARKED_S:
            self._parked.append(parked)
        else:
            self.lost += parked.rows.height
            self.lost_nodes.update(stays)

    @staticmethod
    def _on_routes(type_: TypeLayout, rows: pl.DataFrame, chosen: Bools) -> pl.DataFrame:
        """The rows that go on some routes (routes × rows), which they are to take alone."""
        if len(type_.routes) > 1:
            weights = np.left_shift(np.int64(1), np.arange(len(type_.routes)))
            rows = rows.with_columns(pl.Series(ROUTES, weights @ chosen))
        return where(rows, np.logical_or.reduce(chosen))

    def to_keyless(self, type_: TypeLayout, rows: pl.DataFrame) -> None:
        """Gives rows to the elements without keys beside this agent."""
        rows = type_.without_workers(rows)
        for place in type_.keyless:
            self.slots[place].rows(type_.name, rows)

    # Rows out.

    def _emitted(self, slot: ElementSlot, emitted: list[Emitted], taken: str) -> None:
        self.is_stirred = True
        for name, rows in emitted:
            type_ = self._layout.by_name.get(name)
            if type_ is None:
                slot.refused += rows.height
                continue
            if slot.place in self.keyed and not (own := self._own(slot)[rows[NODE].to_numpy()]).all():
                rows = where(rows, own)
            if not rows.height:
                continue
            slot.emitted += rows.height
            if slot.place in self.keyed:
                numbered = type_.plain(number_keyed(slot.place, rows, slot.next_seq))
                numbered = self._emitter.chooser.chosen(type_, numbered, self.now)
                numbered = self._without_sealed(slot, type_, numbered)
            else:
                place = self._layout.by_name[taken].place
                self._emitter.chooser.derives(rows, slot.place, place, type_.place)
                numbered = type_.plain(number_keyless(slot.place, place, type_.place, rows))
            self._out(slot.place, type_, numbered)

    def _own(self, slot: ElementSlot) -> Bools:
        """The nodes of which an element's answers count: those that are here, and have been since they were asked."""
        own: Bools = self.owned & (slot.left_over == 0)
        return own

    def _without_sealed(self, slot: ElementSlot, type_: TypeLayout, rows: pl.DataFrame) -> pl.DataFrame:
        """Puts aside events of nodes whose new host emits them, too, and the more if it comes to nothing."""
        if not slot.sealed.any():
            return rows
        sealed = slot.sealed[rows[SOURCE].to_numpy() % NODES]
        self._aside.append((slot.place, type_, where(rows, sealed)))
        return where(rows, ~sealed)

    def _out(self, place: int, type_: TypeLayout, rows: pl.DataFrame) -> None:
        if place in self.collected:
            if self.collects:
                self.is_dirty = True
                self.collected[place].append((type_.name, rows))
            else:
                self.show(type_, rows)
        elif rows.height:
            self._on_rows(type_.name, rows)
            self._publish(type_, rows)

    def commit_no_more(self) -> None:
        """There are no standbys any more: events that have waited for a commit are seen now. Later ones would overtake
        them, and those who get both would take the earlier ones for repeated."""
        self.pledges.give_all()
        for place, collected in self.collected.items():
            self.collected[place] = []
            for name, rows in collected:
                self.show(self._layout.by_name[name], rows)
        self.streams.committed(self.next_commit)

    def take_collected(self, place: int, nodes: Bools) -> Events:
        """Takes what an element has emitted in some nodes; what it has in others stays."""
        collected = self.collected[place]
        self.collected[place] = events_of(collected, ~nodes)
        return events_of(collected, nodes)

    def unseal(self, nodes: Ints) -> None:
        """Nodes stay here after all."""
        for slot in self.slots.values():
            slot.sealed[nodes] = False
        aside, self._aside = self._aside, []
        for place, type_, rows in aside:
            sealed = self.slots[place].sealed[rows[SOURCE].to_numpy() % NODES]
            self._out(place, type_, where(rows, ~sealed))
            if sealed.any():
                self._aside.append((place, type_, where(rows, sealed)))

    def show(self, type_: TypeLayout, rows: pl.DataFrame) -> None:
        """Lets events of guaranteed elements be seen, by the job's query as soon as standbys know, if there are any."""
        if rows.height:
            self.pledges.add(type_.name, rows)
            if not self.collects:
                self.pledges.give_all()
            self._publish(type_, rows)

    def _publish(self, type_: TypeLayout, rows: pl.DataFrame) -> None:
        """Lets events be seen by elements without keys, and by the hosts of their nodes."""
        self.emitted_rows += rows.height
        self._parents.add(type_, rows)
        self.to_keyless(type_, rows)
        self._emitter.emit(type_, rows, self.now)

    def parents(self) -> list[tuple[str, pl.DataFrame]]:
        """The events emitted here of which elements without keys make some that are not safe yet."""
        return self._parents.kept(is_busy=self.has_waiting_keyless)

    # Time.

    def advance(self, watermarks: list[int]) -> None:
        """Lets elements act on the time before which no more of their events come."""
        for place in self.keyed:
            slot = self.slots[place]
            upto = min(watermarks[self._layout.by_name[name].place] for name in self._layout.inputs(place))
            if (hold := self.holds.get(place)) is not None:
                hold.release(upto, slot.rows, slot.advance)
                self.is_dirty |= not slot.is_idle and place in self.collected
            elif upto > slot.asked:
                slot.advance(upto)  # what it changes without emitting, a later host comes to as well

    def run(self) -> None:
        """Lets elements do what they have to."""
        for slot in self.slots.values():
            slot.run(self.now)

    def next_timer(self) -> float | None:
        """The time at which the first element has rested, or to look at rows that wait for their node."""
        due = [at for slot in self.slots.values() if (at := slot.rests_until) is not None]
        return min([*due, self._unpark_at] if self._parked else due, default=None)

    def lowest(self, place: int) -> int:
        """The lowest time that an element may emit here, from now on."""
        slot = self.slots[place]
        if slot.applied == BEGINNING:
            return BEGINNING
        lowest = min(slot.applied, slot.lowest)
        return lowest - self._layout.held_ms(place) if lowest < NEVER else NEVER

    # Nodes.

    def gain(self, nodes: Ints, first_seq: Ints | None = None) -> None:
        """Nodes are here now; those begun anew number what they emit from `first_seq` on."""
        self.owned[nodes] = True
        self.reopen(nodes)
        self.touched[nodes] = first_seq is not None
        if first_seq is not None:
            for place in self.keyed:
                self.slots[place].next_seq[nodes] = first_seq

    def reopen(self, nodes: Ints | list[int]) -> None:
        """Nodes take rows, those that have waited for them first."""
        self.open[nodes] = self._has_gained = True

    def lose(self, nodes: Ints) -> None:
        """Nodes are elsewhere now."""
        nodes = nodes[self.owned[nodes]]
        if not len(nodes):
            return
        self.owned[nodes] = self.open[nodes] = False
        self.positions.drop(nodes)
        for place in self.keyed:
            self.slots[place].lose(nodes)
            if place in self.holds:
                self.holds[place].drop(self.owned)
        self._aside = [(place, type_, of_nodes(rows, self.owned)) for place, type_, rows in self._aside]
        for place in self.collected:
            self.collected[place] = events_of(self.collected[place], self.owned)

    @property
    def blocked(self) -> frozenset[int]:
        """The places of types whose elements have no room for what they emit."""
        full = {place for place, slot in self.slots.items() if not slot.may_run()}
        types = self._layout.types if full else ()
        return frozenset(one.place for one in types if any(full & set(route.consumers) for route in one.routes))

    @property
    def has_waiting_keyless(self) -> bool:
        """Whether rows wait for elements without keys."""
        return any(not slot.is_idle for place, slot in self.slots.items() if place not in self.keyed)

    @property
    def queued(self) -> int:
        """The rows that wait for their elements."""
        return sum(slot.queued for slot in self.slots.values())

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits here."""
        return (
            not self._parked
            and all(slot.is_idle for slot in self.slots.values())
            and not any(hold.rows for hold in self.holds.values())
            and not any(self.collected.values())
        )

    def collected_lowest(self, name: str) -> int:
        """The lowest time of events of a type that have not been committed, wait for their node, or are put aside: a
        new host emits them, too, once it is known to be it."""
        collected = [rows for emitted in self.collected.values() for one, rows in emitted if one == name]
        parked = [one.rows for one in self._parked if one.type.name == name]
        aside = [rows for _, type_, rows in self._aside if type_.name == name]
        rest = [self._emitter.wrong_clocks.lowest(rows) for rows in [*collected, *parked, *aside]]
        return min(rest, default=NEVER)
