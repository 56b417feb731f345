"""Answers of the fleet that requests of clients wait for."""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from agent.control import messages as control
from agent.runtime.requests.notices import CoreEvent, Ended

ANSWER_TIMEOUT_S = 10.0
NOT_JOINED = "this agent has not joined its fleet yet: try again when its log says ready"
NO_ANSWER = "the fleet did not answer in time: is this agent cut off?"


@dataclass(eq=False, slots=True)
class PendingReply:
    """An answer of the fleet that somebody waits for. `is_abandoned`: nobody any more."""

    came: trio.Event = field(default_factory=trio.Event)
    notice: CoreEvent | None = None
    is_abandoned: bool = False

    def resolve(self, notice: CoreEvent) -> None:
        self.notice = notice
        self.came.set()


class JobEnd:
    """Why a job ended, once it has."""

    def __init__(self) -> None:
        self.said = trio.Event()
        self.notice: Ended | None = None

    def say(self, notice: Ended) -> None:
        self.notice = notice
        self.said.set()

    def answer(self) -> control.Ended | None:
        """What clients are told; None if there was no such job."""
        if self.notice is None:
            return control.Ended("lost")
        reason = self.notice.reason
        return None if reason == "unknown" else control.Ended(reason, self.notice.failure)
