"""Messages between an agent and the program of a job, one msgpack message a frame.

The agent makes *calls*, one for each callback, which the program answers in order with any number of *acts*. Within a
call a program may wait for an `AnswerArrived`, which is no call. Bodies of typed messages are the job's own msgpack;
only its programs decode them. The program's process loads this module too, so it imports little.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from agent.programs.element_graph import ElementGraph

BODY_BYTES_MAX = 64 << 10
"""Upper bound on one message of a job, encoded."""
TEXT_CHARACTERS_MAX = 8192
"""Upper bound on one line of a job's log, and on a traceback."""

STAGES_MAX = 8
"""Upper bound on the stages of one job."""
AGGREGATES_MAX = 16
"""Upper bound on the aggregates that one job defines."""
SEPARATOR = "\x1f"
"""Stands between the texts of a column; columns in which a text has it are lists."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Body = Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARACTERS_MAX)]
Ticket = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class ProgramPosition(msgspec.Struct, frozen=True, array_like=True):
    """The program's place in the job's tree, and the time (epoch ms) of the call that brings it."""

    is_root: bool
    parent: str
    children: list[str]
    now_ms: int
    version: int


class TypedMessage(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message of a job: the name of its type, and its encoded fields."""

    type: Name
    body: Body


class AnswerError(ValueError):
    """A program has answered what it cannot have been asked; the message continues "its process"."""


class PackedColumn(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The values of a column of elements.

    `numbers`: of kind "q" (Int64) and "d" (Float64), 8 bytes each, little-endian; "b" (Boolean), a byte each. `texts`:
    of kind "s", with `SEPARATOR` between them; "j" for JSON texts. `values`: of kind "l", any, also None.
    """

    kind: Literal["q", "d", "b", "s", "j", "l"]
    numbers: bytes = b""
    texts: str = ""
    values: list[Any] = []


class States(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """States of elements of one prototype: the logical node (UInt16) of each, the columns of its key, the time of its
    last event, the number of events since its last output, and the time of its next output (Int64, 0 for none). `gone`
    has a byte for each, 1 for one that is removed. `columns`: the attributes.
    """

    nodes: bytes
    keys: list[PackedColumn]
    gone: bytes
    seen: bytes
    counts: bytes
    due: bytes
    columns: dict[str, PackedColumn]


# Calls.


class ProgramCall(msgspec.Struct, frozen=True, tag=True):
    """Base of all calls."""

    place: ProgramPosition


class LoadCode(ProgramCall, frozen=True, tag=True):
    """The first call; brings the job's code. `agent` and `node_id` are those of the program's agent."""

    app: str
    agent: str
    node_id: str
    source: bytes


class TimerTick(ProgramCall, frozen=True, tag=True):
    """Calls on_timer."""


class MulticastArrived(ProgramCall, frozen=True, tag=True):
    """Calls on_multicast."""

    app: str
    message: TypedMessage


class RequestDelivered(ProgramCall, frozen=True, tag=True):
    """Calls deliver; the program answers with a `ReplyCall` under this ticket."""

    ticket: Ticket
    app: str
    message: TypedMessage


class WindowPublished(ProgramCall, frozen=True, tag=True):
    """Calls on_result with a window of the job, of one of its stages, or of a job it subscribes to, as a JSON line."""

    app: str
    json: bytes
    stage: str = ""


class MapEvents(ProgramCall, frozen=True, tag=True):
    """Calls map with events by column; the program answers with `EventsMapped` under this number."""

    batch: Ticket
    times: list[int]
    columns: dict[str, list[Any]]


class FoldStates(ProgramCall, frozen=True, tag=True):
    """Has an aggregate of the job make one text of all texts of each group; answered by `StatesFolded`.

    Rows come in the order of `groups` (UInt32), their numbers; `occurrences` (Int64): how often each text occurs. The
    program `finishes` groups with their results, else they become states. Kinds of texts:
    `cbt.aggregates.program_states`.
    """

    ticket: Ticket
    aggregate: Name
    groups: bytes
    texts: list[str | None]
    occurrences: bytes
    finishes: bool = False


class ChildPaosReceived(ProgramCall, frozen=True, tag=True):
    """Calls on_recv with a child's PAOs, which the agent holds under this token."""

    node: str
    token: Ticket


class ElementCall(ProgramCall, frozen=True, tag=True):
    """Base of the calls of processing elements: those that the prototype of the name `element` is cloned to."""

    element: Name


class ProcessElements(ElementCall, frozen=True, tag=True):
    """Calls process_event of elements with events of a type, in order; answered by `ElementsProcessed`.

    `nodes` (UInt16), `times` (Int64) and, for elements without a key, `seqs` (Int64) have a value a row. `key`: the
    columns that are the key; none for a constant one. `numbers` (UInt32): the number of each row's key among those
    `numbered` under this `numbering`, in which keys keep their numbers; empty where no key differs.
    """

    ticket: Ticket
    event_type: Name
    nodes: bytes
    times: bytes
    columns: dict[str, PackedColumn]
    key: list[Name] | None
    seqs: bytes = b""
    numbers: bytes = b""
    numbering: Ticket = 0
    numbered: Ticket = 0


class AdvanceElements(ElementCall, frozen=True, tag=True):
    """Calls output of elements for each boundary of `every_s` up to the watermark; answered by `ElementsProcessed`.

    `is_bounded`: the input ends, and output is called after events alone.
    """

    ticket: Ticket
    watermark_ms: int
    is_bounded: bool = False


class TakeStates(ElementCall, frozen=True, tag=True):
    """Asks for the states of these logical nodes, or for those that have changed since they were asked for last."""

    ticket: Ticket
    nodes: list[int] | None


class PutStates(ElementCall, frozen=True, tag=True):
    """Brings states of elements that others have hosted; answered by `ElementsProcessed`."""

    ticket: Ticket
    states: States


class DropStates(ElementCall, frozen=True, tag=True):
    """Forgets the elements of these logical nodes; answered by `ElementsProcessed`."""

    ticket: Ticket
    nodes: list[int]


class EvictStates(ElementCall, frozen=True, tag=True):
    """Removes elements until at most `bytes_max` are in use; answered by `ElementsProcessed`."""

    ticket: Ticket
    bytes_max: int
    watermark_ms: int


class AnswerArrived(msgspec.Struct, frozen=True, tag=True):
    """The answer a program waits for: a reply's message, windows as JSON lines, rows, or the reason there is none."""

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
    | FoldStates
    | ChildPaosReceived
    | ProcessElements
    | AdvanceElements
    | TakeStates
    | PutStates
    | DropStates
    | EvictStates
    | AnswerArrived
)


# Acts.


class JobDescription(msgspec.Struct, frozen=True):
    """The declarations of a job. `reads` are the columns of events that `map` takes, with their types. `aggregates`:
    the type of the results of each of its own aggregates, by its name in capitals, with ":rigid" after it where it has
    no combine.

    The flags say which callbacks the job defines.
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
    elements: ElementGraph | None = None
    aggregates: Annotated[dict[Name, str], msgspec.Meta(max_length=AGGREGATES_MAX)] = {}


class CodeLoaded(msgspec.Struct, frozen=True, tag=True):
    """The code is loaded and the job's object made."""

    about: JobDescription


class CallbackFailed(msgspec.Struct, frozen=True, tag=True):
    """A callback or the code itself raised, and the program ends. `reason` is one line, `text` the traceback."""

    reason: Text
    text: Text


class WriteLog(msgspec.Struct, frozen=True, tag=True):
    """Writes a line to the job's log."""

    text: Text


class MulticastCall(msgspec.Struct, frozen=True, tag=True):
    """Multicasts a message from the root."""

    message: TypedMessage


class RouteCall(msgspec.Struct, frozen=True, tag=True):
    """Sends a message to another job's master and waits for the `AnswerArrived`."""

    ticket: Ticket
    app: Name
    message: TypedMessage
    deadline_s: Annotated[float, msgspec.Meta(gt=0, le=60)]


class AskCall(msgspec.Struct, frozen=True, tag=True):
    """Asks for the last windows of a job and waits for them."""

    ticket: Ticket
    app: Name
    windows: Annotated[int, msgspec.Meta(ge=1, le=64)]
    deadline_s: Annotated[float, msgspec.Meta(gt=0, le=60)]


class ReplyCall(msgspec.Struct, frozen=True, tag=True):
    """The result of `deliver`, or the reason there is none."""

    ticket: Ticket
    message: TypedMessage | None
    refusal: Text | None = None


class SubscribeCall(msgspec.Struct, frozen=True, tag=True):
    """Subscribes to a job, whose windows come as `WindowPublished` from now on."""

    app: Name


class InsertCall(msgspec.Struct, frozen=True, tag=True):
    """Inserts rows as if they were events of this moment."""

    columns: dict[str, list[Any]]


class EventsMapped(msgspec.Struct, frozen=True, tag=True):
    """The result of `map` for a batch: rows by column, and the event each row comes from."""

    batch: Ticket
    origins: list[Annotated[int, msgspec.Meta(ge=0, le=2**31)]]
    columns: dict[str, list[Any]]


class StatesFolded(msgspec.Struct, frozen=True, tag=True):
    """The answer to `FoldStates`: the groups' numbers (UInt32) in order, each once, and the text of each, None where it
    has no value."""

    ticket: Ticket
    groups: bytes
    texts: list[str | None]


class Emission(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Events of one type that elements have emitted, in order: `rows` of them.

    `origins` (UInt32): the row of the call that each comes from, None where it is its own number; for `output`, `nodes`
    (UInt16) instead. `times` (Int64): None where they are those of the origins.
    """

    type: Name
    rows: Annotated[int, msgspec.Meta(ge=0, le=2**31)]
    columns: dict[str, PackedColumn]
    origins: bytes | None = None
    nodes: bytes | None = None
    times: bytes | None = None


class ElementsProcessed(msgspec.Struct, frozen=True, tag=True):
    """The answer of elements, of which `has_more` parts follow. `elements`: how many there are, in about so many bytes;
    `evicted`: how many were removed so far; `failed`: calls of theirs that have raised. `reached_ms`: the watermark up
    to which `output` was called.
    """

    ticket: Ticket
    emitted: list[Emission]
    has_more: bool = False
    reached_ms: int | None = None
    elements: Ticket = 0
    memory_bytes: Ticket = 0
    evicted: Ticket = 0
    failed: Ticket = 0


class StatesTaken(msgspec.Struct, frozen=True, tag=True):
    """The states that were asked for, of which `has_more` parts follow."""

    ticket: Ticket
    states: States
    has_more: bool = False


class FlushCall(msgspec.Struct, frozen=True, tag=True):
    """Takes the PAOs gathered so far; the agent holds them under this token."""

    token: Ticket


class EmptyCall(msgspec.Struct, frozen=True, tag=True):
    """Empties the CBT."""


class CallbackReturned(msgspec.Struct, frozen=True, tag=True):
    """The callback that flushed has returned: events that came meanwhile may be gathered."""


class ReadCall(msgspec.Struct, frozen=True, tag=True):
    """Asks for the rows of PAOs and waits for them."""

    ticket: Ticket
    token: Ticket


class SendCall(msgspec.Struct, frozen=True, tag=True):
    """Sends PAOs to the parent as those of this pane (epoch ms)."""

    token: Ticket
    pane: int


class ShowCall(msgspec.Struct, frozen=True, tag=True):
    """Shows a JSON text through the web server beside this agent."""

    json: Body


class UpdateCall(msgspec.Struct, frozen=True, tag=True):
    """Updates the job to one of its queries, by name, from the root."""

    query: Name
    reset: bool


FromProgram = (
    CodeLoaded | CallbackFailed | WriteLog | MulticastCall | RouteCall | AskCall | ReplyCall | SubscribeCall
    | InsertCall | EventsMapped | StatesFolded | ElementsProcessed | StatesTaken | FlushCall | EmptyCall
    | CallbackReturned | ReadCall | SendCall | ShowCall | UpdateCall
)  # fmt: skip

_to_program: msgspec.msgpack.Decoder[ToProgram] = msgspec.msgpack.Decoder(ToProgram)
_from_program: msgspec.msgpack.Decoder[FromProgram] = msgspec.msgpack.Decoder(FromProgram)
_encoder = msgspec.msgpack.Encoder()


def encode(message: ProgramCall | AnswerArrived | FromProgram) -> bytes:
    """Encodes one message as a frame's payload."""
    return _encoder.encode(message)


def read_call(payload: bytes) -> ToProgram:
    """Decodes a message of the agent, which the program trusts."""
    return _to_program.decode(payload)


def read_act(payload: bytes) -> FromProgram:
    """Decodes a message of a program, which the agent does not trust. Raises ValueError, in one line."""
    try:
        return _from_program.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
