"""Event time at one agent: what it may still send, and what it hears of all."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import numpy as np

from agent.runtime.keyed.hosting.host import Host
from agent.runtime.keyed.hosting.layout import GraphLayout
from agent.runtime.keyed.hosting.options import Bools, KeyedOptions, Ring
from agent.runtime.keyed.hosting.rows.emitter import Emitter
from agent.runtime.keyed.hosting.rows.outgoing import NEVER
from agent.runtime.keyed.hosting.slot import BEGINNING
from agent.runtime.keyed.hosting.time.master_times import ALIVE_S, REPORT_S, MasterTimes
from agent.runtime.messages.elements import ElementTimeReport, ElementTimes
from agent.runtime.model.fields import Message
from overlay import Id, Peer

SERIAL_BITS = 24
"""Bits of the number of a report: those above tell the process, so that those of the one before are older."""
Send = Callable[[Peer, Message, float], None]


class Commits(Protocol):
    """Tells what commits hold back."""

    app_id: Id

    def lowest(self, name: str) -> int:
        """The lowest time of events of a type that are not committed yet."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be committed or moved."""
        ...

    @property
    def known(self) -> Bools:
        """The nodes that have been begun anywhere."""
        ...


class EventTime:
    """Reports to the master, and takes its times; at the master, adds reports up."""

    def __init__(
        self, layout: GraphLayout, options: KeyedOptions, emitter: Emitter, host: Host, commits: Commits
    ) -> None:
        self._layout, self._options, self._emitter, self._host, self._commits = layout, options, emitter, host, commits
        fed = {one.place: NEVER for one in layout.types if not layout.graph.emitters(one.name)}
        self._sources = fed | {layout.by_name[name].place: BEGINNING for name in layout.sources}
        """Watermarks of the types that no element brings; NEVER: no log here does, at most clients."""
        self._master: Peer | None = None
        self._roster: tuple[Peer, ...] = ()
        self._adding = MasterTimes(layout, is_bounded=options.bounded)
        self._serial, self._seen = options.incarnation << SERIAL_BITS, 0
        self._at = self._looked_at = -ALIVE_S
        self._last: tuple[object, ...] = ()
        self.times = [BEGINNING] * len(layout.types)
        self.is_quiet = False
        self._told_at = 0.0

    def source(self, place: int, watermark_ms: int) -> None:
        """The watermark of a source here."""
        known = self._sources[place]
        self._sources[place] = watermark_ms if known == NEVER else max(known, watermark_ms)

    def end(self, place: int) -> None:
        """A source here has ended; of a live job: it is not read here now."""
        self._sources[place] = NEVER

    def members(self, peers: Collection[Peer], master: Peer) -> None:
        """Learns who reports, and to whom."""
        self._master, self._roster = master, tuple(peers)
        self._adding.members(peers)

    def reported(self, peer: Peer, report: ElementTimeReport) -> bool:
        """Takes a report of an agent, as the master does."""
        self._adding.report(peer, report)
        return True

    def heard(self, message: ElementTimes, wall_ms: int) -> bool:  # noqa: ARG002
        """Takes the times of all."""
        if len(message.times) != len(self.times):
            return False
        self._seen = message.serial  # another master counts anew; times of any hold
        self.times = [max(old, new) for old, new in zip(self.times, message.times, strict=True)]
        self.is_quiet |= message.is_quiet
        self._host.advance(self.times)
        return True

    def tick(self, now: float, wall_ms: int, send: Send, ring: Ring) -> None:
        """Reports, and at the master tells all."""
        if self._master is None or not self._options.needs_time:
            return
        if now >= self._looked_at + REPORT_S:
            self._looked_at = now
            self._report(now, wall_ms, send)
        if self._master == ring.me and (self._adding.add_up(wall_ms) or now >= self._told_at + ALIVE_S):
            self._told_at = now
            message = ElementTimes(
                self._commits.app_id,
                self._adding.serial,
                list(self._adding.times),
                self._adding.is_quiet,
            )
            ring.multicast(message, now)
            self.heard(message, wall_ms)

    def _report(self, now: float, wall_ms: int, send: Send) -> None:
        assert self._master is not None
        host = self._host
        sources_ended = all(time >= NEVER for time in self._sources.values())
        is_idle = sources_ended and self._emitter.is_empty and host.is_idle and self._commits.is_idle
        hosted, known = (np.packbits(one, bitorder="little").tobytes() for one in (host.owned, self._commits.known))
        events = sum(slot.events + slot.emitted for slot in host.slots.values())
        lowest = self.lowest(wall_ms)
        content = (lowest, hosted, known, events, is_idle, self._seen)
        wants_more = self._options.bounded and is_idle and not self.is_quiet
        if content == self._last and now < self._at + (4 * REPORT_S if wants_more else ALIVE_S):
            return
        self._last, self._at = content, now
        self._serial += 1
        report = ElementTimeReport(
            self._commits.app_id,
            self._serial,
            lowest,
            hosted,
            events + self._emitter.sent_rows,
            is_idle,
            self._seen,
            known,
        )
        send(self._master, report, now)

    def _source_time(self, place: int, wall_ms: int) -> int:
        """The time before which no more events of a type come here from outside."""
        known = self._sources.get(place)
        if known is None or known < NEVER or self._options.bounded:
            return NEVER if known is None else known
        return wall_ms - self._options.grace_ms  # events that clients send are of now

    def lowest(self, wall_ms: int) -> list[int]:
        """For each type the lowest time of events that may still be sent from here."""
        made: dict[str, int] = {}
        graph = self._layout.graph
        for name in graph.order:
            place = self._layout.by_name[name].place
            times = [self._source_time(place, wall_ms)]
            for element in graph.emitters(name):
                at = graph.index(element.name)
                if at in self._host.keyed:
                    times.append(self._host.lowest(at))
                else:
                    times.extend(made.get(one, NEVER) for one in self._layout.inputs(at))
                    times.append(self._host.slots[at].lowest)
            made[name] = min(times)
        return [
            max(
                BEGINNING,
                min(
                    NEVER,
                    made[one.name],
                    self._emitter.lowest(one.place),
                    self._host.collected_lowest(one.name),
                    self._commits.lowest(one.name),
                ),
            )
            for one in self._layout.types
        ]

    def next_timer(self) -> float | None:
        """The time of the next report."""
        if self._master is None or not self._options.needs_time:
            return None
        return self._looked_at + (REPORT_S if not self.is_quiet else ALIVE_S)
