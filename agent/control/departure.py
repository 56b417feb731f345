"""Decides when and how an agent leaves: a signal leaves it little time, `elf drain` what it asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from agent.runtime.drain import Drain, Remainder

TOLD_TIMEOUT_S = 1.0
"""Upper bound on the time until the client that asked has the last answer."""


class Departure:
    """The one departure of an agent. `is_whole` says, once it is over, whether everything was handed over."""

    def __init__(self, drain: Drain) -> None:
        self.is_whole = False
        self._drain = drain
        self._deadline = 0.0
        self._scope = trio.CancelScope()
        self._asked = trio.Event()
        self._over = trio.Event()
        self._told = trio.Event()
        self._askers = 0

    @property
    def remainder(self) -> Remainder:
        """The rest that is still to be handed over."""
        return self._drain.remainder

    def begin(self, patience_s: float) -> None:
        """Asks the agent to leave. If that was asked before, the longest patience counts."""
        self._scope.deadline = max(self._deadline, trio.current_time() + patience_s)
        self._deadline = self._scope.deadline
        self._asked.set()

    async def asked(self) -> None:
        """Waits until somebody wants the agent to leave."""
        await self._asked.wait()

    async def handed_over(self, until: Callable[[Callable[[], bool]], Awaitable[None]]) -> bool:
        """Waits until everything is handed over, or patience is at its end; `until` waits for a condition."""
        with self._scope:
            await until(lambda: self._drain.is_complete)
        return not self._scope.cancelled_caught

    async def over(self) -> bool:
        """Waits for the end of the departure, after which the caller says `told`; returns `is_whole`."""
        self._askers += 1
        await self._over.wait()
        return self.is_whole

    def told(self) -> None:
        """One of those who wait for the end has heard of it."""
        self._askers -= 1
        if self._askers == 0:
            self._told.set()

    async def end(self, *, is_whole: bool) -> None:
        """Ends the departure; returns when those who wait for that have heard of it."""
        self.is_whole = is_whole
        self._over.set()
        if self._askers:
            with trio.move_on_after(TOLD_TIMEOUT_S):
                await self._told.wait()
