"""Lists the fleet's jobs as their masters announce them, and jobs that are over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.runtime.fleet.job_names import app_of
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import Announce, AnnouncementBatch, Stopped
from agent.runtime.model.epoch import JobEpoch, JobTerm
from agent.runtime.model.placement import groups_of
from overlay import Id

JOBS_MAX = 4096
"""Upper bound on the jobs an agent knows; announcements of further ones are refused."""
SILENCE_S = 90.0
"""Time without an announcement after which a job is dropped: longer than most cuts of a network, since agents on a side
without a master work on meanwhile, and what they have sealed is wanted after it."""
PAST_MAX = 64
"""Upper bound on ended jobs whose names are remembered, for readers of their logs."""
ENDED_MAX = 1024
"""Upper bound on ended jobs that are remembered, so that a late announcement does not bring them back."""


@dataclass(slots=True)
class _Entry:
    announce: Announce
    at: float


class JobDirectory:
    """The last announcement of each job's master. Listeners are called with each of them, and with jobs that are gone.

    Any agent of the fleet can multicast. What comes in the epoch of a job's master is taken if it speaks of the same
    master and job; a further epoch is a claim, and is taken when somebody calls `believe`.
    """

    name = "directory"

    def __init__(self) -> None:
        self._known: dict[Id, _Entry] = {}
        self._oldest_at = float("-inf")
        self._ended: dict[Id, JobEpoch] = {}
        self._past: dict[Id, Announce] = {}
        self._on_announced: tuple[Callable[[Announce, float], object], ...] = ()
        self._on_gone: tuple[Callable[[Id, float], object], ...] = ()
        self._on_over: Callable[[Announce, float], object] = lambda _announce, _now: None
        self._on_claimed: Callable[[Announce, float], bool] = self.believe

    def handlers(self) -> Handlers:
        return {
            Announce: Handler(Via.FLEET, self._announced),
            AnnouncementBatch: Handler(Via.FLEET, self._all_announced),
        }

    def on_announced(self, *listeners: Callable[[Announce, float], object]) -> None:
        """Calls these listeners in order after each announcement that a master multicasts, on this agent or another."""
        self._on_announced = listeners

    def on_gone(self, *listeners: Callable[[Id, float], object]) -> None:
        """Calls these listeners in order when a job is over, or has not been announced for too long."""
        self._on_gone = listeners

    def on_over(self, listener: Callable[[Announce, float], object]) -> None:
        """Calls this with announcements of jobs that are over."""
        self._on_over = listener

    def on_claimed(self, listener: Callable[[Announce, float], bool]) -> None:
        """Calls this with announcements of epochs that are not known yet; it refuses by returning False."""
        self._on_claimed = listener

    def restore_ended(self, ended: Mapping[Id, JobEpoch]) -> None:
        """Takes the jobs that ended before this agent was started."""
        self._ended.update(ended)

    def _announced(self, announce: Announce, now: float) -> bool:
        app_id, epoch, known = announce.app_id, announce.epoch, self.get(announce.app_id)
        if announce.master.node_id != epoch.master:
            return False
        if self.is_over(app_id, epoch):
            self._on_over(announce, now)
            return False
        if known is None or epoch > known.epoch:
            return (known is not None or len(self._known) < JOBS_MAX) and self._on_claimed(announce, now)
        return (announce == known or _is_of_master(announce, known)) and self.believe(announce, now)

    def believe(self, announce: Announce, now: float) -> bool:
        """Takes what a job's master announces; False if it is out of date, or there is no room."""
        if not self.add(announce, now):
            return False
        for listener in self._on_announced:
            listener(announce, now)
        return True

    def _all_announced(self, batch: AnnouncementBatch, now: float) -> bool:
        return self.announced(batch.jobs, now)

    def announced(self, jobs: Sequence[Announce], now: float) -> bool:
        """Takes what masters have announced of several jobs; False if one of them is refused."""
        return sum(self._announced(announce, now) for announce in jobs) == len(jobs)

    def stopped(self, stopped: Stopped, now: float) -> bool:
        """Ends a job, and tells listeners; False if the message is of an older epoch than the known job's."""
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
        known = self._known.get(app_id)
        if known is None and len(self._known) >= JOBS_MAX:
            return False
        if known is not None and epoch < known.announce.epoch:
            return False
        if self.is_over(app_id, epoch):
            return False
        self._known[app_id] = _Entry(announce, now)
        return True

    def end(self, stopped: Stopped) -> bool:
        """Marks a job as over; False if the message is of an older epoch than the known job's."""
        app_id, known = stopped.app_id, self._known.get(stopped.app_id)
        if known is not None and stopped.epoch < known.announce.epoch:
            return False
        if known is not None:
            self._past[app_id] = self._known.pop(app_id).announce
        self._ended.pop(app_id, None)
        self._ended[app_id] = stopped.epoch
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        if len(self._past) > PAST_MAX:
            del self._past[next(iter(self._past))]
        return True

    def is_over(self, app_id: Id, epoch: JobEpoch | JobTerm) -> bool:
        """Whether the job has ended in this epoch or a later one."""
        ended = self._ended.get(app_id)
        return ended is not None and epoch.born_ms <= ended.born_ms

    def get(self, app_id: Id) -> Announce | None:
        """The last announcement of a running job."""
        entry = self._known.get(app_id)
        return entry.announce if entry else None

    def groups(self, app_id: Id) -> tuple[Id, ...]:
        """The overlay's groups of the trees of a running job, as far as it is known."""
        known = self.get(app_id)
        return () if known is None else groups_of(app_id, known.trees, known.moved.added)

    def announced_at(self, app_id: Id) -> float | None:
        """The time of a running job's last announcement."""
        entry = self._known.get(app_id)
        return entry.at if entry else None

    def born_after(self, app_id: Id) -> int:
        """The time (epoch ms) after which a new job of this name has to be born."""
        ended, entry = self._ended.get(app_id), self._known.get(app_id)
        births = [epoch.born_ms for epoch in (ended, entry.announce.epoch if entry else None) if epoch is not None]
        return max(births, default=-1)

    def refresh(self, app_id: Id, now: float) -> None:
        """Notes that the job's master, which is on this agent, is alive."""
        if app_id in self._known:
            self._known[app_id].at = now

    def extend_deadlines(self, seconds: float) -> None:
        """Makes up for a standstill of this agent: masters may have announced their jobs meanwhile."""
        for entry in self._known.values():
            entry.at += seconds

    def tick(self, now: float) -> None:
        """Drops the jobs that have not been announced for too long. None is before the oldest announcement at the last
        look."""
        if now - self._oldest_at <= SILENCE_S:
            return
        for app_id in [app_id for app_id, entry in self._known.items() if now - entry.at > SILENCE_S]:
            del self._known[app_id]
            self._notify_gone(app_id, now)
        self._oldest_at = min((entry.at for entry in self._known.values()), default=now)

    def app_of(self, name: str) -> Id:
        """The app that people mean by NAME or NAME@CREATOR. Raises AmbiguousNameError."""
        return app_of(name, self.all(), self.past())

    def past(self) -> list[Announce]:
        """The last announcements of jobs that are over, the latest end first."""
        return list(reversed(self._past.values()))

    def all(self) -> list[Announce]:
        """The last announcements of all running jobs."""
        return [entry.announce for entry in self._known.values()]

    def statistics(self) -> Mapping[str, int]:
        return {"jobs": len(self._known)}


def _is_of_master(announce: Announce, known: Announce) -> bool:
    """Whether an announcement agrees with an earlier one in what does not change under one master."""
    return announce.epoch == known.epoch and all(
        getattr(announce, name) == getattr(known, name)
        for name in ("master", "master_name", "name", "stream", "bounded", "creator", "part_of", "trees", "owner")
    )
