"""Requests that open a job: the same calls for the blocking client and the one for trio."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from agent.control.messages import GROUPS_DEFAULT, BeyondGroups, FollowRequest, QueryRequest, SubmitRequest
from elf.client.attachment import Backoff, JobAttachment
from elf.client.remote_agent import IF_CLOSED_AT_ONCE, RemoteAgent

JobT = TypeVar("JobT")


class JobOpener(ABC, Generic[JobT]):
    """Base of both clients: the agent to ask, the time limit of answers, and calls that give a job.

    `agent`: one elsewhere, or the path of a control socket; `path` is that for people.
    """

    def __init__(self, agent: RemoteAgent | str, timeout_s: float) -> None:
        self.agent = agent
        self.path = str(agent)
        self.if_closed = IF_CLOSED_AT_ONCE if isinstance(agent, RemoteAgent) else ""
        self.timeout_s = timeout_s

    def query(
        self,
        text: str,
        *,
        app: str | None = None,
        once: bool = False,
        detach: bool = False,
        max_groups: int = GROUPS_DEFAULT,
        beyond_groups: BeyondGroups = "other",
    ) -> JobT:
        """A query over the fleet, submitted by entering the job's `with` statement and stopped by leaving it.

        `once`: over the logs' present content; `detach`: the job goes on when it is left. `app` names the job. A window
        has rows for `max_groups` groups (by default a million); further groups are in its result's `other`, or, with
        `beyond_groups` "error", end the job.
        """
        return self._open(QueryRequest(text, app, once, detach, max_groups, beyond_groups))

    def follow(self, app: str, *, after: int | None = None, reconnect: bool = False) -> JobT:
        """A running job, attached to by entering its `with` statement; `after` is the `pane` of the last window seen.

        `reconnect`: when the agent is gone, try again for ever, and go on after the last window.
        """
        return self._open(FollowRequest(app, after), Backoff(random.random) if reconnect else None)

    def submit(self, app: str, app_id: str, bundle: bytes) -> JobT:
        """A creator's job, submitted by entering its `with` statement; it goes on when that is left.

        `elf.signing.submission` makes the bundle.
        """
        return self._open(SubmitRequest(app, app_id, bundle))

    def _open(self, request: QueryRequest | SubmitRequest | FollowRequest, backoff: Backoff | None = None) -> JobT:
        return self._job(JobAttachment(request, self.path, self.timeout_s, backoff, self.if_closed))

    @abstractmethod
    def _job(self, attachment: JobAttachment) -> JobT:
        """The job of this client's kind."""
