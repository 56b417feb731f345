"""Keeps the requests that this agent has routed over the overlay until they are answered or fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto

from agent.runtime.messages.jobs import CODEC
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.fields import Message
from overlay import PAYLOAD_BYTES_MAX, RequestFailed, Responded, WireError


class NoAnswer(Enum):
    """The reason why a request has no answer."""

    TIMED_OUT = auto()
    UNREADABLE = auto()


Continuation = Callable[[Message | NoAnswer, float], None]
"""Called once, with the answer or the reason why there is none, and the time."""


class PendingRequests:
    """A table of ticket → continuation. The overlay keeps the deadlines: each ticket is answered or fails in time."""

    name = "pending_requests"

    def __init__(self, sender: MessageSender) -> None:
        self._sender = sender
        self._pending: dict[int, Continuation] = {}

    def request(self, message: Message, timeout_s: float, then: Continuation, now: float) -> None:
        """Routes a request to the root of its job's tree."""
        self._pending[self._sender.request(message, timeout_s, now)] = then

    def resolve(self, event: Responded | RequestFailed, now: float) -> None:
        """Calls the continuation of the ticket that the overlay reports, if there is one."""
        then = self._pending.pop(event.ticket, None)
        if then is None:
            return
        if isinstance(event, RequestFailed):
            then(NoAnswer.TIMED_OUT, now)
            return
        try:
            answer: Message | NoAnswer = CODEC.decode(event.payload, PAYLOAD_BYTES_MAX)
        except WireError:
            answer = NoAnswer.UNREADABLE
        then(answer, now)

    def statistics(self) -> Mapping[str, int]:
        return {"pending": len(self._pending)}
