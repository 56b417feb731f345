"""What an agent and the program of a job say to each other, one msgpack message a frame.

The agent makes *calls*, one for each callback, which the program answers in their order with any number of *acts*.
Within a call a program may wait for an `Answered`, which is no call. Bodies of typed messages are the job's own
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


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where in the job's tree the program is, and when (epoch ms): as of the call that brings it."""

    is_root: bool
    parent: str
    children: list[str]
    now_ms: int
    version: int


class Typed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message of a job: the name of its type, and what it holds."""

    type: Name
    body: Body


# Calls.


class Call(msgspec.Struct, frozen=True, tag=True):
    """Base of all calls."""

    place: Place


class Load(Call, frozen=True, tag=True):
    """The first call: this is the job's code. `agent` and `node_id` are those of the agent beside it."""

    app: str
    agent: str
    node_id: str
    source: bytes


class Tick(Call, frozen=True, tag=True):
    """on_timer."""


class Heard(Call, frozen=True, tag=True):
    """on_multicast."""

    app: str
    message: Typed


class Delivered(Call, frozen=True, tag=True):
    """deliver: to be answered by `Reply` under this ticket."""

    ticket: Ticket
    app: str
    message: Typed


class Published(Call, frozen=True, tag=True):
    """on_result: a window of the job as its JSON line, of a stage of it, or of one that it has subscribed to."""

    app: str
    json: bytes
    stage: str = ""


class Events(Call, frozen=True, tag=True):
    """map: events by column, to be answered by `Mapped` under this number."""

    batch: Ticket
    times: list[int]
    columns: dict[str, list[Any]]


class Received(Call, frozen=True, tag=True):
    """on_recv: a child's PAOs, held by the agent under this token."""

    node: str
    token: Ticket


class Answered(msgspec.Struct, frozen=True, tag=True):
    """What a program waits for: a reply's message, windows as JSON lines, rows, or why there is none."""

    ticket: Ticket
    refusal: str | None = None
    message: Typed | None = None
    windows: list[bytes] = []
    rows: list[dict[str, Any]] = []


ToProgram = Load | Tick | Heard | Delivered | Published | Events | Received | Answered


# Acts.


class About(msgspec.Struct, frozen=True):
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


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """The code is there, and the job's object made."""

    about: About


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A callback, or the code itself, has raised; the program is over. `reason`: one line; `text`: the traceback."""

    reason: Text
    text: Text


class Said(msgspec.Struct, frozen=True, tag=True):
    """A line for the job's log."""

    text: Text


class Multicast(msgspec.Struct, frozen=True, tag=True):
    """multicast, at the root."""

    message: Typed


class Route(msgspec.Struct, frozen=True, tag=True):
    """route: to another job's master, whose `Answered` is waited for."""

    ticket: Ticket
    app: Name
    message: Typed
    deadline_s: Annotated[float, msgspec.Meta(gt=0, le=60)]


class Ask(msgspec.Struct, frozen=True, tag=True):
    """The last windows of a job are waited for."""

    ticket: Ticket
    app: Name
    windows: Annotated[int, msgspec.Meta(ge=1, le=64)]
    deadline_s: Annotated[float, msgspec.Meta(gt=0, le=60)]


class Reply(msgspec.Struct, frozen=True, tag=True):
    """What `deliver` returned, or why it does not answer."""

    ticket: Ticket
    message: Typed | None
    refusal: Text | None = None


class Subscribe(msgspec.Struct, frozen=True, tag=True):
    """subscribe: this job's windows come as `Published` from now on."""

    app: Name


class Insert(msgspec.Struct, frozen=True, tag=True):
    """cbt.insert: rows as if they were events of this moment."""

    columns: dict[str, list[Any]]


class Mapped(msgspec.Struct, frozen=True, tag=True):
    """What `map` made of a batch: rows by column, and of which event each one is."""

    batch: Ticket
    origins: list[Annotated[int, msgspec.Meta(ge=0, le=2**31)]]
    columns: dict[str, list[Any]]


class Flush(msgspec.Struct, frozen=True, tag=True):
    """cbt.flush: the PAOs gathered so far, to be held under this token."""

    token: Ticket


class Empty(msgspec.Struct, frozen=True, tag=True):
    """cbt.empty."""


class Returned(msgspec.Struct, frozen=True, tag=True):
    """The callback that has flushed is over: what came meanwhile may be gathered."""


class Read(msgspec.Struct, frozen=True, tag=True):
    """The rows of PAOs are waited for."""

    ticket: Ticket
    token: Ticket


class SendTo(msgspec.Struct, frozen=True, tag=True):
    """send_to the parent: PAOs are those of this pane (epoch ms)."""

    token: Ticket
    pane: int


class Show(msgspec.Struct, frozen=True, tag=True):
    """show: a JSON text for the web server beside this agent."""

    json: Body


class Change(msgspec.Struct, frozen=True, tag=True):
    """update, at the root: to a query of the job, by its name."""

    query: Name
    reset: bool


FromProgram = (
    Loaded | Failed | Said | Multicast | Route | Ask | Reply | Subscribe | Insert | Mapped
    | Flush | Empty | Returned | Read | SendTo | Show | Change
)  # fmt: skip

_to_program: msgspec.msgpack.Decoder[ToProgram] = msgspec.msgpack.Decoder(ToProgram)
_from_program: msgspec.msgpack.Decoder[FromProgram] = msgspec.msgpack.Decoder(FromProgram)
_encoder = msgspec.msgpack.Encoder()


def encode(message: Call | Answered | FromProgram) -> bytes:
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
