"""Sends job messages through the agent's overlay node, up to the size that the overlay carries."""

from __future__ import annotations

from collections.abc import Iterable

from agent.runtime.messages.jobs import CODEC
from agent.runtime.model.fields import Message
from overlay import PAYLOAD_BYTES_MAX, Node, Peer, Requested, group_id

FLEET_GROUP = group_id("fleet")
"""The group of all agents, in which masters announce their jobs."""


class MessageSender:
    """Encodes and sends. `oversized` counts messages that were too large to be sent."""

    def __init__(self, node: Node) -> None:
        self.oversized = 0
        self._node = node

    def send(self, peer: Peer, message: Message, now: float) -> None:
        """Sends to one agent, which may be this one."""
        self.send_all((peer,), message, now)

    def send_all(self, peers: Iterable[Peer], message: Message, now: float) -> None:
        """Sends to several agents; encodes the message once."""
        payload = self._payload(message)
        if payload is not None:
            for peer in peers:
                self._node.send(peer, payload, now)

    def send_encoded(self, peer: Peer, payload: bytes, now: float) -> None:
        """Sends a message to one agent that is encoded already."""
        self._node.send(peer, payload, now)

    def route(self, message: Message, now: float) -> None:
        """Sends to the root of the job's tree."""
        if (payload := self._payload(message)) is not None:
            self._node.route(message.app_id, payload, now)

    def request(self, message: Message, timeout_s: float, now: float) -> int:
        """Sends a small message to the root of the job's tree; returns the ticket of its response."""
        return self._node.request(message.app_id, CODEC.encode(message), timeout_s, now)

    def respond(self, requested: Requested, message: Message, now: float) -> None:
        """Responds to a request."""
        if (payload := self._payload(message)) is not None:
            self._node.respond(requested, payload, now)

    def multicast(self, group: int, message: Message, now: float) -> None:
        """Sends to every member of a group."""
        if (payload := self._payload(message)) is not None:
            self._node.multicast(group, payload, now)

    def multicast_acknowledged(self, group: int, message: Message, timeout_s: float, now: float) -> int:
        """Sends a small message to every member of a group; returns its id in the `MulticastAcknowledged` to come."""
        return self._node.multicast(group, CODEC.encode(message), now, acknowledged=True, timeout_s=timeout_s)

    def _payload(self, message: Message) -> bytes | None:
        payload = CODEC.encode(message)
        if len(payload) > PAYLOAD_BYTES_MAX:
            self.oversized += 1
            return None
        return payload
