"""Cuts through the elements of a host: the state after one prefix of what it took, for commits and moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from agent.runtime.keyed.elements.runtime import NODE, SEQ, SOURCE, Tables
from agent.runtime.keyed.hosting.commits.commit_log import CommitLog, Pending
from agent.runtime.keyed.hosting.commits.record_pieces import by_nodes
from agent.runtime.keyed.hosting.commits.records import OF_CHANNELS, StateRecord, Table, joined, merged, tables_of
from agent.runtime.keyed.hosting.commits.standby import Copy
from agent.runtime.keyed.hosting.host import Host
from agent.runtime.keyed.hosting.layout import GraphLayout
from agent.runtime.keyed.hosting.options import Bools, Ints, KeyedOptions
from agent.runtime.keyed.hosting.rows.emitter import Emitter
from agent.runtime.keyed.hosting.rows.positions import ROUTE, position_rows
from agent.runtime.keyed.hosting.rows.selection import Events, of_nodes, where
from agent.runtime.keyed.hosting.slot import BEGINNING
from agent.runtime.keyed.logical_nodes import NODES, mask_of
from overlay import Peer

STANDSTILL_S = 1.0
"""Time without a look at commits after which nothing is committed at once."""
HURRY_S, HURRIED_MAX, HURRIED_S = 0.01, 20, 0.9
"""Time between cuts where windows and elements wait for what is committed, and their number in so much time: less than
a second, as each second may end with some."""
CALM_TIMES = 2
"""Times that the time between cuts is longer where nothing waits for one: each has its price for all standbys."""
SLOW_MAX = 10
"""Times that the time between cuts is longer at most where standbys do not keep up: fewer cuts, with more in each."""
SAFE_S, SAFE_TIMES = 1.0, 2
"""Time after which standbys are told again which emitted events are safe, and how many times as many as those that are
not, and are named again, they must hold by then: it is to free more than it costs."""
SAFE_ROWS = 1 << 12
"""Events that are named again in any case."""


@dataclass(slots=True)
class _Cut:
    """A cut under way. `moves`: nodes whose whole state goes to where they are to be hosted; `passed`: those of which
    that agent has all but the changes, as their standby. `left`: answers that elements still owe."""

    commit: int
    nodes: Bools
    whole: dict[Peer, Bools]
    moves: dict[Peer, Bools]
    passed: dict[Peer, Bools]
    left: int = 0
    watermarks: dict[int, int] = field(default_factory=dict)
    changes: list[Table] = field(default_factory=list)
    full: list[Table] = field(default_factory=list)
    emitted: list[tuple[int, str, pl.DataFrame]] = field(default_factory=list)


class Cutter:
    """Takes cuts, at most one at a time, and hands them to standbys and to new hosts.

    `moved` learns which nodes are where they are to be hosted, with the number of the copy.
    """

    def __init__(
        self,
        layout: GraphLayout,
        options: KeyedOptions,
        host: Host,
        emitter: Emitter,
        log: CommitLog,
        epoch_of: Callable[[int], int],
        moved: Callable[[Bools, int], None],
    ) -> None:
        self._layout, self._options, self._host, self._emitter, self._log = layout, options, host, emitter, log
        self._epoch_of, self._moved = epoch_of, moved
        self.pledges = host.pledges
        self.standbys: dict[Peer, Bools] = {}
        self.whole_due: dict[Peer, Bools] = {}
        self.moves_due: dict[Peer, Bools] = {}
        self._moving: list[tuple[Peer, Bools, int, int]] = []
        self._filling: list[tuple[Peer, Bools, int]] = []
        """Whole states on their way to standbys: of which nodes, up to which record."""
        self._cut: _Cut | None = None
        self._sealed: Bools = np.zeros(NODES, bool)
        self._withheld: list[tuple[str, pl.DataFrame]] = []
        self._last = self._safe_at = self._ticked_at = self._hurry_at = 0.0
        self._hurried = 0
        self._safe_commit = self._held_rows = 0
        elements = [layout.elements[place] for place in sorted(layout.guaranteed)]
        self._emits = [*dict.fromkeys(name for element in elements for name in layout.graph.emits(element))]
        self._told_seq: dict[int, Ints] = {place: np.zeros(NODES, np.int64) for place in layout.keyed}

    @property
    def is_busy(self) -> bool:
        """Whether something is cut, or to be."""
        is_due = bool(self.whole_due or self.moves_due or self.pledges.events)
        return self._cut is not None or is_due or not self._log.is_empty

    def set_standbys(self, peer: Peer, mask: Bools) -> None:
        """Learns for which nodes of this host an agent stands by."""
        before = self.standbys.get(peer, np.zeros(NODES, bool))
        added = mask & ~before
        if mask.any():
            self.standbys[peer] = mask
        else:
            self.standbys.pop(peer, None)
        due = (self.whole_due.get(peer, np.zeros(NODES, bool)) | added) & mask
        if added.any():
            self._log.owe(peer, added, self._host.next_commit)
        if due.any():
            self.whole_due[peer] = due
        elif self.whole_due.pop(peer, None) is not None:
            self._host.is_dirty = True  # commits that wait for its next record get it

    def again(self, peer: Peer) -> None:
        """Sends everything to a standby anew, as records to it may be lost; moves to it come to nothing."""
        self._log.begin_anew(peer)
        self._moving = [move for move in self._moving if move[0] != peer]
        self._filling = [one for one in self._filling if one[0] != peer]
        if peer in self.standbys:
            self.whole_due[peer] = self.standbys[peer].copy()

    def move(self, peer: Peer, nodes: Ints) -> None:
        """Gives the state of nodes to an agent that is to host them."""
        self.moves_due.setdefault(peer, np.zeros(NODES, bool))[nodes] = True

    def stay(self, nodes: Ints) -> None:
        """Nodes stay here in a new configuration, or as a move has come to nothing: their standbys get what they have
        missed, and those that were started again are asked what they hold."""
        self._host.is_dirty = True
        self._move_no_more(nodes)
        sealed = nodes[self._sealed[nodes]]
        self._sealed[sealed] = False
        self._show_withheld()
        self._host.unseal(sealed)
        for peer, mask in self.standbys.items():
            due = np.zeros(NODES, bool)
            due[sealed] = mask[sealed]
            if due.any():
                self.whole_due[peer] = self.whole_due.get(peer, np.zeros(NODES, bool)) | due

    def lose(self, nodes: Ints, moved: Bools) -> Events:
        """Nodes are elsewhere now, those in `moved` as they were given away. Returns events of which it is not known
        whether their new host gives them to the query."""
        self._move_no_more(nodes)
        self._sealed[nodes] = False
        gone = mask_of(nodes)
        unsure = self.pledges.lose(gone, moved)
        self._show_withheld()
        self._log.drop(gone)
        for mask in self.whole_due.values():
            mask &= ~gone
        for told in self._told_seq.values():
            told[nodes] = 0
        if (cut := self._cut) is not None:
            cut.nodes &= ~gone
            cut.emitted = [(place, name, of_nodes(rows, ~gone)) for place, name, rows in cut.emitted]
        return unsure

    @property
    def moving(self) -> Bools:
        """The nodes whose state is on its way to where they are to be hosted, or is to go there: it is not where that
        agent was started again meanwhile."""
        found: Bools = np.logical_or.reduce([np.zeros(NODES, bool), *self._moves_under_way()])
        return found

    def _moves_under_way(self) -> list[Bools]:
        cut = self._cut
        under_way = (*cut.moves.values(), *cut.passed.values()) if cut is not None else ()
        return [*self.moves_due.values(), *under_way, *(move[1] for move in self._moving)]

    def _move_no_more(self, nodes: Ints) -> None:
        for mask in self._moves_under_way():
            mask[nodes] = False
        self.moves_due = {peer: mask for peer, mask in self.moves_due.items() if mask.any()}

    def held_by(self, peer: Peer) -> Bools:
        """The nodes of which an agent that stands by has the state, as of some commit."""
        none: Bools = np.zeros(NODES, bool)
        held = self.standbys.get(peer, none) & ~self.whole_due.get(peer, none)
        cut = self._cut
        lacking = [mask for one, mask, last in self._filling if one == peer and not self._log.is_held(peer, last)]
        lacking += [cut.whole[peer]] if cut is not None and peer in cut.whole else []
        for mask in lacking:
            held &= ~mask
        return held

    def unreleased(self) -> Events:
        """The events of the cut under way, those that are withheld, and those that the query has not been given."""
        emitted = () if self._cut is None else ((one, rows) for _, one, rows in self._cut.emitted)
        return [*self._withheld, *emitted, *self.pledges.events]

    def next_timer(self) -> float | None:
        """The time of the next cut."""
        is_due = self._cut is None and self._is_wanted
        return self._due_at(self._host.now) if is_due else None

    def _due_at(self, now: float) -> float:
        """The time of the next cut."""
        host, commit_s = self._host, self._options.commit_s
        is_awaited = host.hurry_from <= now < host.passing_until or bool(self.moves_due or self.whole_due)
        least = CALM_TIMES if host.is_calm and not is_awaited else 1
        due = self._last + commit_s * min(SLOW_MAX, max(least, self._log.pending_count))
        soon = self._last + min(HURRY_S, commit_s)
        if any((mask & self._stood_by(peer)).any() for peer, mask in self._ready(self.moves_due).items()):
            return soon  # these nodes stand still until they have moved
        may_hurry = self._hurried < HURRIED_MAX or now >= self._hurry_at + HURRIED_S
        if may_hurry and now < host.passing_until and self._log.is_empty:
            return min(due, max(host.hurry_from, soon))
        return due

    # Cuts.

    def tick(self, now: float) -> None:
        """Cuts, if it is time; tells of moves that have arrived."""
        host = self._host
        if now > self._ticked_at + STANDSTILL_S:
            self._last = now  # this agent stood still: it first hears what has been decided meanwhile
        self._ticked_at = now
        self._log.tick(now)
        had_standbys = host.collects
        host.collects = bool(self.standbys) or self._cut is not None or not self._log.is_empty
        if had_standbys and not host.collects:
            host.commit_no_more()
        host.is_dirty &= host.collects  # without standbys, nothing is to be told
        self._log.settle(self.standbys, now)
        arrived = [move for move in self._moving if self._log.is_held(move[0], move[2])]
        self._moving = [move for move in self._moving if not self._log.is_held(move[0], move[2])]
        for _, mask, _, commit in arrived:
            self._moved(mask, commit)
        is_due = now >= self._due_at(now)
        self._count_uncommitted()
        if self._cut is None and is_due and self._is_wanted and (host.collects or self.moves_due):
            self._begin(now)

    @property
    def _is_wanted(self) -> bool:
        host = self._host
        is_due = host.is_dirty or bool(self._whole_ready) or self.pledges.is_waiting
        is_due = is_due or any(host.collected.values())
        return is_due or any(mask.any() for mask in self._ready(self.moves_due).values())

    def _ready(self, due: dict[Peer, Bools]) -> dict[Peer, Bools]:
        """The whole states that may be sent: what cannot be under way yet is not made."""
        return {peer: mask for peer, mask in due.items() if self._log.has_room(peer)}

    @property
    def _cuttable(self) -> Bools:
        """The nodes that a cut is of: those here but for what moves, of which a new host has the state."""
        return self._host.owned & ~self._sealed

    @property
    def _whole_ready(self) -> dict[Peer, Bools]:
        """The whole states that standbys may be sent now; those of nodes that move wait until they are to stay."""
        ready = {peer: mask & self._cuttable for peer, mask in self._ready(self.whole_due).items()}
        return {peer: mask for peer, mask in ready.items() if mask.any()}

    def _begin(self, now: float) -> None:
        host = self._host
        if now < self._last + self._options.commit_s:
            if now >= self._hurry_at + HURRIED_S:
                self._hurry_at, self._hurried = now, 0
            self._hurried += 1
        self._last = now
        host.is_dirty = False
        nodes = self._cuttable
        whole_now, moves = self._whole_ready, self._ready(self.moves_due)
        for mask in moves.values():
            self._sealed |= mask
        for peer, mask in whole_now.items():
            self.whole_due[peer] = self.whole_due[peer] & ~mask
        self.whole_due = {peer: mask for peer, mask in self.whole_due.items() if mask.any()}
        self.moves_due = {peer: mask for peer, mask in self.moves_due.items() if peer not in moves}
        passed = {peer: mask & self._stood_by(peer) for peer, mask in moves.items()}
        moves = {peer: mask & ~passed[peer] for peer, mask in moves.items()}
        cut = self._cut = _Cut(host.next_commit, nodes, whole_now, moves, passed)
        host.next_commit += 1
        cut.changes.append(Table("positions", 0, ROUTE, host.positions.take_changes()))
        for place, hold in host.holds.items():
            cut.changes.extend(hold.take_added())
            cut.watermarks[place] = hold.released
        wanted = [*cut.whole.values(), *cut.moves.values()]
        whole = np.flatnonzero(np.logical_or.reduce(wanted) & cut.nodes) if wanted else np.zeros(0, np.int64)
        given, all_given = self.pledges.pledge(cut.commit, whole)
        cut.changes.extend(given)
        if len(whole):
            cut.full.extend([Table("positions", 0, ROUTE, host.positions.of(whole)), *all_given])
            for hold in host.holds.values():
                cut.full.extend(hold.all())
            cut.full.extend(self._given_of(mask_of(whole)))
        places = self._layout.keyed if cut.moves else tuple(sorted(self._layout.guaranteed))
        for place in set(host.slots) - set(places):
            cut.watermarks.setdefault(place, host.slots[place].applied)
        cut.left = 1 + len(places) + (len(places) if len(whole) else 0)
        for place in places:
            self._ask(cut, place, whole, now)
        self._answered(cut, now)

    def _stood_by(self, peer: Peer) -> Bools:
        """The nodes whose state an agent holds up to the commit before this one: all of it, where nothing in the job is
        not guaranteed."""
        is_all = len(self._layout.guaranteed) == len(self._layout.keyed)
        none: Bools = np.zeros(NODES, bool)
        return self.standbys.get(peer, none) & ~self.whole_due.get(peer, none) if is_all else none

    def _ask(self, cut: _Cut, place: int, whole: Ints, now: float) -> None:
        host, slot = self._host, self._host.slots[place]

        def changed(tables: Tables) -> None:
            cut.watermarks.setdefault(place, slot.applied)
            if place in self._layout.guaranteed:
                cut.changes.extend(Table("state", place, name, rows) for name, rows in tables.items())
                emitted = self._host.take_collected(place, cut.nodes)
                cut.emitted.extend((place, name, rows) for name, rows in emitted)
                different = np.flatnonzero(slot.next_seq != self._told_seq[place])
                self._told_seq[place] = slot.next_seq.copy()
                cut.changes.append(_counters(place, slot.next_seq, different))
            cut.full.append(_counters(place, slot.next_seq, whole))
            for mask in (*cut.moves.values(), *cut.passed.values()):
                slot.sealed |= mask & host.owned
            self._answered(cut, now)

        def taken(tables: Tables) -> None:
            cut.full.extend(Table("state", place, name, rows) for name, rows in tables.items())
            self._answered(cut, now)

        slot.cut(changed)
        if len(whole):
            slot.states(whole.tolist(), taken)

    def _answered(self, cut: _Cut, now: float) -> None:
        cut.left -= 1
        if cut.left == 0 and self._cut is cut:
            self._cut = None
            self._complete(cut, now)

    def _complete(self, cut: _Cut, now: float) -> None:
        nodes = np.flatnonzero(cut.nodes)
        epochs = np.array([self._epoch_of(node) for node in nodes.tolist()], np.int64)
        watermarks = [cut.watermarks.get(place, BEGINNING) for place in range(len(self._layout.elements))]
        emitted = [(place, name, rows) for place, name, rows in cut.emitted if rows.height]
        tables = [*cut.changes, *(Table("emitted", place, name, rows) for place, name, rows in emitted)]
        tables = tables_of(joined(tables), cut.nodes)
        full = list(cut.full)
        if cut.whole or cut.moves:
            full = joined([*full, *self._all_emitted(emitted)])
        self._held_rows += sum(rows.height for _, _, rows in emitted)
        safe = self._safe(now, tables) if not (cut.whole or cut.moves) else 0
        kept_from = self.pledges.given.kept_from(self._host.owned)
        record = StateRecord(cut.commit, nodes, epochs, _NONE, watermarks, tables, safe, kept_from=kept_from)
        masks = {}
        for peer, mask in self.standbys.items():
            known = mask & cut.nodes & ~self.whole_due.get(peer, np.zeros(NODES, bool))
            if known.any():
                masks[peer] = known
        whole = {peer: np.flatnonzero(mask & cut.nodes) for peer, mask in cut.whole.items() if peer in masks}
        self._log.add(record, masks, whole, full, [(name, rows) for _, name, rows in emitted], self.whole_due, now)
        self._filling = [one for one in self._filling if not self._log.is_held(one[0], one[2])]
        self._filling += [(peer, mask_of(filled), self._log.last(peer)) for peer, filled in whole.items()]
        self._log.settle(self.standbys, now)  # those that get all next time count, too
        self._count_uncommitted()
        for peer, mask in cut.moves.items():  # behind the same commit, where the new host stands by
            self._send_move(cut, record, peer, mask & cut.nodes, full, now)
        for peer, mask in cut.passed.items():
            if (held := mask & masks.get(peer, np.zeros(NODES, bool))).any():
                self._moving.append((peer, held, self._log.last(peer), cut.commit))

    def _send_move(
        self, cut: _Cut, record: StateRecord, peer: Peer, mask: Bools, full: list[Table], now: float
    ) -> None:
        if not mask.any():
            return
        moved = record.of(mask, tables_of(full, mask))._replace(is_move=True, safe_commit=0)
        for one in by_nodes(moved._replace(whole=moved.nodes)):
            self._moving.append((peer, mask_of(one.nodes), self._log.send(peer, one, now), cut.commit))

    def _all_emitted(self, emitted: list[tuple[int, str, pl.DataFrame]]) -> list[Table]:
        """All events emitted here that are not safe yet, or of which something is not, in their order."""
        found = [Table("emitted", place, name, rows) for place, name, rows in emitted]
        for name, rows in self._unsafe():
            found.extend(self._by_element(name, self._layout.by_name[name].plain(rows)))
        return [table._replace(rows=table.rows.sort(SOURCE, SEQ)) for table in found]

    def _given_of(self, nodes: Bools) -> list[Table]:
        """The events of nodes that the query has been given, or is about to be."""
        given = self.pledges.given_of(nodes)
        return [one._replace(kind="given") for name, rows in given for one in self._by_element(name, rows)]

    def _unsafe(self) -> Events:
        """Events emitted here before that are not safe where they went, or of which something is not."""
        kept = [(name, rows) for name in self._emits for rows in self._emitter.kept(self._layout.by_name[name].place)]
        return [*self._withheld, *self._log.unreleased(), *kept, *self._host.parents()]

    def _by_element(self, name: str, rows: pl.DataFrame) -> list[Table]:
        elements = rows[SOURCE].to_numpy() // NODES
        places = self._layout.guaranteed.intersection(np.unique(elements).tolist())
        return [Table("emitted", place, name, where(rows, elements == place)) for place in sorted(places)]

    def _safe(self, now: float, tables: list[Table]) -> int:
        """The commit up to which all that was emitted is safe; what is not is named again, in this commit."""
        if now < self._safe_at + SAFE_S or self._log.released == self._safe_commit:
            return 0
        self._safe_at = now
        unsafe = sum(rows.height for _, rows in self._unsafe())
        if self._held_rows < SAFE_TIMES * unsafe and unsafe > SAFE_ROWS:
            return 0
        self._safe_commit, self._held_rows = self._log.released, unsafe
        if not self._emits:
            return 0
        parts = (table.of(self._host.owned) for table in self._all_emitted([]))
        tables.extend(part for part in parts if part.rows.height)
        return self._safe_commit

    def release(self, pending: Pending, now: float) -> None:
        """Makes what a commit has emitted seen, and what it took safe. What nodes that move have emitted is for their
        new host to show, which has it with their state."""
        self._host.now = now
        for name, emitted in pending.emitted:
            rows = emitted
            if self._sealed.any():
                sealed = self._sealed[rows[SOURCE].to_numpy() % NODES]
                self._withheld.append((name, where(rows, sealed)))
                rows = where(rows, ~sealed)
            self._host.show(self._layout.by_name[name], rows)
        self.pledges.held(pending.commit)
        self._host.streams.committed(pending.commit)

    def _count_uncommitted(self) -> None:
        self._host.uncommitted = sum(rows.height for _, rows in [*self._log.unreleased(), *self.unreleased()])

    def _show_withheld(self) -> None:
        """Shows what nodes have emitted that stay here after all, and forgets that of nodes that are gone."""
        withheld, self._withheld = self._withheld, []
        for name, rows in withheld:
            nodes = rows[SOURCE].to_numpy() % NODES
            shown = where(rows, self._host.owned[nodes] & ~self._sealed[nodes])
            self._host.show(self._layout.by_name[name], shown)
            if (rest := where(rows, self._sealed[nodes])).height:
                self._withheld.append((name, rest))

    # States that come.

    def put(self, copy: Copy, nodes: Ints) -> None:
        """Begins to host nodes with the copies of their state."""
        host = self._host
        for kind, element, name, rows in copy.tables:
            slot = host.slots[element]
            if kind == "positions":
                host.positions.put(rows)
                self.pledges.put(rows)
                for place in self._layout.keyed:
                    own = rows.filter(pl.col(ROUTE) == -1 - place)
                    counted = host.slots[place].next_seq
                    np.maximum.at(counted, own[NODE].to_numpy(), own[SEQ].to_numpy())
            elif kind == "held" and element in host.holds:
                host.holds[element].add(name, rows.with_columns(pl.col(NODE).cast(pl.UInt16)))
            elif kind == "state":
                slot.then(lambda slot=slot, name=name, rows=rows: slot.runtime.put({name: rows}))  # type: ignore[misc]
        for place in self._layout.keyed:
            host.slots[place].repeat(copy.watermarks[place])
            if place in host.holds:
                hold = host.holds[place]
                hold.released = min(hold.released, copy.watermarks[place])
        self._inherit_given(copy, nodes)
        self._restore_emitted(copy)
        host.gain(nodes)
        host.touched[nodes] = True
        host.is_dirty = True

    def _inherit_given(self, copy: Copy, nodes: Ints) -> None:
        """Keeps what hosts before have given the query."""
        self.pledges.given.begin_stretch()
        for name, lacks_ms in copy.kept_from.items():
            self.pledges.given.inherit_lacks(name, nodes, lacks_ms[nodes])
        for table in copy.tables:
            if table.kind in OF_CHANNELS and (type_ := self._layout.by_name.get(table.name)) is not None:
                self.pledges.inherit(table.name, type_.plain(table.rows), is_safe=table.kind == "given")

    def _restore_emitted(self, copy: Copy) -> None:
        """Sends again what may not have come where it goes, once the standbys of today have it."""
        host = self._host
        for (kind, element, name), frames in merged(copy.tables).items():
            if kind == "emitted" and element in host.collected and name in self._layout.by_name:
                rows = self._layout.by_name[name].plain(pl.concat(frames)).unique([SOURCE, SEQ]).sort(SOURCE, SEQ)
                if host.collects:
                    host.collected[element].append((name, rows))
                else:
                    host.show(self._layout.by_name[name], rows)


def _counters(place: int, next_seq: Ints, nodes: Ints) -> Table:
    """The next numbers of an element's channels, as positions on a route of their own."""
    return Table("positions", 0, ROUTE, position_rows(-1 - place, nodes, 0, next_seq[nodes]))


_NONE: Ints = np.zeros(0, np.int64)
