"""Event time of a whole job: each agent tells the master the lowest time that it may still send, and hears the lowest
of all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from agent.runtime.keyed.hosting.layout import GraphLayout
from agent.runtime.keyed.hosting.rows.outgoing import NEVER
from agent.runtime.keyed.hosting.slot import BEGINNING
from agent.runtime.keyed.logical_nodes import NODES, in_any
from agent.runtime.messages.elements import ElementTimeReport
from overlay import Peer

LOOK_S, SOON_S, IDLE_S = 0.02, 0.005, 0.1
"""Time between looks at what is to be told: while something happens, while a step is being passed, and else."""
PASSING_S = 0.5
"""Time in which all types pass a step."""
REPORT_S = 0.025
"""Time between reports of one agent of a bounded job, while something changes."""
ALIVE_S = 1.0
"""Time between reports where nothing changes that elements or windows wait for."""
STABLE = 2
"""Reports of each agent, with nothing done in between, after which nothing is under way anywhere."""


@dataclass(slots=True)
class _Heard:
    """The last report of an agent, and how many in a row told of nothing new."""

    report: ElementTimeReport
    quiet: int = 0


class MasterTimes:
    """Adds up reports at the job's master."""

    def __init__(self, layout: GraphLayout, *, is_bounded: bool) -> None:
        self._layout, self._is_bounded = layout, is_bounded
        self._heard: dict[Peer, _Heard] = {}
        self._members: frozenset[Peer] = frozenset()
        self._hosted = np.zeros(NODES, bool)
        self._cyclic = [one.name in layout.graph.cyclic_types for one in layout.types]
        self.times = [BEGINNING] * len(layout.types)
        self.is_quiet = False
        self.serial = 0

    def members(self, peers: Collection[Peer]) -> None:
        """Learns who has to report."""
        self._members = frozenset(peers)
        self._heard = {peer: heard for peer, heard in self._heard.items() if peer in self._members}

    def report(self, peer: Peer, report: ElementTimeReport) -> None:
        """Takes a report."""
        if len(report.lowest) != len(self.times):
            return
        before = self._heard.get(peer)
        if before is not None and report.serial <= before.report.serial:
            return
        is_same = before is not None and before.report.activity == report.activity
        is_quiet = report.is_idle and is_same and before is not None
        self._heard[peer] = _Heard(report, before.quiet + 1 if is_quiet and before is not None else 0)

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
        lowest = [min(times) for times in zip(*(report.lowest for report in reports), strict=True)]
        is_stable = all(self._heard[peer].quiet >= STABLE for peer in self._members)
        times = [max(old, new) for old, new in zip(self.times, lowest, strict=True)]
        for place, is_cyclic in enumerate(self._cyclic):
            if is_cyclic:
                times[place] = max(self.times[place], wall_ms if not self._is_bounded else BEGINNING)
        rest = [time for time, is_cyclic in zip(times, self._cyclic, strict=True) if not is_cyclic]
        if self._is_bounded and is_stable and all(time >= NEVER for time in rest):
            times = [NEVER] * len(times)
        is_quiet = is_stable and all(time >= NEVER for time in self.times)
        is_quiet = is_quiet and all(report.seen >= self.serial for report in reports)
        is_new = times != self.times or is_quiet != self.is_quiet
        self.times, self.is_quiet = times, self.is_quiet or is_quiet
        self.serial += is_new
        for heard in self._heard.values():
            heard.quiet = 0 if times != self.times else heard.quiet
        return is_new
