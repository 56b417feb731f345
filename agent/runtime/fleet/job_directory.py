"""Lists the fleet's jobs as their masters announce them, and those that are over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.runtime.fleet.job_names import app_of
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import Announce, AnnouncementBatch, Stopped
from agent.runtime.model.epoch import JobEpoch
from overlay import Id

JOBS_MAX = 4096
"""Upper bound on the jobs an agent knows; announcements of further ones are refused."""
SILENCE_S = 30.0
"""A job that is not announced within this time is dropped."""
PAST_MAX = 64
"""Upper bound on ended jobs whose names are remembered, for readers of their logs."""
ENDED_MAX = 1024
"""Upper bound on ended jobs that are remembered, so that a late announcement does not bring them back."""


@dataclass(slots=True)
class _Heard:
    announce: Announce
    at: float


class JobDirectory:
    """The last announcement of each job. Listeners hear of each announcement, and of jobs that are gone."""

    name = "directory"

    def __init__(self) -> None:
        self._heard: dict[Id, _Heard] = {}
        self._ended: dict[Id, JobEpoch] = {}
        self._past: dict[Id, Announce] = {}
        self._on_announced: tuple[Callable[[Announce, float], object], ...] = ()
        self._on_gone: tuple[Callable[[Id, float], object], ...] = ()

    def handlers(self) -> Handlers:
        return {
            Announce: Handler(Via.FLEET, self._announced),
            AnnouncementBatch: Handler(Via.FLEET, self._all_announced),
            Stopped: Handler(Via.FLEET, self._stopped),
        }

    def on_announced(self, *listeners: Callable[[Announce, float], object]) -> None:
        """Calls these, in their order, after each announcement that other agents' masters or this agent's multicast."""
        self._on_announced = listeners

    def on_gone(self, *listeners: Callable[[Id, float], object]) -> None:
        """Calls these, in their order, when a job is over or has not been announced for too long."""
        self._on_gone = listeners

    def _announced(self, announce: Announce, now: float) -> bool:
        if not self.add(announce, now):
            return False
        for listener in self._on_announced:
            listener(announce, now)
        return True

    def _all_announced(self, batch: AnnouncementBatch, now: float) -> bool:
        return sum(self._announced(announce, now) for announce in batch.jobs) == len(batch.jobs)

    def _stopped(self, stopped: Stopped, now: float) -> bool:
        if not self.end(stopped):
            return False
        self._notify_gone(stopped.app_id, now)
        return True

    def _notify_gone(self, app_id: Id, now: float) -> None:
        for listener in self._on_gone:
            listener(app_id, now)

    def add(self, announce: Announce, now: float) -> bool:
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
        """Marks a job as over; False if the message is of an older epoch than the known job's."""
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
        """The last announcement of a job that runs."""
        heard = self._heard.get(app_id)
        return heard.announce if heard else None

    def heard_at(self, app_id: Id) -> float | None:
        """The time of that announcement."""
        heard = self._heard.get(app_id)
        return heard.at if heard else None

    def born_after(self, app_id: Id) -> int:
        """The time (epoch ms) after which a new job of this name has to be born."""
        ended, heard = self._ended.get(app_id), self._heard.get(app_id)
        births = [epoch.born_ms for epoch in (ended, heard.announce.epoch if heard else None) if epoch is not None]
        return max(births, default=-1)

    def refresh(self, app_id: Id, now: float) -> None:
        """The job's master is here: it is not silent."""
        if app_id in self._heard:
            self._heard[app_id].at = now

    def extend_deadlines(self, seconds: float) -> None:
        """This agent stood still: others may have spoken meanwhile."""
        for heard in self._heard.values():
            heard.at += seconds

    def tick(self, now: float) -> None:
        """Forgets the jobs that nobody has announced for too long."""
        for app_id in [app_id for app_id, heard in self._heard.items() if now - heard.at > SILENCE_S]:
            del self._heard[app_id]
            self._notify_gone(app_id, now)

    def app_of(self, name: str) -> Id:
        """The app that people mean by NAME or NAME@CREATOR. Raises AmbiguousNameError."""
        return app_of(name, self.all(), self.past())

    def past(self) -> list[Announce]:
        """The last announcements of jobs that are over, those that ended last first."""
        return list(reversed(self._past.values()))

    def all(self) -> list[Announce]:
        """The last announcements of all jobs that are known to run."""
        return [heard.announce for heard in self._heard.values()]

    def statistics(self) -> Mapping[str, int]:
        return {"jobs": len(self._heard)}
