"""The live part of the demo of keyed elements: logs are written, results come, a host is killed.

A trio shell around `ElementBoard`. Windows come over the control socket of one agent, the figures of hosts over it too.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace

import trio

import elf
from agent.control.messages import Acknowledged, Elements, Ended
from elf.client import AsyncClient, AsyncJob, ClientError, Result
from elf.demo.agents.agents import AgentFleet
from elf.demo.elements.element_board import ElementBoard
from elf.demo.elements.log_truth import HostKill
from elf.demo.elements.log_writing import LogWriter
from elf.demo.errors import DemoError
from elf.demo.story.live import everyone, keep_looking
from elf.demo.story.screen import Screen
from elf.demo.story.truth import instant

DRAW_S = 0.2
LOOK_S = 1.0
SHOWN_BEFORE, SHOWN_WAIT = 5, 0.3
"""Results that are waited for before the kill, and the part of the time for which, on a busy machine."""
_ANSWER_TIMEOUT_S = 20.0
_AFTER_S = 60.0
"""Upper bound on the further wait for results, which a busy machine may keep back."""
_SLOWEST = 6
"""Times as long as planned that it may take until all is logged, where logs wait for results; and a minute more."""
_LAST_MS, _PAST_LAST_MS = 3_000, 2 * 3_600_000
"""Time before the end of logs, and of those of the past, up to which results have to come."""
_SETTLED_S = 5.0
"""Time without another result after which the last one has come."""


@dataclass(slots=True)
class ElementPerformance:
    """One run; `windows` has its results. `run` raises DemoError, ClientError, or any error of the screen."""

    fleet: AgentFleet
    board: ElementBoard
    screen: Screen
    writer: LogWriter
    app_id: str
    bundle: bytes
    windows: list[Result] = field(default_factory=list)
    killed: str = ""
    kill: HostKill = field(default_factory=HostKill)
    _began: float = 0.0
    _heard_at: float = 0.0
    _master: str = ""

    async def run(self) -> None:
        """Runs until the last result has come."""
        self._began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._redraw)
            await nursery.start(self._perform)
            nursery.start_soon(keep_looking, self._look, LOOK_S)
            self._happened("the servers begin to log")
            with self.writer:
                await self._logged(self.board.play.kill_at)
                with trio.move_on_after(self._patience_s if self.writer.lead_ms else SHOWN_WAIT * self.board.seconds):
                    while self.board.windows < SHOWN_BEFORE:
                        await trio.sleep(DRAW_S)
                await self._kill()
                await self._logged(1.0)
            self._happened("the servers have stopped; the last results come")
            await trio.sleep(self.board.play.tail_s)
            with trio.move_on_after(_AFTER_S):
                while not self._has_all():
                    await trio.sleep(DRAW_S)
            nursery.cancel_scope.cancel()

    @property
    def _patience_s(self) -> float:
        return _SLOWEST * self.board.seconds + _AFTER_S

    async def _logged(self, part: float) -> None:
        """Waits until a part of the time has passed in the logs. Raises DemoError where it does not."""
        with trio.move_on_after(self._patience_s):
            while self.writer.passed_s < part * self.board.seconds:
                await trio.sleep(DRAW_S)
            return
        raise DemoError(
            f"results come too slowly on this machine: {self.writer.passed_s:.0f} of {self.board.seconds:.0f} s of logs"
            f" are written after {trio.current_time() - self._began:.0f} s; give it more time with --seconds"
        )

    def _has_all(self) -> bool:
        """Whether the last result has come."""
        is_settled = self.board.window is not None and trio.current_time() - self._heard_at >= _SETTLED_S
        last_ms = _PAST_LAST_MS if self.writer.lead_ms else _LAST_MS
        return is_settled and self.writer.reached_ms >= self.writer.now_ms - last_ms

    async def _perform(self, task_status: trio.TaskStatus[None]) -> None:
        """Submits the job and collects its windows."""
        app = self.board.play.app
        async with self._connect() as client, client.submit(app, self.app_id, self.bundle) as job:
            asked_at = trio.current_time()
            acknowledged = await everyone(job, len(self.fleet.names))
            self._master = acknowledged.master
            took_s = trio.current_time() - asked_at
            self._happened(f"all {acknowledged.agents} agents run {app} after {took_s:.1f} s")
            task_status.started()
            await self._take(app, job)

    async def _take(self, app: str, job: AsyncJob) -> None:
        async for update in job.updates():
            match update:
                case Result():
                    self._show(update)
                case Acknowledged(master=master):
                    self._master = master
                case Ended(reason=reason, failure=failure):
                    raise DemoError(f"{app} ended: {failure or reason}")

    def _show(self, result: Result) -> None:
        board = self.board
        is_new = bool(result.rows) and (board.window is None or result.rows != board.window.rows)
        self.windows.append(result)
        if result.window_end is not None:
            self.writer.reached_ms = max(self.writer.reached_ms, instant(result.window_end))
        if len(result.lost) > self.kill.lost:
            self.kill = replace(self.kill, lost=len(result.lost), over_ms=self.writer.now_ms)
        if is_new:
            self._heard_at = trio.current_time()
            board.window, board.windows = result, board.windows + 1
            first = ", ".join(_short(value) for value in result.rows[0].values())
            self.screen.happened(trio.current_time() - self._began, f"{result.window_end}: {first}, ...")

    async def _kill(self) -> None:
        """Kills the agent without a log that hosts most, but not the job's master."""
        hosts = [name for name, host in self.board.hosts.items() if not host.reads and name != self._master]
        with trio.move_on_after(_ANSWER_TIMEOUT_S):
            await self._look()
            nodes: list[int] = []
            while nodes != (nodes := [self.board.hosts[name].nodes for name in hosts]) or not all(nodes):
                await trio.sleep(DRAW_S)  # some are on their way to other hosts
                await self._look()
        self.killed = max(hosts, key=lambda name: self.board.hosts[name].nodes)
        host = self.board.hosts[self.killed]
        self.fleet.kill(self.killed)
        host.state = "killed"
        self.kill = HostKill(self.killed, sum(1 for one in self.windows if one.rows), host.nodes)
        self._happened(
            f"{self.killed} is killed (SIGKILL), with {host.elements:,} elements in {host.nodes:,} logical nodes"
        )

    async def _look(self) -> None:
        with suppress(ClientError):  # the next look sees it
            async with self._connect() as client:
                self._note(await client.elements(self.board.play.app))

    def _note(self, found: Elements) -> None:
        for name, host in self.board.hosts.items():
            mine = [one for one in found.elements if one.agent == name]
            host.nodes = max((one.nodes for one in mine), default=0)
            host.elements = sum(one.elements for one in mine)
            host.events_per_s = sum(one.events_per_s for one in mine)

    def _connect(self) -> AsyncClient:
        return elf.connect(self.fleet.socket(self.fleet.names[0]), timeout_s=_ANSWER_TIMEOUT_S)

    async def _redraw(self) -> None:
        while True:
            self.board.elapsed_s = trio.current_time() - self._began
            self.board.lines = self.writer.lines
            self.screen.draw()
            await trio.sleep(DRAW_S)

    def _happened(self, text: str) -> None:
        at_s = trio.current_time() - self._began
        self.board.timeline.append((at_s, text))
        self.screen.happened(at_s, text)


def _short(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
