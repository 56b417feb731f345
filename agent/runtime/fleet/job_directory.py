"""The fleet's jobs as their masters announce them, and those that are over."""

from __future__ import annotations

from dataclasses import dataclass

from agent.runtime.messages.jobs import Announce, Stopped
from agent.runtime.model.epoch import JobEpoch
from overlay import Id

JOBS_MAX = 4096
"""Jobs an agent knows of; what it hears of others is refused."""
SILENCE_S = 30.0
"""A job that is not announced for so long is dropped."""
PAST_MAX = 64
"""Ended jobs whose names are remembered: what they said can still be read."""
ENDED_MAX = 1024
"""Ended jobs that are remembered, so that an announcement that comes late does not bring them back."""


@dataclass(slots=True)
class _Heard:
    announce: Announce
    at: float


class JobDirectory:
    """What was heard last of each job."""

    def __init__(self) -> None:
        self._heard: dict[Id, _Heard] = {}
        self._ended: dict[Id, JobEpoch] = {}
        self._past: dict[Id, Announce] = {}

    def hear(self, announce: Announce, now: float) -> bool:
        """Takes an announcement; False if it is of a master that has been replaced, or of a job that is over."""
        app_id, epoch = announce.app_id, announce.epoch
        known = self._heard.get(app_id)
        if known is None and len(self._heard) >= JOBS_MAX:
            return False
        if known is not None and epoch < known.announce.epoch:
            return False
        if self.is_over(app_id, epoch):
            return False
        self._heard[app_id] = _Heard(announce, now)
        return True

    def end(self, stopped: Stopped) -> bool:
        """A job is over; False if that is not said of the job that is known."""
        app_id, known = stopped.app_id, self._heard.get(stopped.app_id)
        if known is not None and stopped.epoch < known.announce.epoch:
            return False
        if known is not None:
            self._past[app_id] = self._heard.pop(app_id).announce
        self._ended.pop(app_id, None)
        self._ended[app_id] = stopped.epoch
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        if len(self._past) > PAST_MAX:
            del self._past[next(iter(self._past))]
        return True

    def is_over(self, app_id: Id, epoch: JobEpoch) -> bool:
        """Whether the job has ended in this epoch or a later one."""
        ended = self._ended.get(app_id)
        return ended is not None and epoch.born_ms <= ended.born_ms

    def get(self, app_id: Id) -> Announce | None:
        """What was announced last."""
        heard = self._heard.get(app_id)
        return heard.announce if heard else None

    def heard_at(self, app_id: Id) -> float | None:
        """When that was."""
        heard = self._heard.get(app_id)
        return heard.at if heard else None

    def born_after(self, app_id: Id) -> int:
        """A new job of this name has to be born later than this (epoch ms)."""
        ended, heard = self._ended.get(app_id), self._heard.get(app_id)
        births = [epoch.born_ms for epoch in (ended, heard.announce.epoch if heard else None) if epoch is not None]
        return max(births, default=-1)

    def refresh(self, app_id: Id, now: float) -> None:
        """The job's master is here: it is not silent."""
        if app_id in self._heard:
            self._heard[app_id].at = now

    def extend_deadlines(self, seconds: float) -> None:
        """This agent stood still for so long: others may have spoken meanwhile."""
        for heard in self._heard.values():
            heard.at += seconds

    def silent(self, now: float) -> list[Id]:
        """The jobs that nobody has announced for too long; they are forgotten here."""
        silent = [app_id for app_id, heard in self._heard.items() if now - heard.at > SILENCE_S]
        for app_id in silent:
            del self._heard[app_id]
        return silent

    def past(self) -> list[Announce]:
        """The last that was heard of jobs that are over, those that ended last first."""
        return list(reversed(self._past.values()))

    def all(self) -> list[Announce]:
        """Everything that is known to run."""
        return [heard.announce for heard in self._heard.values()]
