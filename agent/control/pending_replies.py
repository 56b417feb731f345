"""Waits for answers of the fleet on behalf of clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import trio

from agent.control import messages as control

ANSWER_TIMEOUT_S = 10.0
NOT_JOINED = "this agent has not joined its fleet yet: try again when its log says ready"
NO_ANSWER = "the fleet did not answer in time: is this agent cut off?"


Reply = TypeVar("Reply")


@dataclass(eq=False, slots=True)
class PendingReply(Generic[Reply]):
    """An answer of the fleet for which a client waits; `reply` is None until it has come."""

    came: trio.Event = field(default_factory=trio.Event)
    reply: Reply | None = None

    def resolve(self, reply: Reply) -> None:
        self.reply = reply
        self.came.set()

    async def wait(self) -> Reply | None:
        """Returns the answer, or None after ANSWER_TIMEOUT_S."""
        with trio.move_on_after(ANSWER_TIMEOUT_S):
            await self.came.wait()
        return self.reply


class JobEnd:
    """The end of a job, once it has come."""

    def __init__(self) -> None:
        self.has_come = trio.Event()
        self._ended: control.Ended | None = None

    def set(self, ended: control.Ended) -> None:
        self._ended = ended
        self.has_come.set()

    def answer(self) -> control.Ended | None:
        """The last line for clients; None if there is no such job."""
        if self._ended is None:
            return control.Ended("lost")
        return None if self._ended.reason == "unknown" else self._ended
