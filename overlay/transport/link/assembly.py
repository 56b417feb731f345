"""Room for long payloads that come in piece by piece, over all connections of a transport.

A long payload needs room for the whole of itself before more of it is let in than every link may send anyway. Who
finds none waits, first come, first served. So whoever has room can finish, and nobody waits for somebody who waits.
Room is not held for nothing: while others wait, who is slower than `SLOWEST_BYTES_S` gives way.
"""

from collections.abc import Callable

ROOM_BYTES = 256 << 20
SLOWEST_BYTES_S = 1 << 16
GRACE_S = 10.0


class Reservation:
    """One payload's place: it waits, then has room, then leaves. `admitted` is called when it gets room later."""

    __slots__ = ("_admitted", "_budget", "has_room", "held", "since", "size")

    def __init__(self, budget: "AssemblyBudget", size: int, admitted: Callable[[], None]) -> None:
        self._budget = budget
        self._admitted = admitted
        self.size = size
        self.has_room = False
        self.since: float | None = None
        """When it was first seen to have room."""
        self.held = 0
        """How much of the payload has come; the owner keeps it right."""

    def admit(self) -> None:
        """Take the room."""
        self.has_room = True
        self._admitted()

    def leave(self) -> None:
        """Give room or turn back. Once."""
        self._budget.leave(self)


class AssemblyBudget:
    """Bounds what all places have together; one payload longer than everything has it alone.

    >>> budget = AssemblyBudget(100)
    >>> first, second = budget.enter(80, lambda: None), budget.enter(30, lambda: print("admitted"))
    >>> first.has_room, second.has_room
    (True, False)
    >>> first.leave()
    admitted
    """

    def __init__(self, bytes_max: int = ROOM_BYTES) -> None:
        self._bytes_max = bytes_max
        self._granted: dict[Reservation, None] = {}
        self._queue: dict[Reservation, None] = {}
        self.used = 0

    @property
    def waiting(self) -> int:
        """How many have no room yet."""
        return len(self._queue)

    def enter(self, size: int, admitted: Callable[[], None]) -> Reservation:
        """Return a new reservation, at the end of the queue when there is no room. One a link, so the queue is
        bounded.
        """
        reservation = Reservation(self, size, admitted)
        self._queue[reservation] = None
        self._admit()
        return reservation

    def leave(self, reservation: Reservation) -> None:
        """Forget a place; those after it may get room."""
        self._queue.pop(reservation, None)
        if reservation in self._granted:
            del self._granted[reservation]
            self.used -= reservation.size
        self._admit()

    def slow(self, now: float) -> list[Reservation]:
        """Return those that are too slow while others wait. To be asked now and then."""
        for reservation in self._granted:
            if reservation.since is None:
                reservation.since = now
        if not self._queue:
            return []
        return [reservation for reservation in self._granted if reservation.held < self._expected(reservation, now)]

    def _expected(self, reservation: Reservation, now: float) -> float:
        assert reservation.since is not None
        return (now - reservation.since - GRACE_S) * SLOWEST_BYTES_S

    def _admit(self) -> None:
        while self._queue:
            reservation = next(iter(self._queue))
            if self._granted and self.used + reservation.size > self._bytes_max:
                return
            del self._queue[reservation]
            self._granted[reservation] = None
            self.used += reservation.size
            reservation.admit()
