"""Lists the fleet's jobs as their masters announce them, and jobs that are over."""

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
"""Time without an announcement after which a job is dropped."""
PAST_MAX = 64
"""Upper bound on ended jobs whose names are remembered, for readers of their logs."""
ENDED_MAX = 1024
"""Upper bound on ended jobs that are remembered, so that a late announcement does not bring them back."""


@dataclass(slots=True)
class _Heard:
    announce: Announce
    at: float


class JobDirectory:
    """The last announcement of each job. Listeners are called with each announcement, and with jobs that are gone."""

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
        """Calls these listeners in order after each announcement that a master multicasts, on this agent or another."""
        self._on_announced = listeners

    def on_gone(self, *listeners: Callable[[Id, float], object]) -> None:
        """Calls these listeners in order when a job is over, or has not been announced for too long."""
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
        """Records an announcement; False if its master has been replaced, its job is over, or there is no room."""
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
        """The last announcement of a running job."""
        heard = self._heard.get(app_id)
        return heard.announce if heard else None

    def heard_at(self, app_id: Id) -> float | None:
        """The time of a running job's last announcement."""
        heard = self._heard.get(app_id)
        return heard.at if heard else None

    def born_after(self, app_id: Id) -> int:
        """The time (epoch ms) after which a new job of this name has to be born."""
        ended, heard = self._ended.get(app_id), self._heard.get(app_id)
        births = [epoch.born_ms for epoch in (ended, heard.announce.epoch if heard else None) if epoch is not None]
        return max(births, default=-1)

    def refresh(self, app_id: Id, now: float) -> None:
        """Notes that the job's master, which is on this agent, is alive."""
        if app_id in self._heard:
            self._heard[app_id].at = now

    def extend_deadlines(self, seconds: float) -> None:
        """Makes up for a standstill of this agent: masters may have announced their jobs meanwhile."""
        for heard in self._heard.values():
            heard.at += seconds

    def tick(self, now: float) -> None:
        """Drops the jobs that have not been announced for too long."""
        for app_id in [app_id for app_id, heard in self._heard.items() if now - heard.at > SILENCE_S]:
            del self._heard[app_id]
            self._notify_gone(app_id, now)

    def app_of(self, name: str) -> Id:
        """The app that people mean by NAME or NAME@CREATOR. Raises AmbiguousNameError."""
        return app_of(name, self.all(), self.past())

    def past(self) -> list[Announce]:
        """The last announcements of jobs that are over, the latest end first."""
        return list(reversed(self._past.values()))

    def all(self) -> list[Announce]:
        """The last announcements of all running jobs."""
        return [heard.announce for heard in self._heard.values()]

    def statistics(self) -> Mapping[str, int]:
        return {"jobs": len(self._heard)}
