"""The live part of the demo of lending: a day of applications, and the windows of five operators.

A trio shell around `LendingBoard`. Each operator's windows come over another agent's control socket.
"""

from contextlib import ExitStack
from dataclasses import dataclass, field

import trio

import elf
from agent.control.messages import Ended
from elf.client import AsyncClient, AsyncJob, Result, SyncClient
from elf.demo.agents.agents import AgentFleet
from elf.demo.elements.log_writing import LogWriter
from elf.demo.errors import DemoError
from elf.demo.lending.lending_board import LendingBoard
from elf.demo.lending.lending_truth import APP, OPERATORS, Bounds, LendingOperator
from elf.demo.story.job_log_reader import ANSWER_TIMEOUT_S, JobLogReader
from elf.demo.story.live import everyone, keep_looking
from elf.demo.story.screen import Screen
from elf.demo.story.truth import instant
from elf.signing.creator import load_creator
from elf.signing.shipped import shipped
from elf.signing.stages import started
from elf.signing.submission import contents_of, read_job, signed

_DRAW_S, _LOOK_S = 0.2, 0.5
_AFTER_S = 60.0
"""Upper bound on the further wait for windows, which a busy machine may keep back."""
_SLOWEST = 6
"""Times as long as planned that it may take until all have applied, where borrowers wait for windows; and a minute
more."""


@dataclass(slots=True)
class LendingPerformance:
    """One run; `windows` has the results, by the operator's name. `upto_ms`: the end of the windows waited for.

    `run` raises DemoError, ClientError, OSError, or any error of the screen.
    """

    fleet: AgentFleet
    board: LendingBoard
    screen: Screen
    writer: LogWriter
    upto_ms: int
    merged: tuple[int, int] = (0, 0)
    """States merged for all windows, and panes that these have."""
    windows: dict[str, list[Result]] = field(default_factory=lambda: {one.name: [] for one in OPERATORS})
    _seen: dict[str, set[Bounds]] = field(default_factory=lambda: {one.name: set() for one in OPERATORS})
    _began: float = 0.0
    _log: JobLogReader = field(default_factory=lambda: JobLogReader(APP))

    async def run(self) -> None:
        """Runs until the last windows have come."""
        self._began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._redraw)
            await trio.to_thread.run_sync(submit, self.fleet)
            for number, operator in enumerate(OPERATORS):
                await nursery.start(self._follow, operator, self.fleet.names[number % len(self.fleet.names)])
            self._happened(f"{APP} runs, with {len(OPERATORS) - 1} stages; the first borrowers come")
            nursery.start_soon(keep_looking, self._look, _LOOK_S)
            with self.writer:
                await self._applied()
            self._happened("the day is over; the last windows come")
            with trio.move_on_after(_AFTER_S):
                while not self.has_all():
                    await trio.sleep(_DRAW_S)
            await self._look()
            self.merged = await self._count_merged()
            nursery.cancel_scope.cancel()

    def has_all(self) -> bool:
        """Whether the last windows of all operators have come, of each length."""
        return all(
            (self.upto_ms - size_ms, self.upto_ms) in self._seen[one.name]
            for one in OPERATORS
            for size_ms in one.sizes_ms
        )

    async def _applied(self) -> None:
        """Waits until all borrowers have applied. Raises DemoError where it takes too long, and OSError."""
        with trio.move_on_after(_SLOWEST * self.board.seconds + _AFTER_S):
            while self.writer.passed_s < self.board.seconds:
                self.writer.check()
                await trio.sleep(_DRAW_S)
            return
        raise DemoError(
            f"windows come too slowly on this machine: {self.writer.passed_s:.0f} of {self.board.seconds:.0f} s have"
            f" passed after {trio.current_time() - self._began:.0f} s; give it more time with --seconds"
        )

    async def _follow(self, operator: LendingOperator, agent: str, task_status: trio.TaskStatus[None]) -> None:
        """Collects an operator's windows."""
        async with self._connect(agent) as client, client.follow(operator.app) as job:
            await everyone(job, len(self.fleet.names) if operator.reads_logs else 1)
            task_status.started()
            await self._take(operator, job)

    async def _take(self, operator: LendingOperator, job: AsyncJob) -> None:
        async for update in job.updates():
            match update:
                case Result():
                    self._add(operator, update)
                case Ended(reason=reason, failure=failure):
                    raise DemoError(f"{operator.app} ended: {failure or reason}")

    def _add(self, operator: LendingOperator, window: Result) -> None:
        self.windows[operator.name].append(window)
        self._seen[operator.name].add((instant(window.window_start or ""), instant(window.window_end or "")))
        self.board.add(operator.name, window)
        if all(self._seen.values()):
            reached_ms = min(max(end_ms for _, end_ms in seen) for seen in self._seen.values())
            self.writer.reached_ms = max(self.writer.reached_ms, reached_ms)

    async def _look(self) -> None:
        """Shows what the job has logged since the last look."""
        await self._log.tell_new_lines(self.fleet.socket(self.fleet.names[0]), self._happened)

    async def _count_merged(self) -> tuple[int, int]:
        states = panes = 0
        for name in self.fleet.names:
            async with self._connect(name) as client:
                counters = (await client.status()).counters
            states, panes = states + counters["masters.window_inputs"], panes + counters["masters.window_panes"]
        return states, panes

    def _connect(self, name: str) -> AsyncClient:
        return elf.connect(self.fleet.socket(name), timeout_s=ANSWER_TIMEOUT_S)

    async def _redraw(self) -> None:
        while True:
            board, writer = self.board, self.writer
            board.passed_s, board.now_ms, board.applications = writer.passed_s, writer.now_ms, writer.lines
            self.screen.draw()
            await trio.sleep(_DRAW_S)

    def _happened(self, text: str) -> None:
        at_s = trio.current_time() - self._began
        self.board.timeline.append((at_s, text))
        self.screen.happened(at_s, text)


def submit(fleet: AgentFleet) -> None:
    """Submits the shipped job and its stages, signed by the fleet's creator. Raises ElfError."""
    creator = load_creator(fleet.creator)
    client = SyncClient(str(fleet.socket(fleet.names[0])), ANSWER_TIMEOUT_S)
    path = shipped(APP)
    assert path is not None
    contents = contents_of(client, read_job(path), APP, creator.name)
    app_id, bundle = signed(creator, APP, contents.pop(APP))
    with ExitStack() as stack:
        stack.enter_context(started(client, creator, contents, fleet.creator))
        stack.enter_context(client.submit(APP, app_id, bundle))
