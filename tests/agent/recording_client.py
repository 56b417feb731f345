"""A client and the shell of one agent, which record everything they are told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from simulated_disk import SimulatedDisk

from agent import Agent, AgentObserver, Submit, Update
from agent.runtime.messages.client_events import JobEvent
from agent.runtime.messages.job_records import RECORDS, JobRecord
from agent.runtime.messages.jobs import Ask
from agent.runtime.messages.programs import LogRequest
from agent.runtime.messages.views.latency import LatencyRequest
from agent.runtime.model.bundle import Signature
from agent.runtime.requests.events import DryRunAsked, Shown, StreamAsked
from overlay import Id


class RecordingClient(AgentObserver):
    """Asks an agent whose observer it is."""

    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        self.disk = disk
        self._keeps_sealed = False
        self.agent: Agent | None = None
        self._new: list[tuple[int | None, Any]] = []
        self._sinks: dict[int, Callable[[JobEvent], None]] = {}

    def notices(self) -> list[Any]:
        """Everything since this was asked last: replies, events, what is shown and asked."""
        return [one for _, one in self.by_job()]

    def by_job(self) -> list[tuple[int | None, Any]]:
        """The same, with the id of the job that an event is of."""
        new, self._new = self._new, []
        return new

    @property
    def keeps_jobs(self) -> bool:
        return self.disk is not None

    @property
    def keeps_sealed(self) -> bool:
        return self._keeps_sealed

    def keep_sealed(self) -> None:
        """From now on there is a disk for what is sealed."""
        self._keeps_sealed = True

    def job_recorded(self, record: JobRecord) -> None:
        assert self.disk is not None
        self.disk.waiting.append(RECORDS.encode(record))

    def rows_unjoinable(self, rows: str, why: str) -> None:
        self._new.append((None, (rows, why)))

    def shown(self, shown: Shown) -> None:
        self._new.append((None, shown))

    def stream_asked(self, asked: StreamAsked) -> None:
        self._new.append((None, asked))

    def dry_run_asked(self, asked: DryRunAsked) -> None:
        self._new.append((None, asked))

    def reply(self, reply: object) -> None:
        self._new.append((None, reply))

    @property
    def _core(self) -> Agent:
        assert self.agent is not None
        return self.agent

    def submit(self, job: Submit, now: float, wall_ms: int) -> None:
        self._core.commands.submit(job, self.reply, now, wall_ms)

    def update(self, update: Update, now: float, wall_ms: int) -> None:
        self._core.commands.update(update, self.reply, now, wall_ms)

    def stop(self, app_id: int, now: float, signature: Signature | None = None) -> None:
        self._core.commands.stop(Id(app_id), self.reply, now, signature)

    def ask(self, app_id: int, windows: int, now: float) -> None:
        self._core.questions.ask(Ask(Id(app_id), windows), self.reply, now)

    def ask_log(self, app_id: int, lines: int, now: float) -> None:
        self._core.questions.ask(LogRequest(Id(app_id), lines), self.reply, now)

    def ask_latency(self, app_id: int, now: float) -> None:
        self._core.questions.ask(LatencyRequest(Id(app_id)), self.reply, now)

    def follow(self, app_id: int, after: int | None, now: float) -> None:
        sink = self._sinks.setdefault(app_id, partial(self._hear, app_id))
        self._core.following.follow(Id(app_id), after, sink, now)

    def unfollow(self, app_id: int, now: float) -> None:
        self._core.following.unfollow(Id(app_id), self._sinks[app_id], now)

    def _hear(self, app_id: int, event: JobEvent) -> None:
        self._new.append((app_id, event))


def client_of(agent: Agent) -> RecordingClient:
    assert isinstance(agent.observer, RecordingClient)
    agent.observer.agent = agent
    return agent.observer
