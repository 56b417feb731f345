"""Tells the service manager in which part of its life the agent is, and that its core makes progress.

The watchdog is fed by the core itself: a beat is an action that the driver carries out between two messages, and it
is not sent while a timer of the core is overdue. So a loop that stands still, a core that is busy for ever, and
timers that nobody handles all end with a restart.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import trio

from agent.driver import CoreDriver
from agent.service_manager.notify_socket import NotifySocket

READY_PATIENCE_S = 15.0
"""Time after which an agent that no seed lets in counts as started: it goes on trying, and whoever started it should
not wait for that."""
STATUS_S = 5.0
"""Interval between two looks at the status; it is sent if it has changed."""
BEATS = 4
"""Beats in the interval of the watchdog: one that is late does no harm."""


class LifeSigns:
    """The notices of one agent. `describe` says in a few words what the agent does."""

    def __init__(self, to: NotifySocket, driver: CoreDriver, describe: Callable[[], str]) -> None:
        self._to = to
        self._driver = driver
        self._describe = describe
        self._is_ready = False
        self._is_leaving = False
        self._said = ""

    async def run(self) -> None:
        """Beats until it is cancelled, by which time everything is said."""
        if not self._to.is_listened_to:
            return
        try:
            await self._beat_again_and_again()
        finally:
            self._to.close()

    async def _beat_again_and_again(self) -> None:
        interval_s = min(STATUS_S, (self._to.watchdog_s or math.inf) / BEATS)
        patient_until = trio.current_time() + READY_PATIENCE_S
        while True:
            self._driver.do(self._beat)
            if trio.current_time() >= patient_until:
                self.ready()
            await trio.sleep(interval_s)

    def ready(self) -> None:
        """The agent is in the fleet, or has done what it can for that."""
        if not self._is_ready:
            self._is_ready = True
            self._to.send(READY=1)
            self._say_status()

    def reloading(self) -> None:
        """The agent reads its configuration again; `reloaded` ends that."""
        self._to.send(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)

    def reloaded(self, outcome: str) -> None:
        """The agent works on; `outcome` is one line on what has become of the new configuration."""
        self._to.send(READY=1, STATUS=outcome)
        self._said = outcome

    def leaving(self, text: str) -> None:
        """The agent leaves the fleet and will end."""
        self._is_leaving = True
        self._to.send(STOPPING=1, STATUS=text)

    def _beat(self, now: float) -> None:
        overdue_s = self._driver.overdue_s(now)
        if self._to.watchdog_s is not None and overdue_s < self._to.watchdog_s / BEATS:
            self._to.send(WATCHDOG=1)
        self._say_status()

    def _say_status(self) -> None:
        if not self._is_leaving and (text := self._describe()) != self._said:
            self._said = text
            self._to.send(STATUS=text)
