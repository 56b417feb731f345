"""The client's state machine of one job, without sockets and clocks: both clients drive it and do nothing else.

The client dials when `dial_at` has come, passes on the bytes it reads, and calls `handle_timer` at `next_timer`:

    connected(now) -> bytes to send · receive_data(data) · connection_failed(error, now) · next_update(now)

With a `Backoff`, a connection that breaks once the job was accepted is no error: `Disconnected` is reported, the client
dials again later, and the job is followed from the last window seen. Windows seen before are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from agent.control.messages import (
    Accepted,
    Acknowledged,
    Answer,
    Ended,
    FollowRequest,
    PublishedWindow,
    QueryRequest,
    Refused,
    SubmitRequest,
    WindowsLost,
)
from elf.client.errors import (
    AnswerTimeoutError,
    ClientError,
    ConnectionLostError,
    ForbiddenError,
    QueryRefusedError,
    UnknownJobError,
    refusal,
)
from elf.client.protocol import ControlConnection
from elf.client.result import Result, read_result
from elf.terminal.terminal import printable

AnswerT = TypeVar("AnswerT", bound=Answer)
NEVER = float("inf")
UNKNOWN_TIMEOUT_S = 45.0
"""Time to wait for a restarted agent to hear of the job; after that there is no job of that name."""
STEADY_S = 10.0
"""Age from which a connection counts as good: the delay after its loss starts from the shortest again."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is lost; the client tries again in `retry_in_s` seconds, and later if need be."""

    reason: str
    retry_in_s: float


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The job is followed again, from the last window seen."""


Update = Acknowledged | Result | WindowsLost | Disconnected | Reconnected | Ended


class Backoff:
    """Delay before the next attempt: doubles up to a cap, each time less a random part of at most half.

    >>> backoff = Backoff(lambda: 0.0)
    >>> [backoff.next_delay_s() for _ in range(8)]
    [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0]
    """

    FIRST_S = 0.25
    MOST_S = 15.0

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._delay_s = self.FIRST_S

    def next_delay_s(self) -> float:
        delay_s, self._delay_s = self._delay_s, min(2 * self._delay_s, self.MOST_S)
        return delay_s * (1 - self._draw() / 2)

    def reset(self) -> None:
        self._delay_s = self.FIRST_S


class JobAttachment:
    """A job that this client has submitted or follows.

    `accepted` is set once the agent has taken the request; `acknowledged` has the number of agents that run it,
    `last_pane` the last window, `has_lost_windows` whether there were others that cannot be had any more, `ended` the
    reason why no other comes. Every call may raise a ClientError, which is final.
    """

    def __init__(
        self,
        request: QueryRequest | SubmitRequest | FollowRequest,
        where: str,
        answer_timeout_s: float,
        backoff: Backoff | None = None,
        if_closed: str = "",
    ) -> None:
        self.accepted: Accepted | None = None
        self.acknowledged: Acknowledged | None = None
        self.ended: Ended | None = None
        self.has_lost_windows = False
        self.last_pane = request.after if isinstance(request, FollowRequest) else None
        self.dial_at = -NEVER
        self._request = request
        self._where = where
        self._answer_timeout_s = answer_timeout_s
        self._backoff = backoff
        self._if_closed = if_closed
        self._connection: ControlConnection | None = None
        self._since = 0.0
        self._answer_due = NEVER
        self._unknown_since: float | None = None
        self._updates: deque[Update] = deque()

    @property
    def is_connected(self) -> bool:
        """Whether the client's connection is in use; otherwise the client must close it."""
        return self._connection is not None

    def connected(self, now: float) -> bytes:
        """Begins a connection; returns the bytes to send over it."""
        request: QueryRequest | SubmitRequest | FollowRequest = self._request
        if self.accepted is not None:
            request = FollowRequest(self.accepted.app, self.last_pane)
        self._connection = ControlConnection(self._where, if_closed=self._if_closed)
        self._since, self._answer_due = now, now + self._answer_timeout_s
        return self._connection.send(request)

    def connection_failed(self, error: ClientError, now: float) -> None:
        """Handles a failed attempt to connect."""
        self._unknown_since = None
        self._retry(error, now)

    def receive_data(self, data: bytes) -> None:
        """Takes received bytes; b"" if the connection is closed."""
        if self._connection is not None:
            self._connection.receive_data(data)

    def next_timer(self) -> float:
        """Time to call `handle_timer`, while connected; infinity for never."""
        return self._answer_due

    def handle_timer(self, now: float) -> None:
        """Handles an answer that is overdue."""
        if now >= self._answer_due:
            self._retry(no_answer(self._where, self._answer_timeout_s), now)

    def is_accepted(self, now: float) -> bool:
        """Whether the agent has taken the request; looks at its first answer only."""
        if self.accepted is None and self._connection is not None:
            answer = self._connection.next_answer()
            if answer is not None:
                self._handle(answer, now)
        return self.accepted is not None

    def next_update(self, now: float) -> Update | None:
        """The next update; None while there is none. Once the job has ended, always `Ended`."""
        while not self._updates and self._connection is not None:
            try:
                answer = self._connection.next_answer()
            except ConnectionLostError as error:
                self._retry(error, now)
                break
            if answer is None:
                break
            self._handle(answer, now)
        return self._updates.popleft() if self._updates else self.ended

    def _handle(self, answer: Answer, now: float) -> None:
        match answer:
            case Accepted():
                self._handle_accepted(answer)
            case Acknowledged():
                self.acknowledged = answer
                self._updates.append(answer)
            case PublishedWindow():
                self._handle_window(answer)
            case WindowsLost():
                self.has_lost_windows = True
                self._updates.append(answer)
            case Ended():
                self.ended = answer
                self._connection, self._answer_due = None, NEVER
                self._updates.append(answer)
            case Refused():
                self._handle_refused(answer, now)

    def _handle_accepted(self, accepted: Accepted) -> None:
        self._answer_due, self._unknown_since = NEVER, None
        if self.accepted is None:
            self.accepted = accepted
            return
        is_changed = (accepted.query, accepted.columns) != (self.accepted.query, self.accepted.columns)
        if is_changed and accepted.version <= self.accepted.version:
            raise ClientError(f"{accepted.app} is another job now: {accepted.query}")
        self.accepted = accepted
        self._updates.append(Reconnected())

    def _handle_window(self, window: PublishedWindow) -> None:
        assert self.accepted is not None, "windows follow on Accepted"
        if self.last_pane is None or window.pane > self.last_pane:
            self._updates.append(read_result(window, self.accepted.columns, self.accepted.version))
            self.last_pane = window.pane

    def _handle_refused(self, refused: Refused, now: float) -> None:
        error = refusal(refused)
        if isinstance(error, QueryRefusedError | ForbiddenError):
            raise error
        if not isinstance(error, UnknownJobError):
            self._unknown_since = None
        elif self._unknown_since is None:
            self._unknown_since = now
        elif now - self._unknown_since >= UNKNOWN_TIMEOUT_S:
            raise error
        self._retry(error, now)

    def _retry(self, error: ClientError, now: float) -> None:
        if self.accepted is None or self._backoff is None:
            raise error
        if self._connection is not None and self._answer_due == NEVER and now - self._since >= STEADY_S:
            self._backoff.reset()
        self._connection, self._answer_due = None, NEVER
        delay_s = self._backoff.next_delay_s()
        self.dial_at = now + delay_s
        self._updates.append(Disconnected(str(error), delay_s))


class AttachedJob:
    """Properties of both clients' jobs that need no request; available once the job's `with` statement is entered."""

    def __init__(self, attachment: JobAttachment) -> None:
        self._core = attachment
        self._closed = False

    @property
    def app(self) -> str:
        """The job's name."""
        return self._accepted.app

    @property
    def query(self) -> str:
        """Its query as ELF reads it."""
        return self._accepted.query

    @property
    def columns(self) -> list[str]:
        """The names of the columns of its rows."""
        return self._accepted.columns

    @property
    def bounded(self) -> bool:
        """Whether the job ends by itself, once it has read the logs' present content."""
        return self._accepted.bounded

    @property
    def warning(self) -> str:
        """The reason why its results may come later than its query says; "" if nothing says so."""
        return self._accepted.warning

    @property
    def acknowledged(self) -> Acknowledged | None:
        """Number of agents that run the job, of the number on its roster, by the last acknowledgement."""
        return self._core.acknowledged

    @property
    def last_pane(self) -> int | None:
        """Pane of the last window seen: where `follow(app, after=...)` goes on."""
        return self._core.last_pane

    @property
    def has_lost_windows(self) -> bool:
        """Whether windows were published that this client has not got and cannot get any more."""
        return self._core.has_lost_windows

    @property
    def ended(self) -> str | None:
        """Reason why there is no further window: "finished", "stopped", "nobody", "lost" or "failed"; None while there
        may be one.
        """
        return self._core.ended.reason if self._core.ended else None

    @property
    def failure(self) -> str:
        """Reason why a job failed, "" for others."""
        return self._core.ended.failure if self._core.ended else ""

    def _check_open(self) -> None:
        if self._closed:
            raise ClientError(f"{self.app}: this job's connection is closed")
        assert self._accepted

    @property
    def _accepted(self) -> Accepted:
        if self._core.accepted is None:
            raise ClientError("the job is not submitted yet: enter its `with` statement")
        return self._core.accepted


def expected(answer: Answer, kind: type[AnswerT]) -> AnswerT:
    """An answer of the kind that the request has. Raises RefusedError for a refusal."""
    if isinstance(answer, Refused):
        raise refusal(answer)
    assert isinstance(answer, kind), "the protocol lets nothing else pass"
    return answer


def no_answer(where: str, timeout_s: float) -> AnswerTimeoutError:
    """The error for an agent that does not answer in time."""
    return AnswerTimeoutError(
        f"{printable(where)}: the agent did not answer within {timeout_s:g} s: it may be stopped or overloaded"
    )
