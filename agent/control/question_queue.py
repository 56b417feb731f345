"""Keeps questions of other agents until they are answered, one after the other."""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

Question = TypeVar("Question")


class QuestionQueue(Generic[Question]):
    """At most `waiting_max` questions that wait; further ones are dropped, and get no answer."""

    def __init__(self, waiting_max: int) -> None:
        self._asked, self._waiting = trio.open_memory_channel[Question](waiting_max)

    def ask(self, question: Question) -> None:
        """Queues a question, if there is room."""
        try:
            self._asked.send_nowait(question)
        except trio.WouldBlock:
            return

    async def next(self) -> Question:
        """Waits for the oldest question."""
        return await self._waiting.receive()
