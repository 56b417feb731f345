"""Computes how many events a second the results of jobs hold, from one look at the jobs to the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from agent.control.messages import JobEntry
from elf.output.job_lag import published_until_s

OVER_S = 60.0
"""Time that a rate covers, or two windows where those are longer."""
POINTS_MAX = 64


class JobRates:
    """Remembers how far jobs have come, and the events they had counted; only of those in the last look."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[float, int]]] = {}

    def of(self, jobs: Sequence[JobEntry]) -> Mapping[str, float]:
        """The rates of jobs that have published something since they were first seen, by their ids."""
        self._points = {job.app_id: self._points.get(job.app_id, deque(maxlen=POINTS_MAX)) for job in jobs}
        rates = {}
        for job in jobs:
            points, until_s = self._points[job.app_id], published_until_s(job)
            if until_s is None:
                continue
            if not job.events:
                rates[job.app_id] = 0.0
                continue  # a job that begins is published until some moment within a window
            if points and (until_s < points[-1][0] or job.events < points[-1][1]):
                points.clear()  # another job, by the same name
            if not points or until_s > points[-1][0]:
                points.append((until_s, job.events))
            while len(points) > 2 and points[1][0] <= until_s - OVER_S:
                points.popleft()
            (first_s, first), (last_s, last) = points[0], points[-1]
            if last_s > first_s:
                rates[job.app_id] = (last - first) / (last_s - first_s)
        return rates
