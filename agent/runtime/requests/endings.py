"""Ends jobs that are said to be over, if their creators have signed it or the agent nearest to the appId confirms it.

Any agent of the fleet can multicast. A job whose end nobody confirms goes on while its master announces it, and is
dropped when that falls silent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.runtime.fleet.authorization import NotAuthorizedError
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.job.code import CodeRegistry
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import OverAnswer, OverRequest, Stopped
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Message
from agent.runtime.requests.pending import NoAnswer, PendingRequests
from overlay import Id

OPEN_MAX = 1024
"""Upper bound on ends that wait to be confirmed; further ones show by the masters' silence."""
TIMEOUT_S = 5.0
"""Time to wait for a confirmation."""


class JobEndings:
    """Takes the news that jobs are over. `is_over`: whether one is whose master is, or was, on this agent."""

    name = "endings"

    def __init__(
        self,
        directory: JobDirectory,
        is_over: Callable[[Id, JobEpoch], bool],
        code: CodeRegistry,
        jobs: LocalJobs,
        pending: PendingRequests,
    ) -> None:
        self._directory = directory
        self._is_over = is_over
        self._code = code
        self._jobs = jobs
        self._pending = pending
        self._open: set[Id] = set()
        self._unconfirmed = 0

    def handlers(self) -> Handlers:
        return {Stopped: Handler(Via.FLEET, self._stopped)}

    def statistics(self) -> Mapping[str, int]:
        return {"unconfirmed": self._unconfirmed}

    def _stopped(self, stopped: Stopped, now: float) -> bool:
        app_id, known = stopped.app_id, self._directory.get(stopped.app_id)
        if known is not None and stopped.epoch < known.epoch:
            return False
        is_signed = self._is_signed(stopped)
        if is_signed and (job := self._jobs.get(app_id)) is not None:
            self._code.stopped(job)
        if is_signed or self._is_over(app_id, stopped.epoch):
            return self._directory.stopped(stopped, now)
        if app_id not in self._open and len(self._open) < OPEN_MAX:
            self._open.add(app_id)
            question = OverRequest(app_id, stopped.epoch)
            self._pending.request(question, TIMEOUT_S, lambda answer, then: self._told(stopped, answer, then), now)
        return True

    def _is_signed(self, stopped: Stopped) -> bool:
        """Whether the job's creator has signed that it ends. Only creators' jobs have such appIds."""
        known = self._directory.get(stopped.app_id)
        if known is None or stopped.seal is None:
            return False
        try:
            self._code.authorize_stop(stopped.app_id, known.name, stopped.seal, owned=True)
        except NotAuthorizedError:
            return False
        return True

    def _told(self, stopped: Stopped, answer: Message | NoAnswer, now: float) -> None:
        self._open.discard(stopped.app_id)
        if isinstance(answer, OverAnswer) and answer.app_id == stopped.app_id and answer.over:
            self._directory.stopped(stopped, now)
        else:
            self._unconfirmed += 1
