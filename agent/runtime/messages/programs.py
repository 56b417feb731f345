"""Messages between agents about the code of jobs, and messages of jobs to each other."""

from __future__ import annotations

from typing import Annotated

import msgspec

from agent.programs.calls import Text, TypedMessage
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Message, Name, Number, Time

LINES_MAX = 256
"""Upper bound on the lines of a log in one message."""
LOG_LINES_MAX = 1000
"""Upper bound on the lines a master keeps of its job's log."""


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One line of a job's log, with its time (epoch ms) and the agent whose program has written it."""

    at_ms: Time
    agent: Name
    text: Text


class ProgramMulticast(Message, frozen=True, tag=True):
    """Master → all, multicast: a message of the job's code, for `on_multicast`."""

    epoch: JobEpoch
    message: TypedMessage


class LogLines(Message, frozen=True, tag=True):
    """Agent → master: lines of its program for the job's log."""

    epoch: JobEpoch
    lines: Annotated[list[Line], msgspec.Meta(max_length=LINES_MAX)]


class CannotRun(Message, frozen=True, tag=True):
    """Worker → master: I cannot run the job's code, for this reason. From `first_pane` on I am missing."""

    epoch: JobEpoch
    agent: Name
    number: Number
    first_pane: Time
    reason: Text


class ProgramFailed(Message, frozen=True, tag=True):
    """Agent → master: the job's code has failed here, or the job takes too long. `text`: the code's traceback."""

    epoch: JobEpoch
    agent: Name
    reason: Text
    text: Text


class JobRequest(Message, frozen=True, tag=True):
    """Agent → master, as a request to the appId: a message of another job, for `deliver`."""

    sender: Name
    message: TypedMessage


class JobResponse(Message, frozen=True, tag=True):
    """Master → agent, in response to JobRequest: what `deliver` has returned, or why there is nothing."""

    message: TypedMessage | None
    refusal: Text | None = None


class LogRequest(Message, frozen=True, tag=True):
    """Agent → master, as a request to the appId: send at most this number of the last lines of the job's log."""

    lines: Annotated[int, msgspec.Meta(ge=1, le=LOG_LINES_MAX)]


class Log(Message, frozen=True, tag=True):
    """Master → agent, in response to LogRequest. `dropped`: the number of earlier lines that are left out."""

    name: Name
    lines: Annotated[list[Line], msgspec.Meta(max_length=LOG_LINES_MAX)]
    dropped: int = 0
