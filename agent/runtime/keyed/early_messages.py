"""Keeps messages about elements that come before their job has begun on this agent, for a moment and within limits."""

from __future__ import annotations

from typing import Any

from agent.runtime.model.fields import Message
from overlay import Id

MESSAGES_MAX, BYTES_MAX = 256, 8 << 20
"""Upper bounds on what is kept; further messages are refused: senders of what is guaranteed repeat it."""
KEPT_S = 10.0


class EarlyMessages:
    """The messages of one agent's jobs in the order in which they came, each with the way that it came by."""

    def __init__(self) -> None:
        self._held: dict[Id, list[tuple[Message, tuple[Any, ...]]]] = {}
        self._until: dict[Id, float] = {}
        self._messages = self._bytes = 0

    def __len__(self) -> int:
        return self._messages

    def hold(self, message: Message, about: tuple[Any, ...]) -> bool:
        """Keeps a message; False if there is no room for it."""
        size = _size(message)
        if self._messages >= MESSAGES_MAX or self._bytes + size > BYTES_MAX:
            return False
        self._held.setdefault(message.app_id, []).append((message, about))
        self._messages, self._bytes = self._messages + 1, self._bytes + size
        return True

    def take(self, app_id: Id) -> list[tuple[Message, tuple[Any, ...]]]:
        """Hands out what was kept for a job, once."""
        self._until.pop(app_id, None)
        found = self._held.pop(app_id, [])
        self._messages -= len(found)
        self._bytes -= sum(_size(message) for message, _ in found)
        return found

    def drop(self, app_id: Id) -> None:
        """Forgets what was kept for a job."""
        self.take(app_id)

    def expire(self, now: float) -> None:
        """Forgets what was kept for too long."""
        for app_id in self._held:
            self._until.setdefault(app_id, now + KEPT_S)
        for app_id in [app_id for app_id, until in self._until.items() if now >= until]:
            self.take(app_id)


def _size(message: Message) -> int:
    """The bytes of a message's rows and states."""
    fields = (getattr(message, name) for name in message.__struct_fields__)
    size = 0
    for value in fields:
        if isinstance(value, bytes):
            size += len(value)
        elif isinstance(value, list):
            size += sum(len(part) for one in value if isinstance(one, tuple) for part in one if isinstance(part, bytes))
    return size
