"""Where inbound connections stay until they have said who they are: a few at a time, and none for long."""

from types import TracebackType
from typing import Self

import trio


class Stay:
    """One connection's stay: a scope that ends it when its time is up or its place is needed."""

    def __init__(self, slots: "HandshakeSlots") -> None:
        self._slots = slots
        self.scope = trio.CancelScope()
        self.started = 0.0
        self.was_displaced = False

    def __enter__(self) -> Self:
        self.started = trio.current_time()
        self.scope.deadline = self.started + self._slots.stay_s
        self.scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._slots.leave(self)
        return self.scope.__exit__(kind, error, traceback)


class HandshakeSlots:
    """Holds at most `places` connections for at most `stay_s` each.

    When it is full, whoever has been there for `safe_s` gives way: honest peers are done by then. While none has,
    newcomers wait in the system's queue. So a hundred agents that dial at once are all served, one after the other,
    and strangers that say nothing cannot keep agents out.
    """

    def __init__(self, places: int, stay_s: float, safe_s: float) -> None:
        self.stay_s = stay_s
        self._places = places
        self._safe_s = safe_s
        self._stays: dict[Stay, None] = {}
        self._left = trio.Event()

    def __len__(self) -> int:
        return len(self._stays)

    async def wait_for_place(self) -> None:
        """Return when there is a place; not a checkpoint when there is one already."""
        while len(self._stays) >= self._places:
            oldest = next(iter(self._stays))
            safe_for_s = oldest.started + self._safe_s - trio.current_time()
            if safe_for_s <= 0:
                oldest.was_displaced = True
                oldest.scope.cancel()
                self.leave(oldest)
                return
            self._left = trio.Event()
            with trio.move_on_after(safe_for_s):
                await self._left.wait()

    def take_place(self) -> Stay:
        """Return a stay that holds a place from now on; it is entered by the task that serves the connection."""
        stay = Stay(self)
        stay.started = trio.current_time()
        self._stays[stay] = None
        return stay

    def leave(self, stay: Stay) -> None:
        """Give the place back."""
        self._stays.pop(stay, None)
        self._left.set()
