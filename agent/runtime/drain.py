"""Drains an agent that leaves the fleet: masters hand over, workers hand in their last runs and leave their rosters. So
does the worker of a single job, where its streams are no longer those of the agent.

A pane in progress when a worker leaves has the worker's events up to then, which makes it partial; the worker is
expected up to this pane and no further. Half-read input of a bounded job would mean nothing: there the worker stays
expected, and is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.master.failover import Failover
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.messages.jobs import Leave
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.epoch import JobEpoch
from overlay import Id

LEAVE_AGAIN_S = 0.5
"""Delay before leave is taken again of a master that has not answered."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """The jobs whose masters are still here, and the jobs of which other agents have not acknowledged all."""

    masters: int
    jobs: int


class Drain:
    """The leaving of one agent: `begin` once, then `step` until it `is_complete`."""

    name = "drain"

    def __init__(self, jobs: LocalJobs, masters: JobMasters, failover: Failover, sender: MessageSender) -> None:
        self.has_begun = False
        self._jobs = jobs
        self._masters = masters
        self._failover = failover
        self._sender = sender
        self.holds: Callable[[Id], bool] = lambda _app_id: False
        """Tells whether a job has to go on here for now: it hands over more than its panes."""
        self.on_begun: tuple[Callable[[float], None], ...] = ()
        self._told: dict[Id, tuple[JobEpoch, float]] = {}
        """The masters of which leave was taken, by their epochs, and when."""

    def begin(self, now: float) -> None:
        """Takes on nothing new from now on."""
        self.has_begun = True
        self._jobs.takes_work = self._failover.takes_over = False
        for leave in self.on_begun:
            leave(now)
        self._masters.resign(now)
        self.step(now)

    def step(self, now: float) -> None:
        """Continues as far as possible: sealing takes time, and so does handing over."""
        for job in self._jobs if self.has_begun else self._jobs.withdrawing():
            if self.holds(job.app_id):
                continue
            if job.pipeline is not None:
                job.pipeline.finish_early()
            if (job.root is None or job.withdraws) and job.hand_in():
                (self._jobs.advance if job.withdraws else self._jobs.send_up)(job, now)
            self._leave(job, now)
            if job.withdraws and job.has_handed_in:
                self._told.pop(job.app_id, None)
                self._jobs.end_work(job, now)

    def _leave(self, job: LocalJob, now: float) -> None:
        """Takes leave of the job's master, again until it answers: it may be handing over, or be gone."""
        if job.last_pane_to_tell is None or job.epoch is None or job.number is None or job.master_peer is None:
            return
        epoch, sent_at = self._told.get(job.app_id, (None, now))
        if epoch != job.epoch or now - sent_at >= LEAVE_AGAIN_S:
            self._told[job.app_id] = (job.epoch, now)
            leave = Leave(job.app_id, job.epoch, job.number, job.last_pane_to_tell)
            self._sender.send(job.master_peer, leave, now)

    @property
    def is_complete(self) -> bool:
        """Whether the node can leave the overlay without loss."""
        return self.has_begun and self.remainder == Remainder(0, 0)

    @property
    def remainder(self) -> Remainder:
        """The rest that is still to be handed over."""
        waiting = sum(not job.has_handed_in for job in self._jobs if job.root is None)
        return Remainder(self._masters.not_handed_over, waiting)

    def statistics(self) -> Mapping[str, int]:
        return {"leaving": int(self.has_begun)}
