"""Messages by which agents find out who a job's master is, if somebody announces to be the next one."""

from __future__ import annotations

from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Count, Message


class MasterRequest(Message, frozen=True, tag=True):
    """Agent → root, as a request to the appId: whom do you follow? The response is its `Announce`, or `NoJob`."""


class FollowQuestion(Message, frozen=True, tag=True):
    """Root → agents near it and the master so far: `epoch` is claimed, whom do you follow?"""

    epoch: JobEpoch


class FollowAnswer(Message, frozen=True, tag=True):
    """Agent → root: I follow the master of this epoch (None: I know of no such job).

    A master that has handed over says so unasked.
    """

    epoch: JobEpoch | None


class MasterQuestion(Message, frozen=True, tag=True):
    """Root → agents near it: the root's disk has this revision of a job, whom do you follow?"""

    epoch: JobEpoch
    revision: Count


class MasterAnswer(Message, frozen=True, tag=True):
    """Agent → root: whether I follow a master of this job. A newer revision from my disk comes before."""

    follows: bool
