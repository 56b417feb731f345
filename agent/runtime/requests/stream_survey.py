"""What a stream holds all over the fleet: every agent is asked, and those that have it look into their files.

The question is a multicast that is acknowledged: so the asker knows how many agents there are, and who of them has not
answered. It waits until all have, or for DEADLINE_S, and tells what has come by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.runtime.messages.descriptions import DescribeStream, StreamDescription
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.model.fields import Message
from agent.runtime.requests.notices import CoreEvent, StreamAsked, StreamSurveyed
from overlay import Id, MulticastAcknowledged, Peer

DEADLINE_S = 3.0
OPEN_MAX = 16
ANSWERS_MAX = 20_000


@dataclass(slots=True)
class _Open:
    """`received` and `missing`: who has the question and who may not have it; None: not known yet."""

    deadline: float
    message_id: int
    answers: dict[Id, StreamDescription] = field(default_factory=dict)
    received: frozenset[Id] | None = None
    missing: frozenset[Id] = frozenset()


class StreamDiscovery:
    """Of one agent: its own questions, and those of others."""

    def __init__(self, own: Peer, post: MessageSender, notices: list[CoreEvent]) -> None:
        self._own = own
        self._post = post
        self._notices = notices
        self._open: dict[int, _Open] = {}

    @property
    def is_empty(self) -> bool:
        return not self._open

    def ask(self, question: int, stream: str, now: float) -> None:
        """Asks all agents: `StreamSurveyed` follows, under the asker's number."""
        if len(self._open) >= OPEN_MAX:
            self._notices.append(StreamSurveyed(question, (), 0))
            return
        message = DescribeStream(FLEET_GROUP, self._own, question, stream)
        message_id = self._post.multicast_acknowledged(FLEET_GROUP, message, 0.8 * DEADLINE_S, now)
        self._open[question] = _Open(now + DEADLINE_S, message_id)

    def tell(self, asked: StreamAsked, seen: StreamDescription, now: float) -> None:
        """Answers another agent's question, or an own one."""
        self._post.send(asked.asker, seen, now)

    def hear(self, message: Message, sender: Peer | None) -> bool:
        """A question of anybody, or an answer; False for an answer that nobody waits for."""
        match message:
            case DescribeStream(asker=asker, question=question, stream=stream):
                self._notices.append(StreamAsked(asker, question, stream))
                return True
            case StreamDescription(question=question) if sender is not None:
                asked = self._open.get(question)
                if asked is None or len(asked.answers) >= ANSWERS_MAX:
                    return False
                asked.answers[sender.node_id] = message
                self._end_if_complete(question, asked)
                return True
        return False

    def acknowledged(self, event: MulticastAcknowledged) -> None:
        """Who has got a question."""
        for question, asked in list(self._open.items()):
            if asked.message_id == event.message_id:
                asked.received, asked.missing = event.received, event.missing
                self._end_if_complete(question, asked)

    def tick(self, now: float) -> None:
        """Waits no longer where it has been long enough."""
        for question, asked in list(self._open.items()):
            if now >= asked.deadline:
                self._end(question, asked)

    def _end_if_complete(self, question: int, asked: _Open) -> None:
        if asked.received is not None and not asked.missing and asked.received <= asked.answers.keys():
            self._end(question, asked)

    def _end(self, question: int, asked: _Open) -> None:
        del self._open[question]
        everyone = (asked.received or frozenset()) | asked.missing
        silent = len(everyone - asked.answers.keys())
        self._notices.append(StreamSurveyed(question, tuple(asked.answers.values()), silent))
