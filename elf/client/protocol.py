"""The client's end of one control connection without the socket: bytes in, answers out, and the other way round.

A connection carries one request, and a table lists its possible answers. `ATTACHED` is the state of a client that
receives a job's windows, or how far an agent's departure has come, `DONE` that of one that has its last answer:

    IDLE ──request──▶ ASKED ──Accepted──▶ ATTACHED ──Ended──▶ DONE
                        └──Updated, Stopped, Answered, ... ─────────▲

Refused leads to DONE from everywhere; bytes after it are ignored.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from agent.control.messages import (
    LINE_BYTES_MAX,
    NO_REQUEST,
    REQUEST_BYTES_MAX,
    Accepted,
    Acknowledged,
    Analysed,
    AnalyseRequest,
    Answer,
    AskAnswer,
    AskRequest,
    Described,
    DescribeRequest,
    Drained,
    Draining,
    DrainRequest,
    DryRuns,
    Elements,
    EmitRequest,
    Ended,
    EventsSent,
    Fleet,
    FollowRequest,
    GetElements,
    GetFleet,
    GetJobs,
    GetLatency,
    GetLog,
    GetRights,
    GetStatus,
    GetTree,
    JobLatency,
    JobPlacement,
    Jobs,
    JobStopped,
    JobUpdated,
    LogExcerpt,
    PlaceGroups,
    PublishedWindow,
    QueryRequest,
    Refused,
    Reloaded,
    ReloadRequest,
    Request,
    Rights,
    RunDry,
    Status,
    StopRequest,
    SubmitRequest,
    Surveyed,
    SurveyRequest,
    Tapped,
    TapRequest,
    Tree,
    UpdateBundle,
    UpdateJob,
    WindowsLost,
)
from elf.client.errors import ConnectionLostError, ControlProtocolError, QueryRefusedError
from elf.terminal.terminal import printable

EXCERPT_CHARACTERS = 60
_OF_ANOTHER_RELEASE = (
    "an agent of another release than this elf may not know all of it; elf top --output json has the agents' versions"
)


class ConnectionState(Enum):
    """State of a connection, which determines the possible next answers."""

    IDLE = auto()
    ASKED = auto()
    ATTACHED = auto()
    DONE = auto()


_TRANSITIONS: dict[tuple[ConnectionState, type[Answer]], ConnectionState] = {
    (ConnectionState.ASKED, Accepted): ConnectionState.ATTACHED,
    (ConnectionState.ASKED, JobUpdated): ConnectionState.DONE,
    (ConnectionState.ASKED, JobStopped): ConnectionState.DONE,
    (ConnectionState.ASKED, Analysed): ConnectionState.DONE,
    (ConnectionState.ASKED, Described): ConnectionState.DONE,
    (ConnectionState.ASKED, Surveyed): ConnectionState.DONE,
    (ConnectionState.ASKED, AskAnswer): ConnectionState.DONE,
    (ConnectionState.ASKED, LogExcerpt): ConnectionState.DONE,
    (ConnectionState.ASKED, Jobs): ConnectionState.DONE,
    (ConnectionState.ASKED, Status): ConnectionState.DONE,
    (ConnectionState.ASKED, Rights): ConnectionState.DONE,
    (ConnectionState.ASKED, Fleet): ConnectionState.DONE,
    (ConnectionState.ASKED, Tree): ConnectionState.DONE,
    (ConnectionState.ASKED, Elements): ConnectionState.DONE,
    (ConnectionState.ASKED, JobPlacement): ConnectionState.DONE,
    (ConnectionState.ASKED, JobLatency): ConnectionState.DONE,
    (ConnectionState.ASKED, DryRuns): ConnectionState.DONE,
    (ConnectionState.ASKED, EventsSent): ConnectionState.DONE,
    (ConnectionState.ASKED, Reloaded): ConnectionState.DONE,
    (ConnectionState.ASKED, Refused): ConnectionState.DONE,
    (ConnectionState.ATTACHED, Acknowledged): ConnectionState.ATTACHED,
    (ConnectionState.ATTACHED, PublishedWindow): ConnectionState.ATTACHED,
    (ConnectionState.ATTACHED, WindowsLost): ConnectionState.ATTACHED,
    (ConnectionState.ATTACHED, Ended): ConnectionState.DONE,
    (ConnectionState.ASKED, Tapped): ConnectionState.ATTACHED,
    (ConnectionState.ATTACHED, Tapped): ConnectionState.ATTACHED,
    (ConnectionState.ASKED, Draining): ConnectionState.ATTACHED,
    (ConnectionState.ATTACHED, Draining): ConnectionState.ATTACHED,
    (ConnectionState.ATTACHED, Drained): ConnectionState.DONE,
    (ConnectionState.ATTACHED, Refused): ConnectionState.DONE,
}
_FIRST_ANSWERS: dict[type[Request], type[Answer]] = {
    QueryRequest: Accepted,
    SubmitRequest: Accepted,
    AnalyseRequest: Analysed,
    DescribeRequest: Described,
    SurveyRequest: Surveyed,
    FollowRequest: Accepted,
    UpdateJob: JobUpdated,
    UpdateBundle: JobUpdated,
    GetLog: LogExcerpt,
    StopRequest: JobStopped,
    AskRequest: AskAnswer,
    GetJobs: Jobs,
    GetStatus: Status,
    GetRights: Rights,
    GetFleet: Fleet,
    GetTree: Tree,
    GetElements: Elements,
    PlaceGroups: JobPlacement,
    GetLatency: JobLatency,
    RunDry: DryRuns,
    EmitRequest: EventsSent,
    TapRequest: Tapped,
    DrainRequest: Draining,
    ReloadRequest: Reloaded,
}
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


class ControlConnection:
    """One request and its answers. `where` names the agent's socket in complaints, `if_closed` the reasons of an agent
    that says nothing at all.
    """

    def __init__(self, where: str, *, line_bytes_max: int = LINE_BYTES_MAX, if_closed: str = "") -> None:
        self.state = ConnectionState.IDLE
        self._where = printable(where)
        self._line_bytes_max = line_bytes_max
        self._request: Request | None = None
        self._buffer = bytearray()
        self._searched = 0
        self._ended = False
        self._if_closed = if_closed

    def send(self, request: Request) -> bytes:
        """The bytes of the request; raises QueryRefusedError if no agent would take it."""
        assert self.state is ConnectionState.IDLE, "a connection carries one request"
        try:
            line = _ENCODER.encode(request) + b"\n"
        except UnicodeEncodeError:
            raise QueryRefusedError("the request is no text: it has bytes in it that are not UTF-8") from None
        if len(line) > REQUEST_BYTES_MAX:
            raise QueryRefusedError(f"the request is too long: {len(line):,} bytes, at most {REQUEST_BYTES_MAX:,}")
        self.state, self._request = ConnectionState.ASKED, request
        return line

    def receive_data(self, data: bytes) -> None:
        """Takes bytes from the agent; b"" means that it closed the connection."""
        if data:
            self._buffer += data
            self._if_closed = ""
        else:
            self._ended = True

    def next_answer(self) -> Answer | None:
        """The next whole answer; None until more data comes, and after the last answer.

        Raises ConnectionLostError once the agent has closed early, ControlProtocolError for an answer that no agent
        gives.
        """
        if self.state is ConnectionState.DONE:
            return None
        line = self._next_line()
        if line is None:
            if self._ended:
                cut = " in the middle of an answer" if self._buffer else ""
                why = self._if_closed or "its log says why"
                raise ConnectionLostError(f"{self._where}: the agent closed the connection{cut}; {why}")
            return None
        return self._checked(self._decoded(line))

    def _next_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if (end if end >= 0 else len(self._buffer)) > self._line_bytes_max:
            raise self._complaint(f"sent a line of more than {self._line_bytes_max:,} bytes")
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = bytes(memoryview(self._buffer)[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def _decoded(self, line: bytes) -> Answer:
        try:
            return _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            shown = line[: 4 * EXCERPT_CHARACTERS].decode(errors="replace")
            excerpt = shown[:EXCERPT_CHARACTERS] + ("…" if len(shown) > EXCERPT_CHARACTERS else "")
            raise self._complaint(f'answered "{printable(excerpt)}"') from None

    def _checked(self, answer: Answer) -> Answer:
        following = _TRANSITIONS.get((self.state, type(answer)))
        is_first = self.state is ConnectionState.ASKED and not isinstance(answer, Refused)
        assert self._request is not None, "answers are read once a request is sent"
        if following is None or (is_first and type(answer) is not _FIRST_ANSWERS[type(self._request)]):
            raise self._complaint(f"answered out of turn ({type(answer).__name__})")
        self.state = following
        if isinstance(answer, Refused) and answer.message.startswith(NO_REQUEST):
            return Refused(answer.kind, f"{self._where}: {answer.message} ({_OF_ANOTHER_RELEASE})")
        return answer

    def _complaint(self, what: str) -> ControlProtocolError:
        return ControlProtocolError(
            f"{self._where}: what listens there {what}: "
            "name the control socket of an agent (--socket, ELF_SOCKET), of this release of ELF or the one before"
        )
