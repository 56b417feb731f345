"""What the programs of an agent ask of other jobs, and wait for: route and deliver (paper §2.4, Table 2)."""

from __future__ import annotations

from collections.abc import Callable

from agent.programs import calls
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import AmbiguousNameError, app_of, no_job, stage_app
from agent.runtime.job.program_table import Program, Programs
from agent.runtime.messages.jobs import CODEC, Answer, Ask, NoJob
from agent.runtime.messages.programs import JobRequest, JobResponse
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.fields import Message
from overlay import PAYLOAD_BYTES_MAX, Id, Responded, WireError

OPEN_MAX = 256
NO_ANSWER = "{app} has not answered in time"
TOO_MANY = f"this agent waits for {OPEN_MAX} answers of other jobs already"


class JobRpc:
    """Each is a request over the overlay to the other job's appId; its answer goes to the program that waits."""

    def __init__(self, post: MessageSender, announcements: JobDirectory, programs: Programs) -> None:
        self.refused = 0
        self._post = post
        self._announcements = announcements
        self._programs = programs
        self._open: dict[int, tuple[int, int, str]] = {}

    def send(self, program: Program, route: calls.RouteCall, now: float) -> None:
        """A message to another job's master."""
        self._request(program, route, lambda app_id: JobRequest(app_id, program.app, route.message), now)

    def ask(self, program: Program, ask: calls.AskCall, now: float) -> None:
        """Another job's last windows."""
        self._request(program, ask, lambda app_id: Ask(app_id, ask.windows), now)

    def _request(
        self, program: Program, asked: calls.RouteCall | calls.AskCall, message: Callable[[Id], Message], now: float
    ) -> None:
        try:
            app_id = self._app_of(program, asked.app)
        except AmbiguousNameError as error:
            self._programs.answer(program.key, calls.AnswerArrived(asked.ticket, str(error)))
            return
        if len(self._open) >= OPEN_MAX:
            self._programs.answer(program.key, calls.AnswerArrived(asked.ticket, TOO_MANY))
            return
        ticket = self._post.request(message(app_id), asked.deadline_s, now)
        self._open[ticket] = (program.key, asked.ticket, asked.app)

    def _app_of(self, program: Program, name: str) -> Id:
        """The job that a program means: a stage of its own job goes before any other of that name."""
        job = self._announcements.get(program.app_id)
        if name in program.stages and job is not None:
            name = f"{stage_app(job.name, name)}@{job.creator}"
        return app_of(name, self._announcements.all())

    def responded(self, event: Responded) -> bool:
        """An answer has come; whether it is to one of these."""
        waiting = self._open.pop(event.ticket, None)
        if waiting is None:
            return False
        key, ticket, app = waiting
        try:
            answer = CODEC.decode(event.payload, PAYLOAD_BYTES_MAX)
        except WireError:
            answer = None
        match answer:
            case JobResponse(message=message, refusal=refusal):
                refusal = None if refusal is None else f"{app} {refusal}"
                self._programs.answer(key, calls.AnswerArrived(ticket, refusal, message))
            case Answer(results=results):
                self._programs.answer(key, calls.AnswerArrived(ticket, windows=[json for _, json in results]))
            case NoJob():
                self._programs.answer(key, calls.AnswerArrived(ticket, no_job(app)))
            case _:
                self.refused += 1
                self._programs.answer(key, calls.AnswerArrived(ticket, NO_ANSWER.format(app=app)))
        return True

    def failed(self, ticket: int) -> bool:
        """Nobody has answered in time; whether it is one of these."""
        waiting = self._open.pop(ticket, None)
        if waiting is None:
            return False
        key, asked, app = waiting
        self._programs.answer(key, calls.AnswerArrived(asked, NO_ANSWER.format(app=app)))
        return True
