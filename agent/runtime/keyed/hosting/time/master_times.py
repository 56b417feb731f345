"""Event time of a whole job: each agent tells the master the lowest time that it may still send, and hears the lowest
of all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from agent.runtime.keyed.hosting.layout import GraphLayout
from agent.runtime.keyed.hosting.rows.outgoing import NEVER
from agent.runtime.keyed.hosting.slot import BEGINNING
from agent.runtime.keyed.hosting.time.wrong_clocks import FAR_MS
from agent.runtime.keyed.logical_nodes import NODES, in_any
from agent.runtime.messages.elements import BEHIND_MAX, ElementTimeReport
from overlay import Peer

LOOK_S, SOON_S, IDLE_S = 0.02, 0.005, 0.1
"""Time between looks at what is to be told: while something happens, while a step is being passed, and else."""
PASSING_S = 0.5
"""Time in which all types pass a step."""
REPORT_S = 0.025
"""Time between reports of one agent of a bounded job, while something changes."""
ALIVE_S = 1.0
"""Time between reports where nothing changes that elements or windows wait for."""
SILENT_S = 3.0
"""Time after which an agent that has not reported gets a message: if it is dead, that nobody takes it is told."""
LEADS = 3
"""Reports by which a clock is judged: one that was long on its way makes it look behind."""
STABLE = 2
"""Reports of each agent, with nothing done in between, after which nothing is under way anywhere."""


@dataclass(slots=True)
class _Heard:
    """The last report of an agent, by how much its clock was ahead of the master's as the last few came, and how many
    reports in a row told of nothing new."""

    report: ElementTimeReport
    leads_ms: tuple[int, ...]
    quiet: int = 0

    @property
    def lead_ms(self) -> int:
        """The time by which its clock is ahead."""
        return max(self.leads_ms, default=0)


class _Awaited(NamedTuple):
    """The times in which an agent has been waited for; the end is not known while that goes on."""

    from_ms: int
    upto_ms: int = NEVER


class MasterTimes:
    """Adds up reports at the job's master."""

    def __init__(self, layout: GraphLayout, *, is_bounded: bool) -> None:
        self._layout, self._is_bounded = layout, is_bounded
        self._heard: dict[Peer, _Heard] = {}
        self._members: frozenset[Peer] = frozenset()
        self._hosted = np.zeros(NODES, bool)
        self._unjudged: set[Peer] = set()
        self._silent_since: dict[Peer, tuple[int, float]] = {}
        """The last report of each agent, by its serial, and since when there was no other, and no message to it."""
        self._outer = [layout.by_name[name].place for name in layout.sources]
        self._outer += [one.place for one in layout.types if not layout.graph.emitters(one.name)]
        """The types of which events come from outside."""
        self._awaited: dict[int, _Awaited] = {}
        self._begun_ms = BEGINNING
        self._cyclic = [one.name in layout.graph.cyclic_types for one in layout.types]
        self._from_circles = [one.name in layout.graph.from_circles for one in layout.types]
        self.times = [BEGINNING] * len(layout.types)
        self.is_quiet = False
        self.serial = 0

    def begin(self, times: Sequence[int]) -> None:
        """Another master begins, where all have heard of these times."""
        self._begun_ms = self._outer_time(times)
        self._awaited = {}

    def members(self, peers: Collection[Peer]) -> None:
        """Learns who has to report."""
        for peer in self._members.difference(peers):
            heard, known = self._heard.get(peer), self._awaited.get(peer.node_id)
            if known is not None and known.upto_ms == NEVER:
                upto_ms = BEGINNING if heard is None else self._outer_time(heard.report.lowest)
                self._awaited[peer.node_id] = known._replace(upto_ms=upto_ms)
        self._members = frozenset(peers)
        self._heard = {peer: heard for peer, heard in self._heard.items() if peer in self._members}
        self._silent_since = {peer: since for peer, since in self._silent_since.items() if peer in self._members}

    def report(self, peer: Peer, report: ElementTimeReport) -> None:
        """Takes a report."""
        if len(report.lowest) != len(self.times):
            return
        before = self._heard.get(peer)
        if before is not None and report.serial <= before.report.serial:
            return
        is_same = before is not None and before.report.activity == report.activity
        is_quiet = report.is_idle and is_same and before is not None
        leads_ms = () if before is None else before.leads_ms
        self._unjudged.add(peer)
        self._heard[peer] = _Heard(report, leads_ms, before.quiet + 1 if is_quiet and before is not None else 0)

    def silent(self, now: float) -> list[Peer]:
        """The agents that have not reported for long, each once in that time; to be asked for about each second."""
        found = []
        for peer in self._members:
            serial = self._heard[peer].report.serial if peer in self._heard else 0
            last, since = self._silent_since.setdefault(peer, (serial, now))
            if serial != last or now - since >= SILENT_S:
                self._silent_since[peer] = (serial, now)
                found += [peer] if serial == last else []
        return found

    def _outer_time(self, times: Sequence[int]) -> int:
        return min((times[place] for place in self._outer), default=BEGINNING)

    def has_waited_for(self, node_id: int, from_ms: int, before_ms: int) -> bool:
        """Whether no times in this range were passed without what comes from outside at an agent."""
        awaited = self._awaited.get(node_id)
        return awaited is not None and awaited.from_ms <= from_ms and before_ms <= awaited.upto_ms

    def judge_clocks(self, wall_ms: int) -> None:
        """Compares the clocks in reports that have come with this one."""
        for peer in self._unjudged & self._heard.keys():
            heard = self._heard[peer]
            if heard.report.wall_ms:
                heard.leads_ms = (*heard.leads_ms[1 - LEADS :], heard.report.wall_ms - wall_ms)
        self._unjudged.clear()

    def clock_ms(self, wall_ms: int) -> int:
        """The middle one of the agents' clocks; of two in the middle, that nearer to the master's own."""
        leads = sorted(heard.lead_ms for peer, heard in self._heard.items() if peer in self._members)
        middle = leads[(len(leads) - 1) // 2 : len(leads) // 2 + 1]
        return wall_ms + min(middle, key=abs, default=0)

    def clocks(self, wall_ms: int) -> tuple[int, list[int]]:
        """The middle one of the agents' clocks, and by how much those that are far behind it are (negative)."""
        clock_ms = self.clock_ms(wall_ms)
        leads = sorted({heard.lead_ms + wall_ms - clock_ms for heard in self._heard.values()})
        return clock_ms, [lead_ms for lead_ms in leads if lead_ms < -FAR_MS][:BEHIND_MAX]

    def _are_clocks_known(self, wall_ms: int) -> bool:
        """Whether all clocks have been judged, and agents whose clocks are wrong know that: those who do not tell times
        of their clocks' own."""
        lead_ms = self.clock_ms(wall_ms) - wall_ms
        heard = [self._heard[peer] for peer in self._members]
        if not all(one.leads_ms for one in heard):
            return False
        return all(abs(one.lead_ms - lead_ms) <= FAR_MS or one.report.lead_ms for one in heard)

    def _note_awaited(self) -> None:
        """All that take part are waited for from now on; who was away while no time passed, has been all the time."""
        reached_ms = max(self._begun_ms, self._outer_time(self.times))
        for peer in self._members:
            known = self._awaited.get(peer.node_id)
            if known is None or known.upto_ms != NEVER:
                is_whole = known is not None and known.upto_ms >= reached_ms
                self._awaited[peer.node_id] = _Awaited(known.from_ms if known and is_whole else reached_ms)

    def lowest_of(self, peer: Peer) -> list[int] | None:
        """The last report of an agent."""
        heard = self._heard.get(peer)
        return None if heard is None else heard.report.lowest

    def add_up(self, wall_ms: int) -> bool:
        """The lowest times, if all have reported; True where something is new."""
        if not self._members or not self._members <= self._heard.keys():
            return False
        reports = [self._heard[peer].report for peer in self._members]
        hosted = in_any(report.hosted for report in reports)
        self._hosted |= hosted | in_any(report.known for report in reports)
        is_whole = bool(hosted[self._hosted].all())
        if not is_whole:
            return False  # a node that is nowhere now may still send what it held
        if not (self._is_bounded or self._are_clocks_known(wall_ms)):
            return False
        self._note_awaited()
        lowest = [min(times) for times in zip(*(report.lowest for report in reports), strict=True)]
        is_stable = all(self._heard[peer].quiet >= STABLE for peer in self._members)
        times = [max(old, new) for old, new in zip(self.times, lowest, strict=True)]
        for place, is_cyclic in enumerate(self._cyclic):
            if is_cyclic:
                times[place] = max(self.times[place], BEGINNING if self._is_bounded else self.clock_ms(wall_ms))
        before = [time for time, is_from in zip(times, self._from_circles, strict=True) if not is_from]
        if self._is_bounded and is_stable and all(time >= NEVER for time in before):
            times = [NEVER if is_one else time for time, is_one in zip(times, self._cyclic, strict=True)]
        is_quiet = is_stable and all(time >= NEVER for time in self.times)
        is_quiet = is_quiet and all(report.seen >= self.serial for report in reports)
        is_new = times != self.times or is_quiet != self.is_quiet
        self.times, self.is_quiet = times, self.is_quiet or is_quiet
        self.serial += is_new
        for heard in self._heard.values():
            heard.quiet = 0 if times != self.times else heard.quiet
        return is_new
