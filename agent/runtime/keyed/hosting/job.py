"""The elements of one job on one agent: the face of the core."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

import cbt
from agent.runtime.keyed.elements.runtime import SEQ, SOURCE, ElementRuntime, Tables
from agent.runtime.keyed.graph import CheckedGraph
from agent.runtime.keyed.hosting.commits.given_rows import Giver
from agent.runtime.keyed.hosting.description import Description
from agent.runtime.keyed.hosting.host import Host
from agent.runtime.keyed.hosting.layout import GraphLayout, TypeLayout
from agent.runtime.keyed.hosting.options import Bools, KeyedOptions, Ring
from agent.runtime.keyed.hosting.placement.membership import NodeMembership
from agent.runtime.keyed.hosting.pressure import Pressure
from agent.runtime.keyed.hosting.rows.emitter import Emitter
from agent.runtime.keyed.hosting.rows.incoming import RowStream
from agent.runtime.keyed.hosting.rows.numbering import EVENT_BITS, source_channel
from agent.runtime.keyed.hosting.rows.outgoing import RowSession
from agent.runtime.keyed.hosting.rows.pace import HostPace
from agent.runtime.keyed.hosting.rows.positions import TooManyChannelsError
from agent.runtime.keyed.hosting.rows.relay import MessageRelay
from agent.runtime.keyed.hosting.rows.shedding import Shedder, TakenShare
from agent.runtime.keyed.hosting.time.event_time import EventTime
from agent.runtime.keyed.logical_nodes import BegunNodes
from agent.runtime.messages.elements import (
    ElementCredit,
    ElementParcel,
    ElementProbe,
    ElementReset,
    ElementRows,
    ElementTimeReport,
    ElementTimes,
)
from agent.runtime.model.fields import Message
from overlay import Id, Peer

OnRows = Callable[[str, pl.DataFrame], None]
BATCH_BYTES_MAX = 256 << 20
"""Upper bound on the rows of one batch, once they are decompressed."""
CREDIT_S = 0.005
"""Time between messages that tell an emitter how far its rows are."""
QUEUED_ROWS_MAX = 1 << 18
"""Rows that wait for their elements above which emitters are not told that theirs have come."""


class KeyedJob:
    """Sends, hosts and keeps the elements of one job on one agent, with the same class on its peers.

    `runtimes`: by the name of an element, keyed and keyless alike; a keyless one emits rows with the columns @source
    and @seq of the event that each comes from. `on_rows`: takes the rows of a type that elements emit here (@time,
    @source, @seq, fields), once they may be seen; those of guaranteed keyed elements come at one agent alone, once, if
    `wants` says that they are of use. `on_unsure`: these come elsewhere, or nowhere.
    """

    def __init__(
        self,
        app_id: Id,
        graph: CheckedGraph,
        ring: Ring,
        runtimes: Mapping[str, ElementRuntime],
        options: KeyedOptions,
        on_rows: OnRows,
        wants: Callable[[str], bool] = lambda _type: True,
        on_unsure: OnRows = lambda _type, _rows: None,
    ) -> None:
        self.graph, self.options, self.app_id = graph, options, app_id
        self.failure: str | None = None
        """The reason why the job cannot go on, as one line; the agent around it fails the job."""
        self.on_lost: Callable[[float], None] = lambda _now: None
        """Is told of nodes begun anew before event time goes on, so that results which lack them say so."""
        self._lost_told = 0
        self._ring, self._me = ring, ring.me
        self._layout = layout = GraphLayout(graph)
        self._emitter = Emitter(ring.me, layout, options, self._deliver, self._probe)
        giver = Giver(ring.me.node_id, options.incarnation)
        self._host = Host(layout, options, runtimes, self._emitter, on_rows, wants, giver)
        self._inbox: deque[Callable[[float], object]] = deque()
        self._membership = NodeMembership(
            app_id, layout, options, ring, self._emitter, self._host, self.send, on_unsure
        )
        self._time = EventTime(layout, options, self._emitter, self._host, self._membership)
        self._pressure = Pressure(layout, options, self._emitter, self._host)
        self._paces = {one.place: self._pace(one) for one in layout.types if one.split}
        self._shedder = Shedder()
        self._taken_share = TakenShare() if any(one.shed for one in layout.types) else None
        self._last: dict[int, int] = {}
        self._now = 0.0
        self._wall_ms = 0
        self._relay = MessageRelay(app_id, ring, options.cut_s)
        self._agents = 0
        self._credit_at = 0.0
        self._is_draining = False
        self._refused: Counter[str] = Counter()
        """Rows and batches of peers that were refused, by type; those of no type under ""."""
        self._description = Description(
            layout, self._emitter, self._host, self._membership, self._shedder.shed, self._refused
        )

    def _pace(self, type_: TypeLayout) -> HostPace:
        consumers = {place for route in type_.split for place in route.consumers}
        return HostPace([self._host.slots[place] for place in sorted(consumers)])

    @property
    def me(self) -> Peer:
        """The agent that this is at."""
        return self._me

    # Rows in.

    def channel(self, type_: str) -> int:
        """The channel that numbers this agent's rows of a source, `@source` in `insert`."""
        return source_channel(self._me.node_id, self._layout.by_name[type_].place)

    def insert(self, type_: str, rows: pl.DataFrame, now: float, *, is_read: bool = False) -> None:
        """Takes rows of a source: @time, @source, @seq (a multiple of 2**20, ascending), and the fields. `is_read`:
        they are of a log here, from which they are read again after a restart."""
        found = self._layout.by_name[type_]
        if rows.height:
            channel, last = rows[SOURCE][-1], rows[SEQ][-1]
            if is_read:
                self._emitter.chooser.reads(channel)
            self._last[channel] = max(self._last.get(channel, -1), last)
            plain = self._shedder.kept(found, found.plain(rows))
            self._enter(now)
            self._host.to_keyless(found, plain)
            self._emitter.emit(found, plain, now)
            self._settle(now)

    def forget_choices(self, safe: Mapping[int, int]) -> None:
        """Learns below which numbers of their channels rows of logs are never read again."""
        self._emitter.chooser.forget(safe)

    def expect(self, type_: str, *, more: bool) -> None:
        """Learns whether a source of this type has more to insert at once, as it is behind."""
        self._emitter.expect(self._layout.by_name[type_].place, more=more)

    def source_time(self, type_: str, watermark_ms: int) -> None:
        """Learns that rows of a source that come here later are not before this time."""
        self._host.is_stirred = True
        self._time.source(self._layout.by_name[type_].place, watermark_ms)

    def end_of_source(self, type_: str) -> None:
        """Learns that a source brings no more rows here."""
        self._time.end(self._layout.by_name[type_].place)

    @property
    def has_room(self) -> bool:
        """Whether rows may be inserted; False: stop reading."""
        has_room = all(self._emitter.has_room(one.place) for one in self._layout.types)
        return has_room and self._host.queued < QUEUED_ROWS_MAX

    def acknowledged(self, source: int) -> int:
        """The number up to which all rows inserted in a channel are safe; -1 for none."""
        last = self._last.get(source, -1)
        if self._host.has_waiting_keyless:
            return -1
        family = self._host.family(source, range(len(self._layout.types)))
        for type_ in self._layout.types:
            for rows in self._emitter.kept(type_.place) if type_.guaranteed else []:
                own = rows[SEQ].to_numpy()[np.isin(rows[SOURCE].to_numpy(), family)]
                if len(own):
                    last = min(last, (int(own.min()) >> EVENT_BITS << EVENT_BITS) - 1)
        return last

    # Messages.

    def send(self, peer: Peer, message: Message, now: float) -> None:
        """Sends to an agent, which may be this one."""
        if peer == self._me:
            self._inbox.append(lambda now: self._take(message, self._me, now))
        elif self._is_large:
            self._relay.post(peer, message, now)
        else:
            self._ring.send(peer, message, now)

    @property
    def _is_large(self) -> bool:
        """Whether there are too many agents, or hosts, for links to all."""
        return max(self._agents, len(self._emitter.peers)) > self.options.direct_max

    def handle(self, message: Message, sender: Peer, now: float) -> bool:
        """Takes a message from a peer; False: it is not of use."""
        self._enter(now)
        self._host.is_stirred = True
        self._membership.alive(sender)
        is_of_use = self._take(message, sender, now)
        self._settle(now)
        return is_of_use

    def multicast(self, message: Message, now: float) -> None:
        """Takes a message to all of the job."""
        self.handle(message, self._me, now)

    def _take(self, message: Message, sender: Peer, now: float) -> bool:
        match message:
            case ElementRows():
                return self._rows(message, sender, now)
            case ElementProbe():
                return self._probed(message, sender, now)
            case ElementCredit():
                self._shedder.heard(sender, message.share)
                return self._emitter.credit(sender, message, now)
            case ElementReset(place=place, session=session, done=done, elsewhere=nodes):
                return self._emitter.reset(place, sender, session, done, nodes, now)
            case ElementParcel():
                return self._parcel(message, now)
            case ElementTimeReport(serial=serial, asks=asks):
                if asks and self._time.master == self._me:
                    self.send(sender, self._time.told(self._wall_ms, serial), now)
                return self._time.reported(sender, message)
            case ElementTimes(report=report):
                if report and self._time.confirmed(report, sender):
                    self._host.streams.reported(report)
                return self._time.heard(message)
        return self._membership.take(message, sender, now)

    def _parcel(self, message: ElementParcel, now: float) -> bool:
        of_use = True
        for origin, letter in self._relay.take(message, now):
            self._membership.alive(origin)
            of_use &= self._take(letter, origin, now)
        return of_use

    def _rows(self, message: ElementRows, sender: Peer, now: float) -> bool:
        if message.place >= len(self._layout.types):
            self._refused[""] += 1
            return False
        type_ = self._layout.types[message.place]
        try:
            rows = cbt.decode_frame(message.rows, type_.schema, bytes_max=BATCH_BYTES_MAX)
        except cbt.FrameError:
            self._refused[type_.name] += 1
            return False
        return self._batch(sender, type_, message.session, message.number, message.rows_before, rows, now)

    def _batch(
        self, peer: Peer, type_: TypeLayout, session: int, number: int, before: int, rows: pl.DataFrame, now: float
    ) -> bool:
        stream = self._host.streams.of(peer, type_.place, session)
        if stream is None or number < stream.next:
            return False
        if stream.is_over:
            self._reset(stream, [], now)
            return False
        if not type_.is_sound(rows):
            self._refused[type_.name] += rows.height
            return False
        if not type_.guaranteed:
            self._host.lost += stream.skip(number, before)
        stream.arrivals.put(number, rows)
        while not stream.is_over and (first := stream.arrivals.first) is not None:
            self._take_batch(type_, stream, first, now)
        self._ask_for_lost(stream, now)
        return True

    def _take_batch(self, type_: TypeLayout, stream: RowStream, rows: pl.DataFrame, now: float) -> None:
        """Takes the next batch of a stream."""
        number = stream.next
        try:
            elsewhere = self._host.batch(type_, stream, rows)
        except TooManyChannelsError:
            self._refused[type_.name] += rows.height
            stream.arrivals.drop()
            return
        if elsewhere and type_.guaranteed:
            self._reset(stream, elsewhere, now)
        elif elsewhere:
            if stream.peer != self._me and (report := self._time.confirm()) is not None:
                stream.rests.append((number, report))
            self._membership.tell_hosts(stream.peer, elsewhere, now)

    def _ask_for_lost(self, stream: RowStream, now: float, sent: int = 0) -> None:
        """Asks for the batches that were lost before one that has come, or before `sent`."""
        if not stream.is_over and (end := stream.arrivals.lost_before(now, sent)):
            self._tell(stream, stream.received, stream.told[1], now, end)

    def _probed(self, probe: ElementProbe, sender: Peer, now: float) -> bool:
        """An emitter asks how far this host is."""
        stream = None
        if probe.place < len(self._layout.types):
            stream = self._host.streams.of(sender, probe.place, probe.session)
        if stream is None:
            return False
        if stream.is_over:
            self._reset(stream, [], now)
            return True
        stream.is_asked = True
        if self._layout.types[probe.place].guaranteed:
            self._ask_for_lost(stream, now, probe.number)
        elif probe.number > stream.next:
            self._host.lost += stream.skip(probe.number, probe.rows_before)
        return True

    def _probe(self, peer: Peer, session: RowSession, now: float) -> None:
        number, before = session.sent_so_far
        self.send(peer, ElementProbe(self.app_id, session.place, session.number, number, before), now)

    def _reset(self, stream: RowStream, elsewhere: list[int], now: float) -> None:
        stream.is_over = True
        message = ElementReset(self.app_id, stream.place, stream.session, stream.done, elsewhere)
        self.send(stream.peer, message, now)

    def _deliver(
        self,
        peer: Peer,
        type_: TypeLayout,
        session: RowSession,
        number: int,
        before: int,
        rows: pl.DataFrame,
        now: float,
    ) -> None:
        if peer == self._me:
            self._inbox.append(lambda now: self._batch(peer, type_, session.number, number, before, rows, now) and None)
            return
        data = cbt.encode_frame(rows, cbt.FAST)
        self._emitter.sent_bytes += len(data)
        self.send(peer, ElementRows(self.app_id, type_.place, session.number, number, before, data), now)

    # Time.

    def tick(self, now: float, wall_ms: int) -> None:
        """Does what is due."""
        self._wall_ms = wall_ms
        self._time.judge_clock(wall_ms)
        self._enter(now)
        self._emitter.tick(now)
        self._membership.tick(now)
        self._settle(now)
        self.failure = self.failure or self._pressure.tick(now, self._time.times)
        if (lost := len(self.lost_nodes())) != self._lost_told:
            self._lost_told = lost
            self.on_lost(now)
        self._time.tick(now, wall_ms, self.send, self._ring)
        self._settle(now)
        self._relay.tick(now)

    def _enter(self, now: float) -> None:
        self._now = self._host.now = now

    def _settle(self, now: float) -> None:
        """Carries on until nothing is left to be done at once."""
        if self._is_draining:
            return
        self._is_draining = True
        try:
            self._host.run()
            self._emitter.flush(now)
            while self._inbox:
                self._host.is_stirred = True
                while self._inbox:
                    self._inbox.popleft()(now)
                self._host.run()
                self._emitter.flush(now)
            self._membership.settle(now)
            if now >= self._credit_at + CREDIT_S:
                self._credit(now)
            self._host.run()
            if self._time.is_urgent or self._time.is_to_ask(now):
                self._time.tick(now, self._wall_ms, self.send, self._ring)
        finally:
            self._is_draining = False

    def _credit(self, now: float) -> None:
        self._credit_at = now
        if self._taken_share is not None:
            events = sum(slot.events for slot in self._host.slots.values())
            self._taken_share.look(events, self._host.queued, now)
        blocked, share = self._blocked, self._share
        for stream in self._host.streams.untold(blocked, share, now):
            if self._tell_at(stream, share) > now:
                continue
            received, done, _ = stream.told if stream.place in blocked else (stream.received, stream.done, share)
            self._tell(stream, received, done, now)

    def _tell_at(self, stream: RowStream, share: float) -> float:
        """The time to tell an emitter how far its rows are. What is guaranteed counts only once it is safe."""
        is_kept = self._layout.types[stream.place].guaranteed
        is_awaited = stream.done > stream.told[1] if is_kept else self._now < self._host.passing_until
        return stream.tell_at(share, is_awaited=is_awaited)

    def _tell(self, stream: RowStream, received: int, done: int, now: float, lost_before: int = 0) -> None:
        """Tells an emitter how far its rows are."""
        share = self._share
        stream.told, stream.told_at, stream.is_asked = (received, done, share), now, False
        stream.told_rows = stream.rows
        event_s = of_host = 0.0
        if (pace := self._paces.get(stream.place)) is not None:
            pace.look(self._host.streams.of_type(stream.place), now)
            event_s, of_host = pace.event_s, pace.share(stream)
        message = ElementCredit(
            self.app_id, stream.place, stream.session, received, done, share, lost_before, event_s, of_host
        )
        self.send(stream.peer, message, now)

    @property
    def _blocked(self) -> Collection[int]:
        """The types of which no more is to come, as there is no room."""
        is_full = self._host.queued > QUEUED_ROWS_MAX
        return range(len(self._layout.types)) if is_full else self._host.blocked

    @property
    def _share(self) -> float:
        """The share that this host takes of what may be shed."""
        return 1.0 if self._taken_share is None else self._taken_share.told

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is under way here: nobody waits for what is due, which may be late."""
        host = self._host
        is_stirred = host.is_stirred and self.options.needs_time
        if is_stirred or self._now < host.passing_until or self._inbox:
            return False
        is_done = self._emitter.is_empty and self._membership.is_idle and host.is_idle and self._relay.is_empty
        return is_done and not host.streams.untold(self._blocked, self._share, self._now)

    def next_timer(self) -> float | None:
        """The time of the next thing that is due, None for nothing."""
        if self._inbox:
            return self._now
        due = [self._emitter.next_timer(), self._membership.next_timer(), self._time.next_timer()]
        due += [self._pressure.next_timer(), self._host.next_timer(), self._relay.next_timer()]
        share = self._share
        if untold := self._host.streams.untold(self._blocked, share, self._now):
            tell_at = min(self._tell_at(stream, share) for stream in untold)
            due.append(max(tell_at, self._credit_at + CREDIT_S))
        if self._taken_share is not None:
            due.append(self._taken_share.next_timer(self._host.queued))
        return min((at for at in due if at is not None), default=None)

    # Members.

    def members(self, peers: Collection[Peer], master: Peer, now: float) -> None:
        """Learns who takes part, and who leads the job."""
        self._agents = len(peers)
        self._time.members(peers, master)
        self._membership.members(peers, now)
        self._settle(now)

    def failed(self, peer: Peer, now: float) -> None:
        """Learns that an agent is dead."""
        if peer != self._me:
            self._enter(now)
            self._shedder.forget(peer)
            self._membership.failed(peer, now)
            self._settle(now)

    def neighbours_changed(self, now: float) -> None:
        """Learns that agents near to this one have come or gone."""
        self._enter(now)
        self._membership.neighbours_changed(now)
        self._settle(now)

    def leave(self, now: float) -> None:
        """Begins to hand over everything."""
        self._membership.leave(now)

    @property
    def has_left(self) -> bool:
        """Whether everything has been handed over."""
        is_empty = self._emitter.is_empty and self._relay.is_empty
        return self._membership.has_left and is_empty and not self._host.has_waiting_keyless

    # Views.

    def watermark(self, type_: str) -> int:
        """The time before which no more rows of a type come, anywhere."""
        return self._time.times[self._layout.by_name[type_].place]

    @property
    def begun(self) -> BegunNodes:
        """The nodes that are known to have been begun: to be kept for the next process of this agent."""
        return self._membership.begun

    @property
    def begun_nodes(self) -> Bools:
        """The nodes that have been begun anywhere, as far as this agent knows."""
        return self._membership.known

    @property
    def pledged(self) -> list[tuple[str, pl.DataFrame]]:
        """Events that come to `on_rows` here, or, if this agent dies, nowhere."""
        return self._membership.pledged

    @property
    def is_quiet(self) -> bool:
        """Bounded input: whether everything has been processed everywhere, and all timers have fired."""
        return self._time.is_quiet

    def statistics(self) -> Mapping[str, int]:
        """Counts by name."""
        counts = {**self._description.statistics(), **self._relay.statistics()}
        return counts | {"wrong_clock": int(self._time.lead_ms != 0)}

    def given_up(self) -> Mapping[str, int]:
        """Counts of what results say that they lack."""
        return self._description.given_up()

    def published(self, type_: str, from_ms: int) -> None:
        """Learns that the query's windows over a type are out that end before a time."""
        self._host.pledges.given.forget(type_, from_ms)

    def given_to(
        self, node_id: int, types: Sequence[str], from_ms: int, before_ms: int
    ) -> tuple[Bools, dict[str, pl.DataFrame]]:
        """The events of types, from a time on and before another, that the query of an agent has been given of nodes
        which are hosted here now, by whichever host; with these nodes. Nodes are left out of which some may be lacking.
        O(events that are kept)."""
        given, nodes = self._host.pledges.given, self._host.owned & ~self._host.pledges.given.lacks(types, from_ms)
        found = ((type_, given.by_agent(node_id, type_, nodes, from_ms, before_ms)) for type_ in types)
        return nodes, {type_: rows for type_, rows in found if rows is not None and rows.height}

    def is_given_once(self, type_: str) -> bool:
        """Whether all events of a type come from guaranteed elements with keys, so that hosts keep what is given."""
        emitters = [self.graph.index(one.name) for one in self.graph.emitters(type_)]
        return bool(emitters) and type_ not in self._layout.sources and set(emitters) <= self._layout.guaranteed

    def has_waited_for(self, node_id: int, from_ms: int, before_ms: int) -> bool:
        """At the job's master: whether event time has waited for an agent's logs, from a time on and up to another."""
        return self._time.has_waited_for(node_id, from_ms, before_ms)

    def lost_nodes(self) -> frozenset[int]:
        """The logical nodes begun anew here without the state that they had, and those that lack rows."""
        return frozenset(self._membership.lost | self._host.lost_nodes)

    def describe(self) -> list[dict[str, Any]]:
        """A row per element: its nodes and elements here, events, what waits and what was given up."""
        return self._description.elements(self._now)

    def state_of(self, element: str, node: int, done: Callable[[Tables], None]) -> bool:
        """Gives the states in a logical node of an element; False if it is not hosted here."""
        place = self.graph.index(element)
        if place not in self._layout.keyed or not self._host.owned[node]:
            return False
        self._host.slots[place].states([node], done)
        self._settle(self._now)
        return True

    def epoch_of(self, node: int) -> int:
        """The epoch of a logical node, as far as it is known here; 0 before the first."""
        return self._membership.epoch(node)

    def host_of(self, node: int) -> Peer | None:
        """The host of a logical node, if it is known here."""
        return self._emitter.host(node)
