"""How an agent leaves the fleet without a loss: masters hand over, workers hand in what they have and say farewell.

The panes that a worker leaves in the middle hold what it had until then; it is expected up to them and no further. Of a
bounded job it has read a part that means nothing: there it stays expected, and is missing.
"""

from __future__ import annotations

from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.master.failover import Failover
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.messages.jobs import Leave
from agent.runtime.messages.sender import MessageSender


class Drain:
    """Of one agent; `begin` once, then `step` until it `is_complete`."""

    def __init__(self, parts: LocalJobs, offices: JobMasters, succession: Failover, post: MessageSender) -> None:
        self.has_begun = False
        self._parts = parts
        self._offices = offices
        self._succession = succession
        self._post = post

    def begin(self, now: float) -> None:
        """From now on nothing new is taken on."""
        self.has_begun = True
        self._parts.takes_work = self._succession.takes_over = False
        self._offices.resign(now)
        self.step(now)

    def step(self, now: float) -> None:
        """Goes on as far as possible: sealing takes time, and so do new masters."""
        if not self.has_begun:
            return
        for part in self._parts:
            if part.pipeline is not None:
                part.pipeline.finish_early()
            if part.root is None and part.hand_in():
                self._say_farewell(part, now)
                self._parts.send_up(part, now)

    def _say_farewell(self, part: LocalJob, now: float) -> None:
        last_pane = part.pipeline.last_pane if part.pipeline else None
        if last_pane is not None and part.number is not None and part.epoch is not None and part.master_peer:
            self._post.send(part.master_peer, Leave(part.app_id, part.epoch, part.number, last_pane), now)

    @property
    def is_complete(self) -> bool:
        """Whether the node can leave the overlay without a loss."""
        if not self.has_begun or not self._offices.is_vacant:
            return False
        return all(part.has_handed_in for part in self._parts if part.root is None)
