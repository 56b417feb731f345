"""Event time at one agent: what it may still send, and what it hears of all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from agent.runtime.keyed.hosting.host import Host
from agent.runtime.keyed.hosting.layout import GraphLayout
from agent.runtime.keyed.hosting.options import Bools, KeyedOptions, Ring
from agent.runtime.keyed.hosting.rows.emitter import Emitter
from agent.runtime.keyed.hosting.rows.outgoing import NEVER
from agent.runtime.keyed.hosting.slot import BEGINNING
from agent.runtime.keyed.hosting.time.master_times import (
    ALIVE_S,
    IDLE_S,
    LOOK_S,
    PASSING_S,
    REPORT_S,
    SOON_S,
    MasterTimes,
)
from agent.runtime.keyed.hosting.time.steps import is_past_step, steps_of
from agent.runtime.keyed.hosting.time.wrong_clocks import FAR_MS
from agent.runtime.keyed.logical_nodes import packed
from agent.runtime.messages.elements import ElementTimeReport, ElementTimes
from agent.runtime.model.fields import Message
from overlay import Id, Peer

GATHER_S = 0.015
"""Time from the end of a step at all sources until most of its events are at their hosts."""
CALM_STEP_MS = 1000
"""Steps from which on little waits for what is committed, but while one is passed."""
ASK_AGAIN_S = 1.0
"""Time after which the master is asked again whether it has a report."""
SERIAL_BITS = 24
"""Bits of the number of a report: those above tell the process, so that those of the one before are older."""
Send = Callable[[Peer, Message, float], None]


class Commits(Protocol):
    """Tells what commits hold back."""

    app_id: Id

    def lowest(self) -> Mapping[str, int]:
        """The lowest time of events that are not committed yet, by type."""
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
    """Reports to the master, and takes its times; at the master, adds reports up.

    In live jobs time always goes on, but it matters only where it passes a multiple of what elements and windows act
    on: that is told at once, all else each second.
    """

    def __init__(
        self, layout: GraphLayout, options: KeyedOptions, emitter: Emitter, host: Host, commits: Commits
    ) -> None:
        self._layout, self._options, self._emitter, self._host, self._commits = layout, options, emitter, host, commits
        fed = {one.place: NEVER for one in layout.types if not layout.graph.emitters(one.name)}
        self._sources = fed | {layout.by_name[name].place: BEGINNING for name in layout.sources}
        """Watermarks of the types that no element brings; NEVER: no log here does, at most clients."""
        self.master: Peer | None = None
        self._roster: tuple[Peer, ...] = ()
        self._adding = MasterTimes(layout, is_bounded=options.bounded)
        self._serial, self._seen = options.incarnation << SERIAL_BITS, 0
        self._at = self._looked_at = -ALIVE_S
        self._steps = steps_of(layout, options)
        host.is_calm = options.needs_time and not options.bounded and min(self._steps) >= CALM_STEP_MS
        self._last: tuple[object, ...] = ()
        self._lowest = [BEGINNING] * len(layout.types)
        self._told_times = [BEGINNING] * len(layout.types)
        self.times = [BEGINNING] * len(layout.types)
        self.is_quiet = False
        self.is_urgent = False
        """Whether a step is being passed: what follows from it is told at once."""
        self._told_at = self._looked_for_silent_at = 0.0
        self._is_unsure = False
        self._asked, self._confirmed, self._asked_at = 0, 0, 0.0
        self._unjudged: ElementTimes | None = None
        self.lead_ms = 0
        """The time by which the clock here is ahead of the middle one of the job's agents, where that is far."""

    def confirm(self) -> int | None:
        """Has the master confirm the next report, which tells of all that rests here now; returns its number. None:
        time is of no use."""
        if not self._options.needs_time:
            return None
        self._is_unsure = True
        return self._serial + 1

    def is_to_ask(self, now: float) -> bool:
        """Whether the master is to be asked for a report, which happens once at a time."""
        if self.master is None:
            return False
        is_asked = self._asked > self._confirmed
        return now >= self._asked_at + ASK_AGAIN_S if is_asked else self._is_unsure

    def source(self, place: int, watermark_ms: int) -> None:
        """The watermark of a source here."""
        known = self._sources[place]
        self._sources[place] = new = watermark_ms if known == NEVER else max(known, watermark_ms)
        if known // self._steps[place] != new // self._steps[place]:
            self.is_urgent, self._host.hurry_from = True, NEVER

    def end(self, place: int) -> None:
        """A source here has ended; of a live job: it is not read here now."""
        self._sources[place] = NEVER

    def members(self, peers: Collection[Peer], master: Peer) -> None:
        """Learns who reports, and to whom."""
        if master != self.master and self._asked > self._confirmed:
            self._is_unsure, self._asked = True, self._confirmed
        if master != self.master:
            self._adding.begin(self.times)
        self.master, self._roster = master, tuple(peers)
        self._adding.members(peers)

    def reported(self, peer: Peer, report: ElementTimeReport) -> bool:
        """Takes a report of an agent, as the master does."""
        before = self._adding.lowest_of(peer)
        self._adding.report(peer, report)
        self.is_urgent |= before is not None and is_past_step(
            before, self._adding.lowest_of(peer) or before, self._steps
        )
        return True

    def has_waited_for(self, node_id: int, from_ms: int, before_ms: int) -> bool:
        """Whether the master has waited for what comes from outside at an agent, in these times."""
        return self._adding.has_waited_for(node_id, from_ms, before_ms)

    def told(self, wall_ms: int, report: int = 0) -> ElementTimes:
        """The times of all, as the master knows them. `report`: in the answer to an agent, that of it."""
        adding, app_id = self._adding, self._commits.app_id
        about = report, *adding.clocks(wall_ms)
        return ElementTimes(app_id, adding.serial, list(adding.times), adding.is_quiet, *about)

    def confirmed(self, report: int, sender: Peer) -> bool:
        """Learns that the master has a report of this agent; False if it is another's master."""
        if sender != self.master:
            return False
        self._confirmed = max(self._confirmed, report)
        return True

    def heard(self, message: ElementTimes) -> bool:
        """Takes the times of all."""
        if len(message.times) != len(self.times):
            return False
        self._seen = message.serial  # another master counts anew; times of any hold
        before = self.times
        self.times = [max(old, new) for old, new in zip(before, message.times, strict=True)]
        self.is_urgent |= is_past_step(before, self.times, self._steps)
        if any(before[one] // self._steps[one] != self.times[one] // self._steps[one] for one in self._sources):
            self._host.hurry_from = self._host.now + GATHER_S
        self.is_quiet |= message.is_quiet
        self._unjudged = message
        self._host.advance(self.times)
        return True

    def judge_clock(self, wall_ms: int) -> None:
        """Compares the clock here, as it is now, with what has been heard of the others'. News that were long on their
        way make it look ahead, which holds back time, and leads nobody astray."""
        self._adding.judge_clocks(wall_ms)
        message, self._unjudged = self._unjudged, None
        if message is not None and message.wall_ms and not self._options.bounded:
            lead_ms = wall_ms - message.wall_ms
            self.lead_ms = lead_ms if abs(lead_ms) > FAR_MS else 0
            self._emitter.wrong_clocks.tell([message.wall_ms + lead_ms for lead_ms in message.behind_ms])

    def tick(self, now: float, wall_ms: int, send: Send, ring: Ring) -> None:
        """Reports, and at the master tells all, once the clock here is known (not 0)."""
        if self.master is None or not self._options.needs_time or not wall_ms:
            return
        if not self._is_due(now):
            return
        self._looked_at = now
        self._host.is_stirred = False
        self._report(now, wall_ms, send)
        if self.master != ring.me:
            return
        self._look_for_silent(now, wall_ms, ring)
        if self._has_news(wall_ms) or now >= self._told_at + ALIVE_S:
            self._told_at, self._told_times = now, list(self._adding.times)
            message = self.told(wall_ms)
            ring.multicast(message, now)
            self.heard(message)

    def _look_for_silent(self, now: float, wall_ms: int, ring: Ring) -> None:
        """Sends the times to those who do not report, at the master, without a detour: others' word of a death may have
        been lost, and whether a message is taken shows it."""
        if now < self._looked_for_silent_at + ALIVE_S:
            return
        self._looked_for_silent_at = now
        if silent := self._adding.silent(now):
            message = self.told(wall_ms)
            for peer in silent:
                if peer != ring.me:
                    ring.send(peer, message, now)

    def _has_news(self, wall_ms: int) -> bool:
        """Whether all are to be told, at the master."""
        is_new = self._adding.add_up(wall_ms)
        return is_new if self._options.bounded else is_past_step(self._told_times, self._adding.times, self._steps)

    def _is_due(self, now: float) -> bool:
        if self.is_urgent and not self._options.bounded:
            self.is_urgent, self._host.passing_until = False, 0.0 if self._is_past else now + PASSING_S
            return True
        if self.is_to_ask(now):
            return True
        return now >= self._looked_at + self._look_s

    @property
    def _is_past(self) -> bool:
        """Whether all types have passed the steps that any source has."""
        newest = max(time for time in (BEGINNING, *self.times, *self._sources.values()) if time < NEVER)
        return all(time // step >= newest // step for time, step in zip(self.times, self._steps, strict=True))

    @property
    def _look_s(self) -> float:
        if self._options.bounded:
            return REPORT_S
        if not self._host.is_stirred:
            return IDLE_S
        return SOON_S if self._looked_at < self._host.passing_until else LOOK_S

    def _report(self, now: float, wall_ms: int, send: Send) -> None:
        assert self.master is not None
        host = self._host
        sources_ended = all(time >= NEVER for time in self._sources.values())
        is_idle = sources_ended and self._emitter.is_empty and host.is_idle and self._commits.is_idle
        hosted, known = packed(host.owned), packed(self._commits.known)
        events = sum(slot.events + slot.emitted for slot in host.slots.values())
        lowest = self.lowest(wall_ms, now)
        content = (hosted, known, lowest, events, is_idle, self._seen) if self._options.bounded else (hosted, known)
        content = (*content, self.lead_ms != 0)
        is_new = content != self._last or is_past_step(self._lowest, lowest, self._steps)
        wants_more = self._options.bounded and is_idle and not self.is_quiet
        asks = self.is_to_ask(now)
        if not (is_new or asks) and now < self._at + (4 * REPORT_S if wants_more else ALIVE_S):
            return
        self._last, self._lowest, self._at = content, lowest, now
        self._serial += 1
        if asks:
            self._asked, self._asked_at, self._is_unsure = self._serial, now, False
        report = ElementTimeReport(
            self._commits.app_id,
            self._serial,
            lowest,
            hosted,
            events + self._emitter.sent_rows,
            is_idle,
            self._seen,
            known,
            asks,
            wall_ms,
            self.lead_ms,
        )
        send(self.master, report, now)

    def _source_time(self, place: int, wall_ms: int) -> int:
        """The time before which no more events of a type come here from outside."""
        known, grace_ms = self._sources.get(place), self._options.grace_ms
        if known is None or self._options.bounded:
            return NEVER if known is None else known
        if known >= NEVER:
            return wall_ms - self.lead_ms - grace_ms  # events that clients send are of now
        follows_clock = known >= wall_ms - grace_ms - FAR_MS
        return known - self.lead_ms if follows_clock else known

    def lowest(self, wall_ms: int, now: float) -> list[int]:
        """For each type the lowest time of events that may still be sent from here. Those that alone keep a type from
        passing a step are sent now."""
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
                    times.extend(made.get(one, self._time_of(one)) for one in self._layout.inputs(at))
                    times.append(self._host.slots[at].lowest)
            made[name] = min(times)
        found, uncommitted, sent = [], self._commits.lowest(), self._emitter.lowest()
        for one, step in zip(self._layout.types, self._steps, strict=True):
            others = min(NEVER, made[one.name], self._host.collected_lowest(one.name), uncommitted.get(one.name, NEVER))
            if sent[one.place] // step < others // step and not self._options.bounded:
                self._emitter.hurry(one.place, now)
            found.append(max(BEGINNING, min(others, sent[one.place])))
        return found

    def _time_of(self, name: str) -> int:
        return self.times[self._layout.by_name[name].place]

    def next_timer(self) -> float | None:
        """The time of the next report."""
        if self.master is None or not self._options.needs_time:
            return None
        if self.is_urgent and not self._options.bounded:
            return self._looked_at
        if self._asked > self._confirmed or self._is_unsure:
            asks_at = self._asked_at + ASK_AGAIN_S if self._asked > self._confirmed else self._looked_at
            return min(asks_at, self._looked_at + self._look_s)
        return self._looked_at + (self._look_s if not self.is_quiet else ALIVE_S)
