"""Bounds the number and duration of inbound handshakes."""

from types import TracebackType
from typing import Self

import trio


class Slot:
    """One connection's slot: a scope that ends when its time is up or another connection takes its place."""

    def __init__(self, slots: "HandshakeSlots") -> None:
        self._slots = slots
        self.scope = trio.CancelScope()
        self.started = 0.0
        self.was_evicted = False

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
    """At most `places` connections for at most `stay_s` each.

    When all are taken, the oldest connection is evicted once it has had `safe_s`: honest peers are done by then. Until
    then, newcomers wait in the system's queue. So a hundred agents that dial at once are all served, one after the
    other, and strangers that stay silent cannot keep agents out.
    """

    def __init__(self, places: int, stay_s: float, safe_s: float) -> None:
        self.stay_s = stay_s
        self._places = places
        self._safe_s = safe_s
        self._slots_in_use: dict[Slot, None] = {}
        self._left = trio.Event()

    def __len__(self) -> int:
        return len(self._slots_in_use)

    async def wait_for_place(self) -> None:
        """Return when there is a free place; not a checkpoint when there is one already."""
        while len(self._slots_in_use) >= self._places:
            oldest = next(iter(self._slots_in_use))
            safe_for_s = oldest.started + self._safe_s - trio.current_time()
            if safe_for_s <= 0:
                oldest.was_evicted = True
                oldest.scope.cancel()
                self.leave(oldest)
                return
            self._left = trio.Event()
            with trio.move_on_after(safe_for_s):
                await self._left.wait()

    def take_place(self) -> Slot:
        """Return a slot that takes a place from now on; the task that serves the connection enters it."""
        slot = Slot(self)
        slot.started = trio.current_time()
        self._slots_in_use[slot] = None
        return slot

    def leave(self, slot: Slot) -> None:
        """Free the place."""
        self._slots_in_use.pop(slot, None)
        self._left.set()
