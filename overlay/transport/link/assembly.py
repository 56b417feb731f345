"""Room for long payloads that come in piece by piece, over all connections of a transport.

A long payload needs room for the whole of itself before more of it is let in than every link may send anyway. Who
finds none waits, first come, first served. So whoever has room can finish, and nobody waits for somebody who waits.
Room is not held for nothing: while others wait, who is slower than `SLOWEST_BYTES_S` gives way.
"""

from collections.abc import Callable

ROOM_BYTES = 256 << 20
SLOWEST_BYTES_S = 1 << 16
GRACE_S = 10.0


class Place:
    """One payload's place: it waits, then has room, then leaves. `admitted` is called when it gets room later."""

    __slots__ = ("_admitted", "_room", "has_room", "held", "since", "size")

    def __init__(self, room: "Room", size: int, admitted: Callable[[], None]) -> None:
        self._room = room
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
        self._room.leave(self)


class Room:
    """Bounds what all places have together; one payload longer than everything has it alone.

    >>> room = Room(100)
    >>> first, second = room.enter(80, lambda: None), room.enter(30, lambda: print("admitted"))
    >>> first.has_room, second.has_room
    (True, False)
    >>> first.leave()
    admitted
    """

    def __init__(self, bytes_max: int = ROOM_BYTES) -> None:
        self._bytes_max = bytes_max
        self._places: dict[Place, None] = {}
        self._queue: dict[Place, None] = {}
        self.used = 0

    @property
    def waiting(self) -> int:
        """How many have no room yet."""
        return len(self._queue)

    def enter(self, size: int, admitted: Callable[[], None]) -> Place:
        """Return a new place, at the end of the queue when there is no room. One a link, so the queue is bounded."""
        place = Place(self, size, admitted)
        self._queue[place] = None
        self._admit()
        return place

    def leave(self, place: Place) -> None:
        """Forget a place; those after it may get room."""
        self._queue.pop(place, None)
        if place in self._places:
            del self._places[place]
            self.used -= place.size
        self._admit()

    def slow(self, now: float) -> list[Place]:
        """Return those that are too slow while others wait. To be asked now and then."""
        for place in self._places:
            if place.since is None:
                place.since = now
        if not self._queue:
            return []
        return [place for place in self._places if place.held < self._expected(place, now)]

    def _expected(self, place: Place, now: float) -> float:
        assert place.since is not None
        return (now - place.since - GRACE_S) * SLOWEST_BYTES_S

    def _admit(self) -> None:
        while self._queue:
            place = next(iter(self._queue))
            if self._places and self.used + place.size > self._bytes_max:
                return
            del self._queue[place]
            self._places[place] = None
            self.used += place.size
            place.admit()
