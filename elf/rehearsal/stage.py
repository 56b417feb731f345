"""The sources of a rehearsed stage: they route rows by their groupings, and hear reports of workers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agent.grouping import Assignment, Grouping, Report
from elf.rehearsal.key_stream import Hashes
from elf.rehearsal.plant import Crew, Plant
from elf.rehearsal.queues import Places

REPORTED_ROWS = 16
"""Rows of a source, on average, after which a worker tells it anew how fast it is."""
GroupingMaker = Callable[[Assignment, int], Grouping]
"""Makes the grouping of the source of this number."""


class RoutingStage:
    """All sources of a stage. Workers tell those whose groupings estimate waits how long they take for a row, and which
    share of the rows that came since they told it last is the source's, as acknowledgements do."""

    def __init__(self, plant: Plant, make: GroupingMaker) -> None:
        self._told_s = plant.service_s if plant.told_s is None else plant.told_s
        self._crew = plant.crew
        self._groupings = [make(plant.crew.assignment, source) for source in range(plant.sources)]
        self._listeners = [source for source, one in enumerate(self._groupings) if not np.isnan(one.waits).all()]
        self._rows = np.zeros((plant.sources, len(plant.service_s)), np.int64)
        self._unreported = 0

    def relieve(self, crew: Crew, now: float) -> None:
        """Puts another crew in the place of the present one."""
        if crew is not self._crew:
            self._crew = crew
            for grouping in self._groupings:
                grouping.change(crew.assignment, now)

    def route(self, source: int, hashes: Hashes, now: float) -> Places:
        """The servers of a source's next rows."""
        return self._crew.servers[self._groupings[source].assign(hashes, now)]

    def arrived(self, sources: Places, servers: Places, now: float) -> None:
        """Counts rows that have come to servers, who report after enough of them. O(rows), or O(sources · workers)."""
        if not self._listeners:
            return
        pairs = sources.astype(np.int64) * self._rows.shape[1] + servers
        self._rows += np.bincount(pairs, minlength=self._rows.size).reshape(self._rows.shape)
        self._unreported += len(servers)
        if self._unreported >= REPORTED_ROWS * len(self._groupings) * len(self._crew.servers):
            self._report(now)
            self._unreported = 0
            self._rows[:] = 0

    def _report(self, now: float) -> None:
        came = self._rows.sum(axis=0)
        for place, server in enumerate(self._crew.servers.tolist()):
            for source in self._listeners:
                if rows := int(self._rows[source, server]):
                    report = Report(place, float(self._told_s[server]), rows / int(came[server]))
                    self._groupings[source].heard(report, now)
