"""Asks jobs for their last results or the last lines of their logs, until an answer comes or the deadline passes.

An announced job exists. If the node that answers denies it, because another node is becoming the closest to the appId,
the question is repeated until the deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.messages.jobs import Answer, NoJob
from agent.runtime.messages.programs import Log
from agent.runtime.messages.views.latency import LatencyView
from agent.runtime.messages.views.placement import PlacementView
from agent.runtime.model.fields import Message
from agent.runtime.requests.events import AskRefused, AskReply, JobQuestion
from agent.runtime.requests.pending import NoAnswer, PendingRequests

OPEN_MAX = 256
TIMEOUT_S = 10.0
RETRY_S = 0.5
"""Delay before a question to a job that exists is repeated."""


@dataclass(eq=False, slots=True)
class _Question:
    """`retry_at`: None while a request is on its way."""

    message: JobQuestion
    reply: Callable[[AskReply], None]
    deadline: float
    retry_at: float | None = None


class JobQuestions:
    """Asks jobs on behalf of this agent's clients or of its jobs; each reply is called once."""

    name = "questions"

    def __init__(self, pending: PendingRequests, directory: JobDirectory) -> None:
        self.refused = 0
        self._pending = pending
        self._directory = directory
        self._open: list[_Question] = []

    @property
    def is_empty(self) -> bool:
        return not self._open

    def ask(self, message: JobQuestion, reply: Callable[[AskReply], None], now: float) -> None:
        """Asks a job for its last results or the last lines of its log."""
        if len(self._open) >= OPEN_MAX:
            reply(AskRefused(unavailable=True))
            return
        question = _Question(message, reply, now + TIMEOUT_S)
        self._open.append(question)
        self._send(question, now)

    def _send(self, question: _Question, now: float) -> None:
        question.retry_at = None
        timeout_s = question.deadline - now
        self._pending.request(
            question.message, timeout_s, lambda answer, then: self._answered(question, answer, then), now
        )

    def _answered(self, question: _Question, answer: Message | NoAnswer, now: float) -> None:
        app_id = question.message.app_id
        match answer:
            case Answer() | Log() | PlacementView() | LatencyView() if answer.app_id == app_id:
                self._close(question, answer)
            case NoAnswer.TIMED_OUT:
                self._close(question, AskRefused(unavailable=True))
            case NoJob() if self._directory.get(app_id) is None:
                self._close(question, AskRefused(unavailable=False))
            case _:
                self.refused += not isinstance(answer, NoJob)
                question.retry_at = now + RETRY_S

    def _close(self, question: _Question, reply: AskReply) -> None:
        self._open.remove(question)
        question.reply(reply)

    def tick(self, now: float) -> None:
        """Repeats questions, and gives up those whose deadline has passed."""
        for question in [one for one in self._open if one.retry_at is not None]:
            if now >= question.deadline:
                self._close(question, AskRefused(unavailable=True))
            elif question.retry_at is not None and now >= question.retry_at:
                self._send(question, now)

    def statistics(self) -> Mapping[str, int]:
        return {"refused": self.refused, "open": len(self._open)}
