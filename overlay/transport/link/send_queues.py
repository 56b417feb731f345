"""Queues of payloads to send: for each peer a bounded queue per stream, with a bound on all of them together."""

from collections import deque

from overlay.transport.link.framing import HEADER, URGENT_BYTES_MAX

MESSAGES_MAX = 8192
BYTES_MAX = 64 << 20
ALL_BYTES_MAX = 256 << 20
OWN_BYTES = 1 << 20
"""Bytes a queue may hold however full the others are: a peer that does not read takes nothing from those that do."""


class QueueBudget:
    """Bytes in all queues of a transport, and their bound."""

    __slots__ = ("bytes_max", "used")

    def __init__(self, bytes_max: int = ALL_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used = 0


class SendQueue:
    """A first-in, first-out queue of payloads for one peer, bounded in messages and in bytes.

    Beyond a bound a new payload is refused. An empty queue accepts a payload over its own bound, or long payloads could
    never be sent.

    >>> queue = SendQueue(QueueBudget(), bytes_max=80)
    >>> queue.append(b"x" * 90), queue.append(b"y"), len(queue.popleft()), queue.append(b"y")
    (True, False, 90, True)
    """

    __slots__ = ("_budget", "_bytes_max", "_messages_max", "_payloads", "byte_count")

    def __init__(self, budget: QueueBudget, messages_max: int = MESSAGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._budget = budget
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._payloads: deque[bytes] = deque()
        self.byte_count = 0

    def append(self, payload: bytes) -> bool:
        """Add a payload; False when it does not fit. O(1)."""
        size = len(payload) + HEADER.size
        after = self.byte_count + size
        if len(self._payloads) >= self._messages_max or (self._payloads and after > self._bytes_max):
            return False
        if after > OWN_BYTES and self._budget.used + size > self._budget.bytes_max:
            return False
        self._payloads.append(payload)
        self.byte_count += size
        self._budget.used += size
        return True

    @property
    def oldest(self) -> bytes:
        """The oldest payload; IndexError when there is none."""
        return self._payloads[0]

    def popleft(self) -> bytes:
        """Remove and return the oldest payload; IndexError when there is none. O(1)."""
        payload = self._payloads.popleft()
        self.byte_count -= len(payload) + HEADER.size
        self._budget.used -= len(payload) + HEADER.size
        return payload

    def clear(self) -> int:
        """Drop everything; return the number of payloads."""
        count = len(self._payloads)
        self._payloads.clear()
        self._budget.used -= self.byte_count
        self.byte_count = 0
        return count

    def __len__(self) -> int:
        return len(self._payloads)


class SendQueues:
    """One peer's queues: short and long messages apart, so that neither keeps the other out.

    Short messages that must keep their order relative to long ones go into the long ones' queue.
    """

    __slots__ = ("bulk", "urgent")

    def __init__(self, budget: QueueBudget, messages_max: int = MESSAGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self.urgent = SendQueue(budget, messages_max, bytes_max)
        self.bulk = SendQueue(budget, messages_max, bytes_max)

    def append(self, payload: bytes, *, in_order: bool = False) -> bool:
        """Add a payload to the queue of its stream; False when it does not fit."""
        return (self.bulk if in_order or len(payload) > URGENT_BYTES_MAX else self.urgent).append(payload)

    def clear(self) -> int:
        """Drop everything; return the number of payloads."""
        return self.urgent.clear() + self.bulk.clear()

    def __bool__(self) -> bool:
        return bool(self.urgent) or bool(self.bulk)
