"""The live part of the demo of online parameter optimization: visitors, the job, and what it shows.

A trio shell around `TuningBoard`. Outcomes are read where web servers read them: in the files that agents show.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import trio

import elf
from agent.control.messages import Acknowledged, Ended
from elf.client import AsyncClient, AsyncJob
from elf.demo.agents.agents import AgentFleet
from elf.demo.errors import DemoError
from elf.demo.jobs.job_live import Submission
from elf.demo.shop.fleet import Shop
from elf.demo.story.live import everyone
from elf.demo.story.screen import Screen
from elf.demo.tuning.offer_visitors import OfferVisitors, Taste, VisitCounts
from elf.demo.tuning.tuning_board import TuningBoard, outcome_line

RATE = 500
"""Visits per second."""
_DRAW_S = 0.2
_LOOK_S = 0.1
_ANSWER_TIMEOUT_S = 20.0
_SHOWN_TIMEOUT_S = 60.0


@dataclass(slots=True)
class TuningPerformance:
    """One run; its outcome is in `board`. `run` raises DemoError, ClientError, or any error of the screen."""

    shop: Shop
    fleet: AgentFleet
    board: TuningBoard
    screen: Screen
    submission: Submission
    taste: Taste
    rate: float = RATE
    _began: float = 0.0
    _is_shown: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        """Runs until the visitors have gone."""
        self._began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._redraw)
            await nursery.start(self._perform)
            nursery.start_soon(self._look)
            with trio.fail_after(_SHOWN_TIMEOUT_S):
                await self._is_shown.wait()
            self._happened("the web servers are shown two prominences; the first visitors come")
            await trio.to_thread.run_sync(self._visit)
            self._happened("the visitors have gone")
            self.shop.check()
            self._look_once()
            nursery.cancel_scope.cancel()

    def _visit(self) -> None:
        ports = [server.port for server in self.shop.servers]
        OfferVisitors(ports, self.taste, rate=self.rate).run(self.board.seconds, self._count)

    def _count(self, counts: VisitCounts) -> None:
        """Called from the visitors' thread; its exception at the end of the demo ends the visits."""
        trio.from_thread.check_cancelled()
        self.board.counts = counts

    async def _perform(self, task_status: trio.TaskStatus[None]) -> None:
        """Submits the job, and looks whether it goes on."""
        one, agents = self.submission, len(self.fleet.names)
        async with self._connect() as client, client.submit(one.role.app, one.app_id, one.bundle) as job:
            asked_at = trio.current_time()
            acknowledged = await everyone(job, agents)
            took_s = trio.current_time() - asked_at
            self._happened(
                f"{acknowledged.agents} of {acknowledged.expected} agents run {one.role.app} after {took_s:.1f} s,"
                f" {acknowledged.master} is its master"
            )
            task_status.started()
            await self._take(job)

    async def _take(self, job: AsyncJob) -> None:
        async for update in job.updates():
            match update:
                case Ended(reason=reason, failure=failure):
                    raise DemoError(f"{self.submission.role.app} ended: {failure or reason}")
                case Acknowledged(master=master):
                    self._happened(f"{master} is the master")

    async def _look(self) -> None:
        while True:
            self._look_once()
            await trio.sleep(_LOOK_S)

    def _look_once(self) -> None:
        """Reads what every agent shows, and notes the newest."""
        values = [value for name in self.fleet.names if (value := self._shown_by(name)) is not None]
        if not values:
            return
        newest = max(values, key=lambda value: int(value["experiment"]))
        self.board.shown = newest
        self.board.shown_by = sum(value["experiment"] == newest["experiment"] for value in values)
        if self.board.shown_by == len(self.fleet.names):
            self._is_shown.set()
        for value in sorted(values, key=lambda value: int(value["experiment"])):
            last, known = value.get("last"), self.board.outcomes
            if last and (not known or last["experiment"] > known[-1]["experiment"]):
                known.append(last)
                self._happened(outcome_line(known))

    def _shown_by(self, name: str) -> dict[str, Any] | None:
        with suppress(OSError, ValueError):
            value = json.loads((self.fleet.shown(name) / f"{self.submission.role.app}.json").read_bytes())
            return value if isinstance(value, dict) else None
        return None

    def _connect(self) -> AsyncClient:
        return elf.connect(self.fleet.socket(self.fleet.names[0]), timeout_s=_ANSWER_TIMEOUT_S)

    async def _redraw(self) -> None:
        while True:
            self.screen.draw()
            await trio.sleep(_DRAW_S)

    def _happened(self, text: str) -> None:
        at_s = trio.current_time() - self._began
        self.board.timeline.append((at_s, text))
        self.screen.happened(at_s, text)
