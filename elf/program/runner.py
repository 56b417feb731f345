"""Answers an agent's calls with the callbacks of a job's object."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Mapping
from typing import IO, Any, cast

from agent.programs import calls
from agent.programs.calls import TEXT_CHARACTERS_MAX
from elf.job import Job, JobError
from elf.job_messages import MessageError
from elf.job_window import read_window
from elf.program.aggregates import FoldedAggregates
from elf.program.code import CodeError, about, load_code, one_line, trace
from elf.program.elements import RunningElements, event_classes
from elf.program.failures import ElementFailedError
from elf.program.job_context import AgentWire, JobContext, columns_of


class Runner:
    """Takes the agent's calls in order.

    An exception of the job's code is reported as `Failed`; only MemoryError passes through. The caller marks each call
    as done; the runner itself does so for calls it has read from the wire.
    """

    def __init__(self, wire: AgentWire) -> None:
        self._wire = wire
        self._context: JobContext | None = None
        self._job: Job | None = None
        self._elements: RunningElements | None = None
        self._aggregates = FoldedAggregates({})
        self._is_over = False
        self._waiting: deque[bytes] = deque()

    def __call__(self, payload: bytes) -> None:
        """Answers one call, and those that came meanwhile."""
        self._take(payload)
        while self._waiting:
            self._wire.done()
            self._take(self._waiting.popleft())

    def _take(self, payload: bytes) -> None:
        message = calls.read_call(payload)
        if self._is_over or isinstance(message, calls.AnswerArrived):
            return  # an answer that its callback no longer awaits
        try:
            if isinstance(message, calls.LoadCode):
                self._load(message)
            else:
                self._call(message)
        except MemoryError:
            raise
        except CodeError as error:
            self._fail(str(error), error.text)
        except ElementFailedError as error:
            cause = error.__cause__
            reason = str(error) if cause is None else f"{error}: {one_line(cause)}"
            self._fail(reason, trace(cause) if cause is not None else reason)
        except BaseException as error:
            self._fail(one_line(error), trace(error))

    def _fail(self, reason: str, text: str) -> None:
        self._is_over = True
        self._wire.write(calls.encode(calls.CallbackFailed(reason[:TEXT_CHARACTERS_MAX], text[-TEXT_CHARACTERS_MAX:])))

    def _load(self, load: calls.LoadCode) -> None:
        context = self._context = JobContext(self._wire, load, self._waiting.append)
        with _printing_to(context):
            code = load_code(load.source)
            kind, context.messages = code.kind, code.messages
            description = about(kind)
            context.stages = description.stages
            job = kind.__new__(kind)
            job._elf = context
            job.__init__()  # type: ignore[misc]
            if description.elements is not None:
                self._elements = RunningElements(
                    description.elements,
                    kind.elements,
                    event_classes(vars(sys.modules[kind.__module__])),
                    context.act,
                    context.log,
                    is_random=b"random" in load.source,
                )
        self._job = job
        self._aggregates = FoldedAggregates(kind.aggregates)
        context.act(calls.CodeLoaded(description))

    def _call(self, call: calls.ProgramCall) -> None:
        job, context = self._job, self._context
        assert job is not None, "code is loaded by the first call"
        assert context is not None
        context.set_place(call.place)
        with _printing_to(context):
            match call:
                case calls.TimerTick():
                    job.on_timer()
                case calls.MulticastArrived(app=app, message=typed):
                    self._receive_multicast(job, context, app, typed)
                case calls.WindowPublished(json=json, stage=stage):
                    job.on_result(read_window(json, stage))
                case calls.MapEvents():
                    context.act(_mapped(job, call))
                case calls.FoldStates():
                    context.act(self._aggregates.answer(call))
                case calls.ChildPaosReceived(node=node, token=token):
                    job.on_recv(node, context.held(token))
                case calls.RequestDelivered():
                    self._deliver(job, context, call)
                case calls.ElementCall():
                    assert self._elements is not None, "only jobs with elements are asked for them"
                    self._elements.call(call)
        context.end_callback()

    def _receive_multicast(self, job: Job, context: JobContext, app: str, typed: calls.TypedMessage) -> None:
        try:
            message = context.messages.decode(typed)
        except MessageError as error:
            context.log(f"a multicast of {app} is not understood: {error}")
        else:
            job.on_multicast(app, message)

    def _deliver(self, job: Job, context: JobContext, call: calls.RequestDelivered) -> None:
        try:
            answer = job.deliver(call.app, context.messages.decode(call.message))
            reply = None if answer is None else context.messages.encode(answer)
        except (JobError, MessageError) as error:
            context.act(calls.ReplyCall(call.ticket, None, str(error)[:500]))
        else:
            context.act(calls.ReplyCall(call.ticket, reply))


def _mapped(job: Job, events: calls.MapEvents) -> calls.EventsMapped:
    origins: list[int] = []
    rows: list[Mapping[str, Any]] = []
    names, values = list(events.columns), list(events.columns.values())
    for origin in range(len(events.times)):
        event = {name: column[origin] for name, column in zip(names, values, strict=True)}
        event["@time"] = events.times[origin]
        made = job.map(event)
        if made is None:
            continue
        found = [made] if isinstance(made, Mapping) else list(made)
        rows += found
        origins += [origin] * len(found)
    return calls.EventsMapped(events.batch, origins, columns_of(rows))


def _printing_to(context: JobContext) -> contextlib.AbstractContextManager[object]:
    return contextlib.redirect_stdout(cast(IO[str], _Log(context)))


class _Log:
    """Standard output, as `print` uses it."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._context.log(line)
        if len(self._begun) > TEXT_CHARACTERS_MAX:
            self._context.log(self._begun)
            self._begun = ""
        return len(text)

    def flush(self) -> None:
        """Nothing to do: lines are sent as they end."""
