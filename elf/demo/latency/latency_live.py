"""The live part of the demo of latency: visitors, one query with a limit, and statistics of its results.

A trio shell around `LatencyBoard`. Results come over one agent's control socket, statistics over another's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import msgspec
import trio

import elf
from agent.control.messages import Ended
from elf.client import AsyncClient, AsyncJob, Result
from elf.demo.agents.agents import AgentFleet
from elf.demo.errors import DemoError
from elf.demo.latency.latency_board import LatencyBoard, SeenResult
from elf.demo.load.load import LoadReport
from elf.demo.shop.fleet import Shop
from elf.demo.story.job_log_reader import ANSWER_TIMEOUT_S
from elf.demo.story.live import everyone, keep_looking
from elf.demo.story.screen import Screen
from elf.demo.story.truth import instant

APP = "top-products"
RATE = 600
"""Requests a second."""
WARM_S = 15.0
"""Time for which visitors come before the query: servers and agents have just started, all at once on one machine."""
_DRAW_S = 0.2
_LOOK_S = 2.0
_TOLD_EACH = 10
"""Results after which a line tells of them."""


class _SaidLatency(msgspec.Struct):
    """The fields of a result's line that tell its latency."""

    latency_ms: float
    met: bool
    slowest: str = ""


@dataclass(slots=True)
class LatencyPerformance:
    """One run; its outcome is in `board`. `run` raises DemoError, ClientError, or any error of the screen."""

    shop: Shop
    fleet: AgentFleet
    board: LatencyBoard
    screen: Screen
    query: str
    _began: float = 0.0
    _decoder: msgspec.json.Decoder[_SaidLatency] = field(default_factory=lambda: msgspec.json.Decoder(_SaidLatency))

    async def run(self) -> None:
        """Runs until the visitors have gone."""
        self._began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._redraw)
            nursery.start_soon(self._watch)
            await trio.to_thread.run_sync(self._visit)
            self._happened("the visitors have gone")
            await self._look()
            nursery.cancel_scope.cancel()

    async def _watch(self) -> None:
        """Has the query run once everything has warmed up, and looks at what its master measures."""
        self._happened(f"visitors come; the query runs in {WARM_S:g} s")
        await trio.sleep(WARM_S)
        async with trio.open_nursery() as nursery:
            await nursery.start(self._follow)
            nursery.start_soon(keep_looking, self._look, _LOOK_S)

    def _visit(self) -> None:
        self.shop.run_load(WARM_S + self.board.seconds, self._count, rate=RATE)

    def _count(self, report: LoadReport) -> None:
        """Called from the load's thread; its exception at the end of the demo ends the load."""
        trio.from_thread.check_cancelled()
        self.board.requests = report.requests

    async def _follow(self, task_status: trio.TaskStatus[None]) -> None:
        """Submits the query, and collects what its results tell."""
        async with self._connect(0) as client, client.query(self.query, app=APP) as job:
            acknowledged = await everyone(job, len(self.fleet.names))
            self._happened(f"{acknowledged.agents} agents run {APP}, {acknowledged.master} is its master")
            task_status.started()
            await self._take(job)

    async def _take(self, job: AsyncJob) -> None:
        async for update in job.updates():
            match update:
                case Result():
                    self._add(update, time.time_ns() / 1e6)
                case Ended(reason=reason, failure=failure):
                    raise DemoError(f"{APP} ended: {failure or reason}")

    def _add(self, result: Result, now_ms: float) -> None:
        said = self._decoder.decode(result.json)
        seen_ms = now_ms - instant(result.window_end or "")
        self.board.results.append(SeenResult(said.latency_ms, said.met, seen_ms, said.slowest))
        if len(self.board.results) % _TOLD_EACH == 0:
            self._happened(self.board.progress())

    async def _look(self) -> None:
        if self.board.results:
            async with self._connect(1) as client:
                self.board.found = await client.latency(APP)

    def _connect(self, number: int) -> AsyncClient:
        return elf.connect(self.fleet.socket(self.fleet.names[number]), timeout_s=ANSWER_TIMEOUT_S)

    async def _redraw(self) -> None:
        while True:
            self.board.elapsed_s = max(0.0, trio.current_time() - self._began - WARM_S)
            self.screen.draw()
            await trio.sleep(_DRAW_S)

    def _happened(self, text: str) -> None:
        at_s = trio.current_time() - self._began
        self.board.timeline.append((at_s, text))
        self.screen.happened(at_s, text)
