"""Drives the agent's core: carries messages and events between transport, core and clients, and keeps timers.

All calls are synchronous and end with the core at rest: events are processed, messages handed to the transport. A call
made during another (a transport may report a peer in the middle of `send`) waits for its end. If the core raises, its
state cannot be trusted any more, and the agent ends.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import polars as pl
import trio

from agent import log
from agent.clocks import wall_at
from agent.programs.commands import ProgramCommand
from agent.turns import Turns
from overlay import Node, Peer

Action = Callable[[float], object]
BUSY_GRID_S, IDLE_GRID_S = 0.01, 0.2
"""Grid on the wall clock at which timers are handled, busy and idle. Timers close to each other cost one wake-up, and
idle agents probe each other at the same moments: a few wake-ups a second, not a dozen."""
STUCK_TIMER_S, STUCK_TIMES = 0.05, 5
"""Shortest interval between two wake-ups for a timer that is always due: so many times in a row, it was due again at
once."""
SUSPENDED_S = 3.0
"""Gain of the wall clock on the clock of timers from which the machine was suspended, or its clock set: the node then
asks its neighbours what it has missed, which costs little if it missed nothing."""


class DrivenCore(Protocol):
    """The calls a driver makes of the agent's core; see `agent.Agent`."""

    def process_events(self, now: float, wall_ms: int) -> bool: ...
    def work(self, now: float, wall_ms: int) -> bool: ...
    @property
    def has_work(self) -> bool: ...
    def orders(self) -> list[ProgramCommand]: ...
    def next_timer(self) -> float | None: ...
    def handle_timer(self, now: float, wall_ms: int) -> None: ...


def on_grid(due: float, grid_s: float, wall_ms: int) -> float:
    """The first time from `due` on (of trio's clock) at which the wall clock, now at `wall_ms`, is on a grid."""
    wall_s = wall_ms / 1000 - trio.current_time()
    return math.ceil((due + wall_s) / grid_s) * grid_s - wall_s


class CoreDriver:
    """Drives the core of one agent; it is the transport's `Receiver`.

    `send` takes messages to peers, `order` commands for programs; `settled` is called after each
    step. While `is_idle`, timers may be late by `IDLE_GRID_S`.
    """

    def __init__(
        self,
        node: Node,
        core: DrivenCore,
        *,
        wall_ms: Callable[[], int],
        send: Callable[[Peer, bytes], None],
        order: Callable[[ProgramCommand], None],
        is_idle: Callable[[], bool] = lambda: False,
        settled: Callable[[], None] = lambda: None,
    ) -> None:
        self.node = node
        self.core = core
        self.failure: BaseException | None = None
        self.failed = trio.Event()
        self._wall_ms = wall_ms
        self._send = send
        self._order = order
        self._is_idle = is_idle
        self._settled = settled
        self._waiting: deque[Action] = deque()
        self._busy = False
        self._timer = trio.CancelScope()
        self._timer_at = math.inf
        self._wall_lead_s = math.inf
        self._work = trio.Event()
        self._awaited: list[tuple[Callable[[], bool], trio.Event]] = []

    # Calls of the transport.

    def received(self, peer: Peer, data: bytes) -> None:
        self.do(partial(self.node.receive, peer, data))

    def unreachable(self, peer: Peer, reason: str) -> None:
        log.debug("peer unreachable", peer=peer.address, reason=reason)
        self.do(partial(self.node.unreachable, peer))

    def disconnected(self, peer: Peer) -> None:
        self.do(partial(self.node.disconnected, peer))

    def restarted(self, peer: Peer) -> None:
        self.do(partial(self.node.restarted, peer))

    # Calls of all parts.

    def do(self, action: Action) -> None:
        """Calls `action(now)`, which may change node and agent, and carries out what results. Never raises."""
        self._waiting.append(action)
        if self._busy or self.failure is not None:
            return
        self._busy = True
        try:
            self._notice_suspension()
            while self._waiting:
                self._waiting.popleft()(trio.current_time())
                self._carry()
            self._set_timer()
            self._tell_waiting()
            self._settled()
        except (Exception, pl.exceptions.PanicException) as error:
            self.fail(error)
        finally:
            self._busy = False

    def _notice_suspension(self) -> None:
        """Notices that the machine was suspended: the clock of timers stands still, the wall clock does not."""
        now = trio.current_time()
        lead_s = self._wall_ms() / 1000 - now
        if lead_s > self._wall_lead_s + SUSPENDED_S:
            self.node.stood_still(now)
        self._wall_lead_s = lead_s

    def wall_at(self, now: float) -> int:
        """The wall clock (epoch ms) at a time of trio's clock."""
        return wall_at(now, trio.current_time, self._wall_ms)

    def overdue_s(self, now: float) -> float:
        """The time for which a timer has been due without being handled: 0 where the loop keeps up."""
        return max(0.0, now - self._timer_at)

    def settle(self) -> None:
        """Carries out what resulted from calls made on the agent directly."""
        self.do(lambda _now: None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition on the core to hold."""
        if not condition():
            came = trio.Event()
            entry = (condition, came)
            self._awaited.append(entry)
            try:
                await came.wait()
            finally:
                self._awaited.remove(entry)

    def _tell_waiting(self) -> None:
        for condition, came in self._awaited:
            if condition():
                came.set()

    def fail(self, error: BaseException, *, part: str = "core") -> None:
        """The agent cannot go on: says so, and calls the core no more."""
        if self.failure is None:
            self.failure = error
            self.failed.set()
            log.failed("agent failed", error, part=part)

    def _carry(self) -> None:
        now = trio.current_time()
        self.core.process_events(now, self.wall_at(now))
        if self.core.has_work:
            self._work.set()
        for peer, data in self.node.messages_to_send():
            self._send(peer, data)
        for order in self.core.orders():
            self._order(order)

    # Tasks.

    async def run_timers(self) -> None:
        """Calls the core when it asked to be called."""
        self._set_timer()
        times = 0
        while True:
            with trio.CancelScope(deadline=self._timer_at) as self._timer:
                await trio.sleep_forever()
            self.do(self._handle_timers)
            times = times + 1 if self._timer_at <= trio.current_time() else 0
            if times >= STUCK_TIMES:
                await trio.sleep(STUCK_TIMER_S)

    async def run_work(self) -> None:
        """Goes on with long work of the core, a slice at a time, with turns of the loop's other tasks in between."""
        turns = Turns()
        while True:
            await self._work.wait()
            self._work = trio.Event()
            with turns.piece():
                self.do(lambda now: self.core.work(now, self.wall_at(now)))
            await turns.give_way()

    def _handle_timers(self, now: float) -> None:
        timer = self.node.next_timer()
        if timer is not None and timer <= now:
            self.node.handle_timer(now)
        timer = self.core.next_timer()
        if timer is not None and timer <= now:
            self.core.handle_timer(now, self.wall_at(now))

    def _set_timer(self) -> None:
        timers = (self.node.next_timer(), self.core.next_timer())
        due = min((timer for timer in timers if timer is not None), default=math.inf)
        if due < math.inf:
            due = on_grid(due, IDLE_GRID_S if self._is_idle() else BUSY_GRID_S, self._wall_ms())
        if due != self._timer_at:
            self._timer_at = self._timer.deadline = due
