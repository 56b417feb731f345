"""Describes streams all over the fleet: answers other agents' questions, and merges their answers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import trio

import query
from agent.configuration.config import StreamConfig
from agent.control import messages as control
from agent.control.question_queue import QuestionQueue
from agent.driver import CoreDriver
from agent.feeding.stream_sample import by_name, merged, sample, united
from agent.runtime.agent import Agent
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.messages.views.descriptions import StreamDescription
from agent.runtime.requests.events import StreamAsked, StreamSurveyed

WAITING_MAX = 16
"""Upper bound on questions that wait for earlier ones to be answered; further ones get no answer."""


class StreamSampler:
    """Answers other agents' questions about a stream from samples of this agent's files."""

    def __init__(self, streams: Iterable[StreamConfig], driver: CoreDriver, agent: Agent) -> None:
        self.streams = tuple(streams)
        """The streams of this agent."""
        self._driver = driver
        self._agent = agent
        self._questions: QuestionQueue[StreamAsked] = QuestionQueue(WAITING_MAX)
        self.ask = self._questions.ask

    async def run(self) -> None:
        """Answers one question after the other until it is cancelled."""
        while True:
            asked = await self._questions.next()
            seen = await trio.to_thread.run_sync(self._seen, asked, abandon_on_cancel=True)
            self._driver.do(partial(self._agent.discovery.answer, asked, seen))

    def _seen(self, asked: StreamAsked) -> StreamDescription:
        streams = [stream for stream in self.streams if query.selects(asked.stream, stream.name)]
        samples = [sample(stream) for stream in streams]
        columns = united(column for found, _ in samples for column in found)
        is_open = any(is_open for _, is_open in samples)
        return StreamDescription(FLEET_GROUP, asked.question, bool(streams), columns, is_open)


def surveyed(stream: str, found: StreamSurveyed) -> control.Surveyed | control.Refused:
    """Merges the answers of all agents for people."""
    having = [answer for answer in found.answers.values() if answer.has_stream]
    asked = len(found.answers) + found.silent
    if not having:
        answered = f"none of the {len(found.answers)} agents that have answered has it"
        silent = f"; {found.silent} have not" if found.silent else ""
        return control.Refused("usage", f"there is no stream {stream}: {answered}{silent}")
    columns = []
    for name, seen in sorted(by_name(column for answer in having for column in answer.columns).items()):
        whole = merged(seen)
        columns.append(control.SurveyedColumn(name, whole.type, len(seen), whole.example))
    return control.Surveyed(stream, columns, any(answer.open for answer in having), len(having), asked, found.silent)
