"""What an agent and the program of a job say to each other, one msgpack message a frame.

The agent makes *calls*, one for each callback, which the program answers in their order with any number of *acts*.
Within a call a program may wait for an `AnswerArrived`, which is no call. Bodies of typed messages are the job's own
msgpack; nobody but its programs looks into them. This module is loaded in the program's process too: it stays light.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

BODY_BYTES_MAX = 64 << 10
"""One message of a job, encoded."""
TEXT_CHARACTERS_MAX = 8192
"""One line of a job's log, or a traceback."""

STAGES_MAX = 8
"""Of one job."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Body = Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARACTERS_MAX)]
Ticket = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class TreePosition(msgspec.Struct, frozen=True, array_like=True):
    """Where in the job's tree the program is, and when (epoch ms): as of the call that brings it."""

    is_root: bool
    parent: str
    children: list[str]
    now_ms: int
    version: int


class TypedMessage(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message of a job: the name of its type, and what it holds."""

    type: Name
    body: Body


# Calls.


class ProgramCall(msgspec.Struct, frozen=True, tag=True):
    """Base of all calls."""

    place: TreePosition


class LoadCode(ProgramCall, frozen=True, tag=True):
    """The first call: this is the job's code. `agent` and `node_id` are those of the agent beside it."""

    app: str
    agent: str
    node_id: str
    source: bytes


class TimerTick(ProgramCall, frozen=True, tag=True):
    """on_timer."""


class MulticastArrived(ProgramCall, frozen=True, tag=True):
    """on_multicast."""

    app: str
    message: TypedMessage


class RequestDelivered(ProgramCall, frozen=True, tag=True):
    """deliver: to be answered by `ReplyCall` under this ticket."""

    ticket: Ticket
    app: str
    message: TypedMessage


class WindowPublished(ProgramCall, frozen=True, tag=True):
    """on_result: a window of the job as its JSON line, of a stage of it, or of one that it has subscribed to."""

    app: str
    json: bytes
    stage: str = ""


class MapEvents(ProgramCall, frozen=True, tag=True):
    """map: events by column, to be answered by `EventsMapped` under this number."""

    batch: Ticket
    times: list[int]
    columns: dict[str, list[Any]]


class ChildPaosReceived(ProgramCall, frozen=True, tag=True):
    """on_recv: a child's PAOs, held by the agent under this token."""

    node: str
    token: Ticket


class AnswerArrived(msgspec.Struct, frozen=True, tag=True):
    """What a program waits for: a reply's message, windows as JSON lines, rows, or why there is none."""

    ticket: Ticket
    refusal: str | None = None
    message: TypedMessage | None = None
    windows: list[bytes] = []
    rows: list[dict[str, Any]] = []


ToProgram = (
    LoadCode
    | TimerTick
    | MulticastArrived
    | RequestDelivered
    | WindowPublished
    | MapEvents
    | ChildPaosReceived
    | AnswerArrived
)


# Acts.


class JobDescription(msgspec.Struct, frozen=True):
    """What a job says of itself. `reads`: the columns `map` wants of events, with their types.

    The flags tell which callbacks it has of its own.
    """

    app: str
    query: str
    queries: dict[str, str]
    stages: Annotated[dict[Name, str], msgspec.Meta(max_length=STAGES_MAX)]
    timer_s: float | None
    reads: dict[str, str]
    drives: bool
    maps: bool
    receives: bool
    delivers: bool


class CodeLoaded(msgspec.Struct, frozen=True, tag=True):
    """The code is there, and the job's object made."""

    about: JobDescription


class CallbackFailed(msgspec.Struct, frozen=True, tag=True):
    """A callback, or the code itself, has raised; the program is over. `reason`: one line; `text`: the traceback."""

    reason: Text
    text: Text


class WriteLog(msgspec.Struct, frozen=True, tag=True):
    """A line for the job's log."""

    text: Text


class MulticastCall(msgspec.Struct, frozen=True, tag=True):
    """multicast, at the root."""

    message: TypedMessage


class RouteCall(msgspec.Struct, frozen=True, tag=True):
    """route: to another job's master, whose `AnswerArrived` is waited for."""

    ticket: Ticket
    app: Name
    message: TypedMessage
    deadline_s: Annotated[float, msgspec.Meta(gt=0, le=60)]


class AskCall(msgspec.Struct, frozen=True, tag=True):
    """The last windows of a job are waited for."""

    ticket: Ticket
    app: Name
    windows: Annotated[int, msgspec.Meta(ge=1, le=64)]
    deadline_s: Annotated[float, msgspec.Meta(gt=0, le=60)]


class ReplyCall(msgspec.Struct, frozen=True, tag=True):
    """What `deliver` returned, or why it does not answer."""

    ticket: Ticket
    message: TypedMessage | None
    refusal: Text | None = None


class SubscribeCall(msgspec.Struct, frozen=True, tag=True):
    """subscribe: this job's windows come as `WindowPublished` from now on."""

    app: Name


class InsertCall(msgspec.Struct, frozen=True, tag=True):
    """cbt.insert: rows as if they were events of this moment."""

    columns: dict[str, list[Any]]


class EventsMapped(msgspec.Struct, frozen=True, tag=True):
    """What `map` made of a batch: rows by column, and of which event each one is."""

    batch: Ticket
    origins: list[Annotated[int, msgspec.Meta(ge=0, le=2**31)]]
    columns: dict[str, list[Any]]


class FlushCall(msgspec.Struct, frozen=True, tag=True):
    """cbt.flush: the PAOs gathered so far, to be held under this token."""

    token: Ticket


class EmptyCall(msgspec.Struct, frozen=True, tag=True):
    """cbt.empty."""


class CallbackReturned(msgspec.Struct, frozen=True, tag=True):
    """The callback that has flushed is over: what came meanwhile may be gathered."""


class ReadCall(msgspec.Struct, frozen=True, tag=True):
    """The rows of PAOs are waited for."""

    ticket: Ticket
    token: Ticket


class SendCall(msgspec.Struct, frozen=True, tag=True):
    """send_to the parent: PAOs are those of this pane (epoch ms)."""

    token: Ticket
    pane: int


class ShowCall(msgspec.Struct, frozen=True, tag=True):
    """show: a JSON text for the web server beside this agent."""

    json: Body


class UpdateCall(msgspec.Struct, frozen=True, tag=True):
    """update, at the root: to a query of the job, by its name."""

    query: Name
    reset: bool


FromProgram = (
    CodeLoaded | CallbackFailed | WriteLog | MulticastCall | RouteCall | AskCall | ReplyCall | SubscribeCall
    | InsertCall | EventsMapped | FlushCall | EmptyCall | CallbackReturned | ReadCall | SendCall | ShowCall | UpdateCall
)  # fmt: skip

_to_program: msgspec.msgpack.Decoder[ToProgram] = msgspec.msgpack.Decoder(ToProgram)
_from_program: msgspec.msgpack.Decoder[FromProgram] = msgspec.msgpack.Decoder(FromProgram)
_encoder = msgspec.msgpack.Encoder()


def encode(message: ProgramCall | AnswerArrived | FromProgram) -> bytes:
    """One message as a frame's payload."""
    return _encoder.encode(message)


def read_call(payload: bytes) -> ToProgram:
    """What the agent says; the agent is believed."""
    return _to_program.decode(payload)


def read_act(payload: bytes) -> FromProgram:
    """What a program says. Raises ValueError, in one line, for anything else: programs are not believed."""
    try:
        return _from_program.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
