"""Reserves memory for long payloads that arrive in pieces, over all connections of a transport.

A long payload needs a reservation of its whole length before more of it is let in than every link may send anyway.
Reservations are granted first come, first served. So every granted payload can finish, and none waits for one that
waits itself. Memory is not reserved for nothing: while others wait, a payload slower than `SLOWEST_BYTES_S` gives way.
"""

from collections.abc import Callable

ROOM_BYTES = 256 << 20
SLOWEST_BYTES_S = 1 << 16
GRACE_S = 10.0


class Reservation:
    """One payload's reservation: it waits, is granted, then released. `admitted` is called when it is granted."""

    __slots__ = ("_admitted", "_budget", "has_room", "held", "since", "size")

    def __init__(self, budget: "AssemblyBudget", size: int, admitted: Callable[[], None]) -> None:
        self._budget = budget
        self._admitted = admitted
        self.size = size
        self.has_room = False
        self.since: float | None = None
        """Time when it was first seen granted."""
        self.held = 0
        """Bytes received of the payload; kept up to date by the owner."""

    def admit(self) -> None:
        """Grant the reservation."""
        self.has_room = True
        self._admitted()

    def leave(self) -> None:
        """Release the reservation, or stop waiting. Once."""
        self._budget.leave(self)


class AssemblyBudget:
    """Bounds the sum of all granted reservations; a payload longer than the bound is granted alone.

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
        """Number of reservations not granted yet."""
        return len(self._queue)

    def enter(self, size: int, admitted: Callable[[], None]) -> Reservation:
        """Return a new reservation, queued if there is no room. One per link, so the queue is bounded."""
        reservation = Reservation(self, size, admitted)
        self._queue[reservation] = None
        self._admit()
        return reservation

    def leave(self, reservation: Reservation) -> None:
        """Release a reservation; the next ones may be granted."""
        self._queue.pop(reservation, None)
        if reservation in self._granted:
            del self._granted[reservation]
            self.used -= reservation.size
        self._admit()

    def slow(self, now: float) -> list[Reservation]:
        """Return the granted reservations that are too slow while others wait. To be called periodically."""
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
