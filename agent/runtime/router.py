"""Routes job messages to the services that handle them, unless they come by a way that is not allowed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from agent.runtime.messages.handlers import Handle, Handlers, Via
from agent.runtime.messages.jobs import CODEC
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.model.containment import JobContainment
from agent.runtime.model.fields import Message
from overlay import PAYLOAD_BYTES_MAX, Delivered, Id, MessageReceived, MulticastReceived, Requested, WireError

JobEvent = Delivered | Requested | MulticastReceived | MessageReceived
"""Brings a job message, by one of four ways."""
_WAYS = tuple(Via)


class Router:
    """Decodes each message once and calls its handlers in order until one takes it.

    `refused` counts messages that cannot be decoded, are unexpected, come from the wrong sender, or make a handler
    raise.
    """

    name = "router"

    def __init__(self, tables: Iterable[Handlers], containment: JobContainment) -> None:
        self.refused = 0
        self._containment = containment
        self._handlers: dict[tuple[type[Message], Via], list[Handle]] = defaultdict(list)
        for table in tables:
            for kind, handler in table.items():
                for via in _WAYS:
                    if handler.via & via:
                        self._handlers[kind, via].append(handler.handle)

    def receive(self, event: JobEvent, now: float) -> None:
        """Takes one job message, whichever way it came."""
        try:
            message = CODEC.decode(event.payload, PAYLOAD_BYTES_MAX)
        except WireError:
            self.refused += 1
            return
        taken = False
        with self._containment.around(message.app_id, now):
            taken = self._take(message, event, now)
        self.refused += not taken

    def _take(self, message: Message, event: JobEvent, now: float) -> bool:
        match event:
            case MulticastReceived(group=group):
                via = _group(message, group)
                return via is not None and self._call(message, via, now)
            case Delivered(key=key, origin=origin):
                return key == message.app_id and self._call(message, Via.ROUTED, origin, now)
            case Requested(key=key):
                return key == message.app_id and self._call(message, Via.REQUEST, event, now)
            case MessageReceived(sender=sender):
                return self._call(message, Via.DIRECT, sender, now)

    def _call(self, message: Message, via: Via, *arguments: object) -> bool:
        for handle in self._handlers.get((type(message), via), ()):  # noqa: SIM110 (a generator costs as much as a handler)
            if handle(message, *arguments) is not False:
                return True
        return False

    def statistics(self) -> Mapping[str, int]:
        return {"refused": self.refused}


def _group(message: Message, group: Id) -> Via | None:
    """Whether a group is that of all agents, the message's own job's, or neither."""
    if group == FLEET_GROUP:
        return Via.FLEET
    return Via.JOB if group == message.app_id else None
