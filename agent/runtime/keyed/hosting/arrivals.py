"""Puts numbered messages from one agent in order, and tells which of them have been lost on their way."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

AHEAD_MAX = 64
"""Messages beyond a gap that are held; those further on are lacking when their turn comes."""
ASK_AGAIN_S = 1.0
"""Time after which a sender may be asked again for what it has been asked for."""


class Arrivals(Generic[T]):
    """The messages of one session. `next`: the number of the next one to be taken.

    What one agent sends to another arrives in order, or not at all: so whatever is lacking before one that has come is
    lost, and has to be sent again. It is asked for once, and again where the sender still asks how far this agent is.
    """

    def __init__(self) -> None:
        self.next = 0
        self._ahead: dict[int, T] = {}
        self._beyond = self._asked = 0
        self._asked_at = 0.0

    def put(self, number: int, message: T) -> None:
        """A message has come."""
        if number >= self.next + AHEAD_MAX:
            self._beyond = max(self._beyond, number + 1)
        elif number >= self.next:
            self._ahead.setdefault(number, message)

    @property
    def first(self) -> T | None:
        """The next message, if it has come."""
        return self._ahead.get(self.next)

    def drop(self) -> None:
        """The next message is of no use; it is lacking still."""
        self._ahead.pop(self.next, None)

    def skip(self, number: int) -> None:
        """Messages before this one are not waited for."""
        self.next = number

    def took(self) -> None:
        """The next message has been dealt with."""
        self._ahead.pop(self.next, None)
        self.next += 1

    def lost_before(self, now: float, sent: int = 0) -> int:
        """The number up to which messages, from the next one on, are to be asked for; 0 for none.

        `sent`: the sender says that it has sent all before this number, and has heard nothing for long.
        """
        end = min(self._ahead) if self._ahead else max(sent, self._beyond)
        if end <= self.next or (end <= self._asked and not (sent and now >= self._asked_at + ASK_AGAIN_S)):
            return 0
        self._asked, self._asked_at = end, now
        return end
