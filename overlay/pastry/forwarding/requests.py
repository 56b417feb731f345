"""Requests routed to a key, and their answers.

Theory. A request is a routed message that wants an answer. The node closest to its key answers directly to its origin.
Either message may get lost, so the origin routes the request again until its deadline, always under the same id. A node
that has seen the id does not apply the request again but repeats its answer, which is kept while there is room. Another
node that becomes the closest in between has not seen the id and answers as well; the origin takes the first answer.
"""

from dataclasses import dataclass

from overlay.core.events import Requested, RequestFailed, Responded
from overlay.core.outbox import Outbox
from overlay.core.random_source import RandomSource, jittered
from overlay.pastry.membership.membership import Membership
from overlay.wire.messages import Response, Route
from overlay.wire.peer import Peer

REQUESTS_OPEN_MAX = 1024
REPEAT_S = 1.0
ANSWERS_MAX = 1024
ANSWERS_BYTES_MAX = 4 << 20


@dataclass(slots=True)
class _Open:
    """An open request of this node."""

    message: Route
    timeout_s: float
    deadline: float
    repeat_at: float


class Answers:
    """Recent requests, by origin and id, with their answers: None while the owner has not answered yet.

    The oldest are evicted. An answer larger than the whole bound is not kept.

    >>> answers = Answers(bytes_max=3)
    >>> answers.expect(1, 7), answers.expect(1, 7), answers.find(1, 7)
    (True, False, None)
    >>> answers.keep(1, 7, b"yes"); answers.find(1, 7)
    b'yes'
    >>> answers.keep(1, 8, b"no"); answers.find(1, 7), answers.find(1, 8)
    (None, b'no')
    """

    def __init__(self, count_max: int = ANSWERS_MAX, bytes_max: int = ANSWERS_BYTES_MAX) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._answers: dict[tuple[int, int], bytes | None] = {}
        self._bytes = 0

    def expect(self, origin: int, message_id: int) -> bool:
        """Note a request's arrival; return whether it is new."""
        if (origin, message_id) in self._answers:
            return False
        self._answers[origin, message_id] = None
        self._make_room()
        return True

    def keep(self, origin: int, message_id: int, payload: bytes) -> None:
        """Keep the answer to a request, to repeat it."""
        self._bytes -= len(self._answers.pop((origin, message_id), None) or b"")
        self._answers[origin, message_id] = payload
        self._bytes += len(payload)
        self._make_room()

    def find(self, origin: int, message_id: int) -> bytes | None:
        """Return the answer given to a request."""
        return self._answers.get((origin, message_id))

    def _make_room(self) -> None:
        while len(self._answers) > self._count_max or self._bytes > self._bytes_max:
            self._bytes -= len(self._answers.pop(next(iter(self._answers))) or b"")

    def clear(self) -> None:
        """Forget all answers."""
        self._answers.clear()
        self._bytes = 0

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._answers) <= self._count_max
        assert self._bytes == sum(len(payload or b"") for payload in self._answers.values()) <= self._bytes_max


class RequestTable:
    """Open requests of one node, and requests it has answered."""

    def __init__(self, membership: Membership, outbox: Outbox, random: RandomSource) -> None:
        self._membership = membership
        self._outbox = outbox
        self._random = random
        self._open: dict[int, _Open] = {}
        self._answers = Answers()
        self._due: float | None = None

    def open(self, message: Route, timeout_s: float, now: float) -> bool:
        """Open a request that is about to be routed; return whether there is room for it."""
        if len(self._open) >= REQUESTS_OPEN_MAX:
            self._outbox.emit(RequestFailed(message.message_id, f"{REQUESTS_OPEN_MAX} requests are open already"))
            return False
        repeat_at = now + jittered(REPEAT_S, self._random)
        self._open[message.message_id] = _Open(message, timeout_s, now + timeout_s, repeat_at)
        self._find_due()
        return True

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due."""
        return self._due

    def handle_timer(self, now: float) -> list[Route]:
        """Fail requests whose deadline has passed; return those to be routed again."""
        if self._due is None or now < self._due:
            return []
        again = []
        for message_id, request in list(self._open.items()):
            if now >= request.deadline:
                del self._open[message_id]
                self._outbox.emit(RequestFailed(message_id, f"no answer within {request.timeout_s:g} s"))
            elif now >= request.repeat_at:
                request.repeat_at = now + jittered(REPEAT_S, self._random)
                # A request made before the node was active is held, and is routed as soon as it is active.
                again += [request.message] if self._membership.is_active else []
        self._find_due()
        return again

    def arrived(self, message: Route) -> None:
        """Have the owner answer a request that has reached the closest node, or repeat the owner's answer."""
        origin_id = message.origin.node_id
        if self._answers.expect(origin_id, message.message_id):
            self._outbox.counters.delivered += 1
            self._outbox.counters.delivered_hops += message.hops
            self._outbox.emit(Requested(message.key, message.payload, message.origin, message.message_id))
            return
        self._outbox.counters.duplicates += 1
        answer = self._answers.find(origin_id, message.message_id)
        if answer is not None:
            self._send(message.origin, message.message_id, answer)

    def respond(self, origin: Peer, ticket: int, payload: bytes) -> None:
        """Send an answer to the origin of a request."""
        self._answers.keep(origin.node_id, ticket, payload)
        self._send(origin, ticket, payload)

    def _send(self, origin: Peer, ticket: int, payload: bytes) -> None:
        response = Response(ticket=ticket, payload=payload)
        if origin.node_id == self._membership.peer.node_id:
            self.handle_response(self._membership.peer, response, 0.0)
        else:
            self._outbox.send(origin, response)

    def handle_response(self, sender: Peer, message: Response, _now: float) -> None:
        """Hand the first answer to the owner."""
        if self._open.pop(message.ticket, None) is None:
            self._outbox.counters.duplicates += 1
            return
        self._find_due()
        self._outbox.emit(Responded(message.ticket, message.payload, sender))

    def clear(self) -> None:
        """Fail every request: the node is leaving."""
        for ticket in self._open:
            self._outbox.emit(RequestFailed(ticket, "this node has left the overlay"))
        self._open.clear()
        self._answers.clear()
        self._due = None

    def _find_due(self) -> None:
        times = (min(request.deadline, request.repeat_at) for request in self._open.values())
        self._due = min(times, default=None)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._open) <= REQUESTS_OPEN_MAX
        assert (self._due is None) == (not self._open)
        self._answers.check()
