"""What an agent has asked of jobs by their names, and has no answer to yet."""

from __future__ import annotations

from dataclasses import dataclass

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.messages.jobs import CODEC, Answer, Ask, NoJob
from agent.runtime.messages.programs import Log, LogRequest
from agent.runtime.messages.sender import MessageSender
from agent.runtime.requests.notices import Answered, AskRefused, CoreEvent, LogAnswered
from overlay import PAYLOAD_BYTES_MAX, Responded, WireError

OPEN_MAX = 256
PATIENCE_S = 10.0
AGAIN_S = 0.5
"""A job that was announced is there, whatever the node says that happens to be asked: it is asked again."""


@dataclass(slots=True)
class _Open:
    """`ticket`: of the request that is on its way; None while it waits for `again_at`."""

    question: int
    message: Ask | LogRequest
    deadline: float
    ticket: int | None = None
    again_at: float = 0.0


class PendingRequests:
    """Each is a request over the overlay (Pastry's route and deliver) to the appId; what comes of it is a notice."""

    def __init__(self, post: MessageSender, announcements: JobDirectory, notices: list[CoreEvent]) -> None:
        self.refused = 0
        self._post = post
        self._announcements = announcements
        self._notices = notices
        self._open: list[_Open] = []

    @property
    def is_empty(self) -> bool:
        return not self._open

    def ask(self, question: int, message: Ask | LogRequest, now: float) -> None:
        """Asks a job; `question` is the asker's own number for it."""
        if len(self._open) >= OPEN_MAX:
            self._notices.append(AskRefused(question, unavailable=True))
            return
        asked = _Open(question, message, now + PATIENCE_S)
        self._open.append(asked)
        self._send(asked, now)

    def _send(self, asked: _Open, now: float) -> None:
        asked.ticket = self._post.request(asked.message, asked.deadline - now, now)

    def responded(self, event: Responded, now: float) -> None:
        """An answer has come."""
        asked = self._find(event.ticket)
        if asked is None:
            return
        try:
            answer = CODEC.decode(event.payload, PAYLOAD_BYTES_MAX)
        except WireError:
            answer = None
        match answer:
            case Answer() if answer.app_id == asked.message.app_id:
                self._open.remove(asked)
                columns, results = tuple(answer.columns), tuple(answer.results)
                self._notices.append(Answered(asked.question, answer.name, answer.text, columns, results))
            case Log() if answer.app_id == asked.message.app_id:
                self._open.remove(asked)
                self._notices.append(LogAnswered(asked.question, answer.name, tuple(answer.lines), answer.dropped))
            case NoJob() if self._announcements.get(asked.message.app_id) is None:
                self._refuse(asked, unavailable=False)
            case _:
                self.refused += not isinstance(answer, NoJob)
                asked.ticket, asked.again_at = None, now + AGAIN_S

    def failed(self, ticket: int) -> None:
        """Nobody has answered in time."""
        if (asked := self._find(ticket)) is not None:
            self._refuse(asked, unavailable=True)

    def tick(self, now: float) -> None:
        """Asks again; gives up."""
        for asked in list(self._open):
            if asked.ticket is None and now >= asked.deadline:
                self._refuse(asked, unavailable=True)
            elif asked.ticket is None and now >= asked.again_at:
                self._send(asked, now)

    def _find(self, ticket: int) -> _Open | None:
        return next((asked for asked in self._open if asked.ticket == ticket), None)

    def _refuse(self, asked: _Open, *, unavailable: bool) -> None:
        self._open.remove(asked)
        self._notices.append(AskRefused(asked.question, unavailable))
