"""Carries out the calls of a job's object by sending acts to the agent."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from agent.programs import calls
from agent.programs.calls import BODY_BYTES_MAX, TEXT_CHARACTERS_MAX, ProgramPosition
from elf.job import Cbt, JobError, NoAnswerError, Paos, Window
from elf.job_messages import Messages
from elf.job_window import read_window

UNCHECKED = (calls.EventsMapped, calls.StatesFolded, calls.ElementsProcessed, calls.StatesTaken)
"""Acts that are frequent and large: the agent checks them."""


class AgentWire(Protocol):
    """Frames to and from the agent."""

    def read(self) -> bytes: ...
    def write(self, data: bytes) -> None: ...
    def done(self) -> None: ...


class PaoToken:
    """PAOs that the agent holds under a token."""

    def __init__(self, token: int, read: Callable[[int], list[dict[str, Any]]]) -> None:
        self.token = token
        self._read = read

    def rows(self) -> list[dict[str, Any]]:
        return self._read(self.token)


class JobCbt:
    """The agent's tree, for this job."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def insert(self, *rows: Mapping[str, Any]) -> None:
        if rows:
            self._context.act(calls.InsertCall(columns_of(rows)))

    def flush(self) -> Paos:
        token = next(self._context.numbers)
        self._context.has_flushed = True
        self._context.act(calls.FlushCall(token))
        return self._context.held(token)

    def empty(self) -> None:
        self._context.act(calls.EmptyCall())


class JobContext:
    """The agent, as a job's object sees it. `waiting` gets calls that come while an answer is awaited."""

    def __init__(self, wire: AgentWire, load: calls.LoadCode, waiting: Callable[[bytes], None]) -> None:
        self.app, self.agent, self.node_id = load.app, load.agent, load.node_id
        self.messages = Messages({})
        self.cbt: Cbt = JobCbt(self)
        self.numbers = itertools.count(1)
        self.has_flushed = False
        self.stages: Mapping[str, str] = {}
        self._wire = wire
        self._waiting = waiting
        self.set_place(load.place)

    def set_place(self, place: ProgramPosition) -> None:
        """Sets the state of the agent as of the current call."""
        self.is_root, self.parent, self.children = place.is_root, place.parent, tuple(place.children)
        self.now_ms, self.version = place.now_ms, place.version

    def act(self, act: calls.FromProgram) -> None:
        """Sends an act to the agent. Raises JobError for values that cannot be sent."""
        try:
            payload = calls.encode(act)
            if not isinstance(act, UNCHECKED):
                calls.read_act(payload)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise JobError(f"this cannot be sent to the agent: {error}") from None
        self._wire.write(payload)

    def end_callback(self) -> None:
        """Ends a callback."""
        if self.has_flushed:
            self.has_flushed = False
            self.act(calls.CallbackReturned())

    def multicast(self, message: object) -> None:
        self._only_at_the_root("multicast")
        self.act(calls.MulticastCall(self.messages.encode(message)))

    def route(self, app: str, message: object, deadline_s: float) -> Any:
        ticket = next(self.numbers)
        self.act(calls.RouteCall(ticket, app, self.messages.encode(message), deadline_s))
        answer = self._answer(ticket)
        return None if answer.message is None else self.messages.decode(answer.message)

    def ask(self, app: str, windows: int, deadline_s: float) -> list[Window]:
        ticket = next(self.numbers)
        self.act(calls.AskCall(ticket, app, windows, deadline_s))
        stage = app if app in self.stages else ""
        return [read_window(json, stage) for json in self._answer(ticket).windows]

    def subscribe(self, app: str) -> None:
        self._only_at_the_root("subscribe")
        self.act(calls.SubscribeCall(app))

    def held(self, token: int) -> Paos:
        """PAOs that the agent holds under a token."""
        return PaoToken(token, self.read_rows)

    def read_rows(self, token: int) -> list[dict[str, Any]]:
        """The rows of PAOs that the agent holds."""
        ticket = next(self.numbers)
        self.act(calls.ReadCall(ticket, token))
        return self._answer(ticket).rows

    def send_to(self, node: str, paos: Paos, pane: int) -> None:
        if node != self.parent:
            raise JobError(f"{node} is not the parent: PAOs go to self.parent")
        if not isinstance(paos, PaoToken):
            raise JobError("these are no PAOs: send what cbt.flush gave")
        self.act(calls.SendCall(paos.token, pane))

    def update(self, query: str, reset: bool) -> None:
        self._only_at_the_root("update")
        self.act(calls.UpdateCall(query, reset))

    def show(self, value: object) -> None:
        json = msgspec.json.encode(value)
        if len(json) > BODY_BYTES_MAX:
            raise JobError(f"a value that is shown has at most {BODY_BYTES_MAX:,} bytes as JSON, not {len(json):,}")
        self.act(calls.ShowCall(json))

    def log(self, text: str) -> None:
        for line in str(text).splitlines() or [""]:
            self.act(calls.WriteLog(line[:TEXT_CHARACTERS_MAX]))

    def _only_at_the_root(self, call: str) -> None:
        if not self.is_root:
            raise JobError(f"only the job's master can {call}: ask self.is_root first")

    def _answer(self, ticket: int) -> calls.AnswerArrived:
        """Waits for an answer; calls that come meanwhile are queued. Raises NoAnswerError."""
        while True:
            payload = self._wire.read()
            message = calls.read_call(payload)
            if not isinstance(message, calls.AnswerArrived):
                self._waiting(payload)
            elif message.ticket == ticket:
                if message.refusal is not None:
                    raise NoAnswerError(message.refusal)
                return message


def columns_of(rows: tuple[Mapping[str, Any], ...] | list[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns, None where a row has no value.

    >>> columns_of([{"a": 1}, {"b": 2}])
    {'a': [1, None], 'b': [None, 2]}
    """
    columns: dict[str, list[Any]] = {}
    for number, row in enumerate(rows):
        for name, value in row.items():
            if name not in columns:
                columns[name] = [None] * number
            columns[name].append(value)
        for values in columns.values():
            if len(values) == number:
                values.append(None)
    return columns
