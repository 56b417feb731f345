"""The live part of the demo: visitors, one query over the fleet, one agent killed and started again, all on a screen.

A trio shell around `ActSchedule` and `Board`. The windows come over the control socket of one agent; when that agent is
lost, they come through another one, after the last window seen.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

import trio

import elf
from agent.control.messages import Acknowledged, Ended
from elf.client import AsyncClient, AsyncJob, ClientError, Result
from elf.demo.agents.agents import AgentFleet
from elf.demo.errors import DemoError
from elf.demo.load.load import LoadReport
from elf.demo.shop.fleet import Shop
from elf.demo.story.acts import GRACE_S, WINDOW_S, Act, ActSchedule, WindowSighting
from elf.demo.story.board import Board, ShownWindow
from elf.demo.story.screen import Screen

APP = "figure-4"
_DRAW_S = 0.2
_ACT_S = 0.1
_ACKNOWLEDGED_TIMEOUT_S = 15.0
_ANSWER_TIMEOUT_S = 20.0
"""Generous, as web servers, visitors and agents may share two cores."""
_LOST_TIMEOUT_S = 20.0
_RETRY_S = 0.5
_LAST_WINDOWS_S = WINDOW_S + GRACE_S + 5
_NAMES_MAX = 8


@dataclass(slots=True)
class Performance:
    """One run; its outcome is in `board`. `run` raises DemoError, ClientError, or any error of the screen."""

    shop: Shop
    fleet: AgentFleet
    board: Board
    screen: Screen
    victim: str
    app: str = APP
    _acts: ActSchedule = field(init=False)
    _began: float = 0.0
    _heard_at: float = 0.0
    _acknowledged: Acknowledged | None = None
    _last_pane: int | None = None
    _load_ended_ms: int | None = None
    _all_published: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self._acts = ActSchedule(self.board.seconds)

    async def run(self) -> LoadReport:
        """Runs until the last window with visitors is published; returns the visitors' report."""
        self._began = trio.current_time()
        async with trio.open_nursery() as nursery:
            await nursery.start(self._query)
            nursery.start_soon(self._perform)
            nursery.start_soon(self._redraw)
            report = await trio.to_thread.run_sync(self.shop.run_load, self.board.seconds, self._count_load)
            self._load_ended_ms = _wall_ms()
            self._happened("the visitors have gone; the last windows close")
            with trio.move_on_after(_LAST_WINDOWS_S):
                await self._all_published.wait()
            nursery.cancel_scope.cancel()
        with trio.move_on_after(_LOST_TIMEOUT_S), suppress(ClientError):  # the fleet is about to end anyway
            await self._stop()
        return report

    async def once(self, text: str) -> Result:
        """The result of a query over the logs' present content."""
        async with self._connect(self._someone()) as client, client.query(text, once=True) as job:
            async for result in job:
                return result
        raise DemoError("the fleet had no answer")

    def _count_load(self, report: LoadReport) -> None:
        """Called from the load's thread; its exception at the end of the demo ends the load."""
        trio.from_thread.check_cancelled()
        self.board.load = report

    async def _query(self, task_status: trio.TaskStatus[None]) -> None:
        """Submits the query and collects its windows, through another agent whenever one is lost."""
        first = self.fleet.names[0]
        async with self._connect(first) as client:
            await self._submit(client)
            task_status.started()
        source = first
        while True:
            try:
                async with self._connect(source) as client:
                    await self._follow(client)
            except ClientError as error:
                if trio.current_time() - self._heard_at > _LOST_TIMEOUT_S:
                    raise DemoError(f"no agent has windows any more: {error}") from error
                source = self._another(source)
                self._happened(f"the windows come by way of {source} now")
                await trio.sleep(_RETRY_S)

    async def _submit(self, client: AsyncClient) -> None:
        """Submits the query and waits until every agent runs it.

        The victim must not be the job's master: its loss would show too, but not within the available time. The overlay
        picks the master by the job's name, so another name has another master.
        """
        for number in count(1):
            app = self.app if number == 1 else f"{self.app}-{number}"
            asked_at = trio.current_time()
            async with client.query(self.board.query, app=app, detach=True) as job:
                acknowledged = await everyone(job, len(self.fleet.names))
                if acknowledged.master != self.victim or number == _NAMES_MAX:
                    break
                await job.stop()
        self.app, self._acknowledged = app, acknowledged
        self._began = self._heard_at = trio.current_time()
        took_s = self._began - asked_at
        agents = f"{acknowledged.agents} of {acknowledged.expected} agents"
        self._happened(f"{agents} run {app} after {took_s:.2f} s, {acknowledged.master} is its master")

    async def _follow(self, client: AsyncClient) -> None:
        async with client.follow(self.app, after=self._last_pane) as job:
            async for update in job.updates():
                if isinstance(update, Result):
                    self._take(update)
                elif isinstance(update, Acknowledged):
                    self._take_acknowledged(update)
                elif isinstance(update, Ended):
                    raise DemoError(f"{self.app} ended: {update.reason}")

    def _another(self, source: str) -> str:
        """The next running agent, in turn."""
        names = self.fleet.names
        position = names.index(source)
        others = [*names[position + 1 :], *names[:position]]
        return next((name for name in others if self.fleet.is_running(name)), source)

    def _someone(self) -> str:
        return next((name for name in self.fleet.names if self.fleet.is_running(name)), self.fleet.names[0])

    def _connect(self, name: str) -> AsyncClient:
        return elf.connect(self.fleet.socket(name), timeout_s=_ANSWER_TIMEOUT_S)

    async def _stop(self) -> None:
        async with self._connect(self._someone()) as client:
            await client.stop(self.app)

    def _take(self, result: Result) -> None:
        self._last_pane, self._heard_at = result.pane, trio.current_time()
        window = window_for_board(result, _wall_ms(), self._elapsed_s())
        before = self.board.windows[-1] if self.board.windows else None
        self.board.windows.append(window)
        self.screen.window(window)
        if before is not None and before.completeness != window.completeness:
            self._happened(f"{window.title}: {window.completeness}")
        if self._load_ended_ms is not None and window.end_ms > self._load_ended_ms:
            self._all_published.set()

    def _take_acknowledged(self, new: Acknowledged) -> None:
        old, self._acknowledged = self._acknowledged, new
        if old is not None and new.master != old.master:
            self._happened(f"{new.master} has taken over as the master of {self.app}")
        if old is not None and (new.agents, new.expected) != (old.agents, old.expected):
            self._happened(f"{new.agents} of {new.expected} agents run {self.app}")

    async def _perform(self) -> None:
        """Performs acts that are due, and watches the agents."""
        while True:
            match self._acts.next_act(self._elapsed_s(), self._seen()):
                case Act.KILL:
                    self.fleet.kill(self.victim)
                    self.board.agents[self.victim] = "killed"
                    self._happened(f"{self.victim} killed (SIGKILL)")
                case Act.START:
                    self.fleet.launch(self.victim)
                    self.board.agents[self.victim] = "starts"
                    self._happened(f"{self.victim} started again")
                case None:
                    self._watch()
            await trio.sleep(_ACT_S)

    def _watch(self) -> None:
        """Reports agents that end or start by themselves; the demo goes on without them."""
        for name, state in self.board.agents.items():
            if state == "starts":
                self._watch_start(name)
            elif state == "runs" and not self.fleet.is_running(name):
                self.board.agents[name] = "gone"
                self._happened(f"{name} has ended: {self.fleet.process(name).last_words()}")

    def _watch_start(self, name: str) -> None:
        try:
            if self.fleet.is_ready(name):
                self.board.agents[name] = "runs"
        except DemoError as error:
            self.board.agents[name] = "gone"
            self._happened(str(error))

    def _seen(self) -> Sequence[WindowSighting]:
        agents = len(self.fleet.names)
        return [
            WindowSighting(window.at_s, window.is_complete and window.expected == agents, self.victim in window.missing)
            for window in self.board.windows
        ]

    async def _redraw(self) -> None:
        while True:
            self.board.elapsed_s = self._elapsed_s()
            self.screen.draw()
            await trio.sleep(_DRAW_S)

    def _happened(self, text: str) -> None:
        at_s = self._elapsed_s()
        self.board.timeline.append((at_s, text))
        self.screen.happened(at_s, text)

    def _elapsed_s(self) -> float:
        return trio.current_time() - self._began


@contextmanager
def one_error() -> Iterator[None]:
    """Raises the first error of an exception group as it is, an interruption before all others."""
    try:
        yield
    except BaseExceptionGroup as group:
        errors = list(_leaves(group))
        interrupted = [error for error in errors if isinstance(error, KeyboardInterrupt)]
        raise (interrupted or errors)[0] from None


def window_for_board(result: Result, now_ms: int, at_s: float) -> ShownWindow:
    """A window for the board; it was due at its end plus the grace."""
    end_ms = _milliseconds(result.window_end)
    return ShownWindow(
        start_ms=_milliseconds(result.window_start),
        end_ms=end_ms,
        rows=result.rows,
        contributors=result.contributors,
        expected=result.expected,
        missing=tuple(sorted(result.missing)),
        partial=tuple(sorted(result.partial)),
        events=result.events,
        late=result.late,
        at_s=at_s,
        lag_s=(now_ms - end_ms) / 1000 - GRACE_S,
    )


async def everyone(job: AsyncJob, agents: int) -> Acknowledged:
    """Waits until all agents run the job."""
    heard = "none"
    with trio.move_on_after(_ACKNOWLEDGED_TIMEOUT_S):
        async for update in job.updates():
            if isinstance(update, Acknowledged):
                heard = f"{update.agents} of {update.expected}"
                if update.agents == update.expected == agents:
                    return update
    raise DemoError(f"the query does not run on all {agents} agents after {_ACKNOWLEDGED_TIMEOUT_S:g} s, but {heard}")


async def keep_looking(look: Callable[[], Awaitable[None]], pause_s: float) -> None:
    """Looks, and again after each pause, until cancelled."""
    while True:
        await look()
        await trio.sleep(pause_s)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _milliseconds(moment: str | None) -> int:
    if moment is None:
        raise DemoError("a window came without its time")
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
