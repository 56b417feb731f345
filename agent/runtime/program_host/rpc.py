"""Sends requests of programs to other jobs, and returns the answers: route and deliver (paper §2.4, Table 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.programs import calls
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import AmbiguousNameError, app_of, no_job, stage_app
from agent.runtime.job.program_table import Program, Programs
from agent.runtime.messages.jobs import Answer, Ask, NoJob
from agent.runtime.messages.programs import JobRequest, JobResponse
from agent.runtime.model.fields import Message
from agent.runtime.requests.pending import NoAnswer, PendingRequests
from overlay import Id

OPEN_MAX = 256
NO_ANSWER = "{app} has not answered in time"
TOO_MANY = f"this agent waits for {OPEN_MAX} answers of other jobs already"


class JobRpc:
    """Routes each request over the overlay to the other job's appId, and its answer to the program that waits."""

    name = "rpc"

    def __init__(self, pending: PendingRequests, directory: JobDirectory, programs: Programs) -> None:
        self.refused = 0
        self._pending = pending
        self._directory = directory
        self._programs = programs
        self._open = 0

    def send(self, program: Program, route: calls.RouteCall, now: float) -> None:
        """Sends a message to another job's master."""
        self._request(program, route, lambda app_id: JobRequest(app_id, program.app, route.message), now)

    def ask(self, program: Program, ask: calls.AskCall, now: float) -> None:
        """Asks for another job's last windows."""
        self._request(program, ask, lambda app_id: Ask(app_id, ask.windows), now)

    def _request(
        self, program: Program, asked: calls.RouteCall | calls.AskCall, message: Callable[[Id], Message], now: float
    ) -> None:
        try:
            app_id = self._app_of(program, asked.app)
        except AmbiguousNameError as error:
            self._programs.answer(program.key, calls.AnswerArrived(asked.ticket, str(error)))
            return
        if self._open >= OPEN_MAX:
            self._programs.answer(program.key, calls.AnswerArrived(asked.ticket, TOO_MANY))
            return
        self._open += 1
        key, ticket, app = program.key, asked.ticket, asked.app
        self._pending.request(
            message(app_id), asked.deadline_s, lambda answer, _now: self._answered(key, ticket, app, answer), now
        )

    def _app_of(self, program: Program, name: str) -> Id:
        """The job that a program names: a stage of its own job takes precedence over other jobs of this name."""
        job = self._directory.get(program.app_id)
        if name in program.stages and job is not None:
            name = f"{stage_app(job.name, name)}@{job.creator}"
        return app_of(name, self._directory.all())

    def _answered(self, key: int, ticket: int, app: str, answer: Message | NoAnswer) -> None:
        self._open -= 1
        match answer:
            case JobResponse(message=message, refusal=refusal):
                refusal = None if refusal is None else f"{app} {refusal}"
                self._programs.answer(key, calls.AnswerArrived(ticket, refusal, message))
            case Answer(results=results):
                self._programs.answer(key, calls.AnswerArrived(ticket, windows=[json for _, json in results]))
            case NoJob():
                self._programs.answer(key, calls.AnswerArrived(ticket, no_job(app)))
            case _:
                self.refused += answer is not NoAnswer.TIMED_OUT
                self._programs.answer(key, calls.AnswerArrived(ticket, NO_ANSWER.format(app=app)))

    def statistics(self) -> Mapping[str, int]:
        return {"refused": self.refused, "open": self._open}
