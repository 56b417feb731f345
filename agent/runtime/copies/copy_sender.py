"""Carries messages with copies of runs to other agents: a few at a time to each, again until they are acknowledged.

A message is made when its turn comes, since its runs may be published by then. A long one goes in parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial

from agent.runtime.function.spill import SpillArea
from agent.runtime.messages.copies import Copies, CopyAck, CopyPart, CopyPartAck, CopyResponse, GivenResponse
from agent.runtime.messages.jobs import CODEC
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.step_clock import StepClock
from agent.runtime.reduce.parts import OutgoingParts, RunAssembler, RunLimits
from agent.runtime.reduce.retransmit import BYTES_PER_S
from overlay import Id, Peer, WireError

ACK_TIMEOUT_S = 1.5
"""Least time before a message that is not acknowledged is sent again; doubles each time."""
TRIES_MAX = 3
"""Times that a message is sent before it is given up."""
SILENCE_MAX_S = 30.0
"""Time after which a message in parts is given up that has not come in full."""
IN_FLIGHT_BYTES = 2 << 20
"""Upper bound on the bytes on their way to one agent, but for one message: snapshots take the same links."""
WAITING_MAX = 4096
"""Upper bound on the messages that wait for their turn, to one agent."""
LIMITS = RunLimits(
    whole_bytes=1 << 20, part_bytes=1 << 18, window_parts=8, assembly_bytes=128 << 20, assembly_memory_bytes=32 << 20
)
"""The bounds on messages."""

CopyMessage = Copies | CopyResponse | GivenResponse
Make = Callable[[int], CopyMessage | None]
"""Makes the message with this number; None if there is nothing to send any more."""
Settled = Callable[[bool, float], None]
"""Is told at the end whether the message has been taken."""


@dataclass(slots=True)
class _OnItsWay:
    app_id: Id
    payload: bytes
    settled: Settled
    sent_at: float
    began_at: float
    tries: int = 1
    parts: OutgoingParts[CopyPart] | None = None

    def timeout_s(self) -> float:
        """Time to wait for the answer to the last try."""
        return ACK_TIMEOUT_S * (1 << self.tries >> 1) + len(self.payload) / BYTES_PER_S


@dataclass(slots=True)
class _Outbox:
    """The messages for one agent: those on their way, by number, and those that wait for their turn."""

    peer: Peer
    on_their_way: dict[int, _OnItsWay] = field(default_factory=dict)
    waiting: deque[tuple[Make, Settled]] = field(default_factory=deque)

    @property
    def has_room(self) -> bool:
        """Whether a further message may be sent."""
        used = sum(len(one.payload) for one in self.on_their_way.values())
        return used < IN_FLIGHT_BYTES


class CopySender:
    """The messages of one agent. `sent_bytes` counts all, `given_up` those that nobody has acknowledged, `overflowing`
    those for which there was no room."""

    def __init__(self, sender: MessageSender, clock: StepClock, area: SpillArea | None = None) -> None:
        self.sent = self.sent_bytes = self.given_up = self.overflowing = 0
        self._sender = sender
        self._clock = clock
        self._serial = 0
        self._outboxes: dict[int, _Outbox] = {}
        self.limits = LIMITS
        self.assembler = RunAssembler(area)
        self.assembler.limits = LIMITS

    @property
    def is_empty(self) -> bool:
        """Whether no message waits or is on its way."""
        return not self._outboxes

    def send(self, peer: Peer, make: Make, settled: Settled, now: float) -> None:
        """Sends a message once its turn comes."""
        outbox = self._outboxes.setdefault(peer.node_id, _Outbox(peer))
        if len(outbox.waiting) >= WAITING_MAX:
            self.overflowing += 1
            settled(False, now)
            return
        outbox.waiting.append((make, settled))
        self._send_waiting(outbox, now)

    def _send_waiting(self, outbox: _Outbox, now: float) -> None:
        while outbox.waiting and outbox.has_room:
            make, settled = outbox.waiting.popleft()
            # Numbers of an earlier process of this agent are lower: an answer to that one settles nothing here.
            self._serial = max(self._serial + 1, self._clock.ms << 10)
            message = make(self._serial)
            if message is not None:
                self._send(outbox, message, settled, now)
        if not outbox.waiting and not outbox.on_their_way:
            self._outboxes.pop(outbox.peer.node_id, None)

    def _send(self, outbox: _Outbox, message: CopyMessage, settled: Settled, now: float) -> None:
        payload = CODEC.encode(message)
        sent = outbox.on_their_way[message.serial] = _OnItsWay(message.app_id, payload, settled, now, now)
        self.sent += 1
        self.sent_bytes += len(payload)
        if len(payload) > self.limits.whole_bytes:
            sent.parts = OutgoingParts(payload, partial(CopyPart, message.app_id), self.limits)
            self._send_parts(outbox, sent.parts.due(now, sent.timeout_s()), now)
        else:
            self._sender.send_encoded(outbox.peer, payload, now)

    def _send_parts(self, outbox: _Outbox, parts: list[CopyPart], now: float) -> None:
        for part in parts:
            self._sender.send(outbox.peer, part, now)

    def acknowledged(self, message: CopyAck, sender: Peer, now: float) -> bool:
        """Notes that a message has come; False if none of that number was on its way."""
        outbox = self._outboxes.get(sender.node_id)
        sent = None if outbox is None else outbox.on_their_way.pop(message.serial, None)
        if outbox is None or sent is None or sent.app_id != message.app_id:
            return False
        sent.settled(message.held, now)
        self._send_waiting(outbox, now)
        return True

    def part_acknowledged(self, message: CopyPartAck, sender: Peer, now: float) -> bool:
        """Sends the parts that follow; False if no such message is on its way."""
        outbox = self._outboxes.get(sender.node_id)
        for sent in () if outbox is None else outbox.on_their_way.values():
            if outbox is not None and sent.parts is not None and sent.parts.digest == message.digest:
                self._send_parts(outbox, sent.parts.acknowledged(message.upto, now), now)
                self._send_parts(outbox, sent.parts.due(now, sent.timeout_s()), now)
                return True
        return False

    # Messages that come.

    def take_part(self, sender: Peer, part: CopyPart, now: float) -> CopyMessage | CopyPartAck | None:
        """Takes a part of a message; returns the message if it was the last, else the answer. None: it is refused."""
        arrived = self.assembler.add((sender.node_id, part.digest), part, now)
        if arrived is None or isinstance(arrived, int):
            return None if arrived is None else CopyPartAck(part.app_id, part.digest, arrived)
        try:
            message = CODEC.decode(arrived, self.limits.assembly_bytes)
        except WireError:
            return None
        return message if isinstance(message, CopyMessage) and message.app_id == part.app_id else None

    # Time.

    def forget(self, app_id: Id) -> None:
        """Drops what has come of a job's messages."""
        self.assembler.forget(app_id)

    def drop(self, keep: Callable[[Hashable], bool], now: float) -> None:
        """Gives up what is for agents that are not to be kept, by node id."""
        for node_id in [node_id for node_id in self._outboxes if not keep(node_id)]:
            outbox = self._outboxes.pop(node_id)
            for settled in [
                *(one.settled for one in outbox.on_their_way.values()),
                *(one for _, one in outbox.waiting),
            ]:
                settled(False, now)

    def tick(self, now: float) -> None:
        """Sends again what nobody has acknowledged, or gives it up."""
        self.assembler.expire(now)
        for outbox in list(self._outboxes.values()):
            for serial, sent in list(outbox.on_their_way.items()):
                if sent.parts is not None:
                    self._send_parts(outbox, sent.parts.due(now, sent.timeout_s()), now)
                    is_over = now - sent.began_at >= SILENCE_MAX_S
                else:
                    is_over = self._is_given_up(outbox, sent, now)
                if is_over:
                    del outbox.on_their_way[serial]
                    self.given_up += 1
                    sent.settled(False, now)
            self._send_waiting(outbox, now)

    def _is_given_up(self, outbox: _Outbox, sent: _OnItsWay, now: float) -> bool:
        if now - sent.sent_at < sent.timeout_s():
            return False
        if sent.tries >= TRIES_MAX:
            return True
        sent.tries, sent.sent_at = sent.tries + 1, now
        self.sent_bytes += len(sent.payload)
        self._sender.send_encoded(outbox.peer, sent.payload, now)
        return False
