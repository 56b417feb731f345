"""The live part of the demo of shipped jobs: visitors, jobs over the fleet, and their results.

A trio shell around `JobBoard`. The windows of each job come over another agent's control socket.
"""

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import trio

import elf
from agent.control.messages import Acknowledged, Ended
from elf.client import AsyncClient, AsyncJob, Result
from elf.demo.agents.agents import AgentFleet
from elf.demo.errors import DemoError
from elf.demo.jobs.job_board import JobBoard
from elf.demo.jobs.job_checks import JobRecord, Logs, finished_runs
from elf.demo.jobs.job_plays import Role
from elf.demo.load.load import LoadReport
from elf.demo.shop.fleet import Shop
from elf.demo.story.acts import GRACE_S
from elf.demo.story.job_log_reader import ANSWER_TIMEOUT_S, JobLogReader
from elf.demo.story.live import everyone, keep_looking
from elf.demo.story.screen import Screen
from elf.demo.story.truth import WINDOW_MS, instant, read_events

RATE = 400
"""Visitors' requests per second: jobs' programs share the machine with web servers and agents."""
_DRAW_S = 0.2
_LOOK_S = 0.25
_AFTER_S = 60.0
"""Upper bound on the wait for the last results after the last visitor, which a busy machine may keep back."""
_SETTLED_S = 0.6
_GRACE_MS = 1000 * GRACE_S + 3_000


@dataclass(frozen=True, slots=True)
class Submission:
    """A job, signed by its creator."""

    role: Role
    app_id: str
    bundle: bytes


@dataclass(slots=True)
class JobPerformance:
    """One run; its results are in `seen`. `run` raises DemoError, ClientError, or any error of the screen."""

    shop: Shop
    fleet: AgentFleet
    board: JobBoard
    screen: Screen
    submissions: list[Submission]
    rate: float = RATE
    visits_max: int = 1
    """Times that visitors come, for as long as some job has not found anything."""
    seen: dict[str, JobRecord] = field(init=False)
    _began: float = 0.0
    _logs: dict[str, JobLogReader] = field(init=False)
    _stamps: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seen = {one.role.app: JobRecord() for one in self.submissions}
        self.board.seen = self.seen
        self._logs = {app: JobLogReader(app) for app in self.seen}

    async def run(self) -> Logs:
        """Runs until all jobs have counted all visits; returns the events of each server's log."""
        self._began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._redraw)
            for number, submission in enumerate(self.submissions):
                agent = self.fleet.names[number % len(self.fleet.names)]
                await nursery.start(self._perform, submission, agent)
            await trio.sleep(_to_next_window_s())
            for one in self.seen.values():
                one.windows.clear()
            self._happened("the first visitors come")
            nursery.start_soon(keep_looking, self._look, _LOOK_S)
            for _ in range(self.visits_max):
                await trio.to_thread.run_sync(self._visit)
                if self._have_all_found():
                    break
            self._happened("the visitors have gone; the last results come")
            await trio.to_thread.run_sync(self.shop.stop)
            servers = [read_events(server.event_log) for server in self.shop.servers]
            with trio.move_on_after(_AFTER_S):
                while not all(self._has_all(app, servers) for app in self.seen):
                    await trio.sleep(_LOOK_S)
            await trio.sleep(_SETTLED_S)
            await self._look()
            nursery.cancel_scope.cancel()
        return servers

    def _visit(self) -> None:
        self.shop.run_load(self.board.seconds, self._count_load, rate=self.rate)

    def _have_all_found(self) -> bool:
        """Whether all jobs that show web servers what they find have done so."""
        return all(one.shown for app, one in self.seen.items() if app != "kmeans")

    def _count_load(self, report: LoadReport) -> None:
        """Called from the load's thread; its exception at the end of the demo ends the load."""
        trio.from_thread.check_cancelled()
        self.board.load = report

    async def _perform(self, one: Submission, agent: str, task_status: trio.TaskStatus[None]) -> None:
        """Submits a job and collects its windows."""
        app = one.role.app
        async with self._connect(agent) as client, client.submit(app, one.app_id, one.bundle) as job:
            asked_at = trio.current_time()
            acknowledged = await everyone(job, len(self.fleet.names))
            self.board.masters[app] = acknowledged.master
            took_s = trio.current_time() - asked_at
            agents = f"{acknowledged.agents} of {acknowledged.expected} agents"
            self._happened(f"{agents} run {app} after {took_s:.1f} s, {acknowledged.master} is its master")
            task_status.started()
            await self._take(app, job)

    async def _take(self, app: str, job: AsyncJob) -> None:
        async for update in job.updates():
            match update:
                case Result():
                    self.seen[app].windows.append(update)
                case Acknowledged(master=master):
                    self.board.masters[app] = master
                case Ended(reason=reason, failure=failure):
                    raise DemoError(f"{app} ended: {failure or reason}")

    def _has_all(self, app: str, servers: Logs) -> bool:
        """Whether a job has counted all events of the logs."""
        windows = self.seen[app].windows
        events = sum(map(len, servers))
        if app == "micro-promotion":
            return sum(window.events for window in windows) >= events
        if app == "kmeans":
            told = any(line.startswith(f"{events} points") for line in self.seen[app].said)
            return told and bool(finished_runs(windows, events))
        last_ms = max((log[-1].at_ms for log in servers if log), default=0)
        is_over = _wall_ms() > last_ms + WINDOW_MS + _GRACE_MS  # a window without results is not shown
        return is_over or any(instant(window.window_end or "") > last_ms for window in windows)

    # Values and log lines besides windows.

    async def _look(self) -> None:
        self._look_at_shown()
        for number, (app, log) in enumerate(self._logs.items()):
            socket = self.fleet.socket(self.fleet.names[number % len(self.fleet.names)])
            self.seen[app].said += await log.tell_new_lines(socket, self._happened)

    def _look_at_shown(self) -> None:
        for app in self.seen:
            for name in self.fleet.names:
                path = self.fleet.shown(name) / f"{app}.json"
                with suppress(OSError, ValueError):
                    stamp = path.stat().st_mtime_ns
                    if self._stamps.get(path) != stamp:
                        self.seen[app].shown.append(json.loads(path.read_bytes()))
                        self._stamps[path] = stamp

    def _connect(self, name: str) -> AsyncClient:
        return elf.connect(self.fleet.socket(name), timeout_s=ANSWER_TIMEOUT_S)

    async def _redraw(self) -> None:
        while True:
            self.screen.draw()
            await trio.sleep(_DRAW_S)

    def _happened(self, text: str) -> None:
        at_s = trio.current_time() - self._began
        self.board.timeline.append((at_s, text))
        self.screen.happened(at_s, text)


def _to_next_window_s() -> float:
    """Seconds until a window has just begun, so that every agent sees the whole of the first visitors' window."""
    return (WINDOW_MS - _wall_ms() % WINDOW_MS) / 1000 + 0.3


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
