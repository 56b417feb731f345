"""The base class of jobs written in Python (paper §2.4, Tables 1 and 2).

    import elf

    class Errors(elf.Job):
        query = "SELECT path, COUNT(*) AS n FROM web WHERE status >= 500 GROUP BY path WINDOWING 30 SECONDS"

        def on_result(self, window):
            for row in window.rows:
                self.log(f"{row['path']}: {row['n']} errors")

One object of the class lives beside every agent that works on the job, and beside the job's master, each in a process
of its own that can reach only its agent. The callbacks of an object run one after the other. An exception in a callback
ends the job, with its traceback in `elf logs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from elf.job_aggregate import JobAggregate
from elf.job_window import Window

__all__ = ["Cbt", "Job", "JobError", "NoAnswerError", "Paos", "Window"]

DEADLINE_S = 2.0


class JobError(Exception):
    """A call that the job cannot make here; the message is one line."""


class NoAnswerError(JobError):
    """Another job has not answered in time, or cannot answer; the message is one line."""


class Paos(Protocol):
    """Partial aggregates that the agent holds for the job: the result of `cbt.flush` and the argument of `on_recv`."""

    def rows(self) -> list[dict[str, Any]]:
        """One dict per group, with the columns of the job's query; all groups, unordered.

        Raises NoAnswerError for PAOs that the agent no longer holds: it keeps 16.
        """
        ...


class Cbt(Protocol):
    """This agent's compressed buffer tree (paper §2.2) for the job."""

    def insert(self, *rows: Mapping[str, Any]) -> None:
        """Counts rows like events of this moment; the query's WHERE and GROUP BY apply."""
        ...

    def flush(self) -> Paos:
        """All aggregates since the last `empty`; they stay in the tree."""
        ...

    def empty(self) -> None:
        """Removes all aggregates from the tree."""
        ...


class JobHost(Protocol):
    """Calls and properties that a job's process provides for its object."""

    app: str
    agent: str
    node_id: str
    is_root: bool
    parent: str
    children: tuple[str, ...]
    now_ms: int
    version: int
    cbt: Cbt

    def multicast(self, message: object) -> None: ...
    def route(self, app: str, message: object, deadline_s: float) -> Any: ...
    def ask(self, app: str, windows: int, deadline_s: float) -> list[Window]: ...
    def subscribe(self, app: str) -> None: ...
    def send_to(self, node: str, paos: Paos, pane: int) -> None: ...
    def update(self, query: str, reset: bool) -> None: ...
    def show(self, value: object) -> None: ...
    def log(self, text: str) -> None: ...


class Job:
    """Base of all jobs. A subclass defines the query, and overrides the callbacks it needs.

    `query` is ELF QL: the stream, filter, groups and windows of the job. With `drives` it has no WINDOWING, and the job
    itself cuts its batches: `cbt.flush`, `send_to`, `cbt.empty`. `queries` are further queries that `update` can
    choose. `stages` are queries that run beside the job, each with a tree of its own: other queries of the job read a
    stage's results as `app('NAME')`, and the master gets them by `on_result`. `reads` are the columns that `map` gets
    of each event of the stream, each with its type ("string", "integer", "number", "boolean", "any"); the query then
    reads the rows that `map` returns. `aggregates` are functions of the job's own that its queries call by these names:
    classes that are an `elf.Aggregate`. `elements` process events key by key, each key's in one place: classes that are
    an `elf.PE`, and what `elf.top`, `elf.join` and `elf.aggregate` return; types of events are streams of their job.
    """

    app: ClassVar[str] = ""
    """Name the job runs under; by default that of the class, as in micro-promotion."""
    query: ClassVar[str] = ""
    queries: ClassVar[Mapping[str, str]] = {}
    stages: ClassVar[Mapping[str, str]] = {}
    timer_s: ClassVar[float | None] = None
    """Interval between calls of `on_timer`, at least 0.25."""
    reads: ClassVar[Mapping[str, str]] = {}
    drives: ClassVar[bool] = False
    aggregates: ClassVar[Mapping[str, type[JobAggregate]]] = {}
    elements: ClassVar[Sequence[Any]] = []

    _elf: JobHost

    # Callbacks.

    def on_timer(self) -> None:
        """Called every `timer_s` seconds, beside every agent and at the root."""

    def on_multicast(self, app: str, message: Any) -> None:
        """Called when the job's master has multicast a message."""

    def on_recv(self, node: str, paos: Paos) -> None:
        """Called when a child in the job's tree has sent PAOs, which the agent combines with all others of their
        pane.
        """

    def on_result(self, window: Window) -> None:
        """Called at the root for each published window of this job, of its stages, and of jobs it has subscribed to."""

    def deliver(self, app: str, message: Any) -> Any:  # noqa: ARG002
        """Called at the root when another job sends a message; the returned message is the reply."""
        raise JobError("takes no messages")

    def map(self, event: dict[str, Any]) -> Mapping[str, Any] | Iterable[Mapping[str, Any]] | None:
        """Returns the rows to count for one event: a row, several, or none. `event["@time"]` is its time (epoch ms)."""

    # Calls.

    def multicast(self, message: object) -> None:
        """At the root: sends a message to `on_multicast` of every agent of the job, this one included."""
        self._elf.multicast(message)

    def route(self, app: str, message: object, deadline_s: float = DEADLINE_S) -> Any:
        """Sends a message to the master of another job, and waits for its reply. Raises NoAnswerError.

        No callback runs meanwhile, so the other job must not wait for this one.
        """
        return self._elf.route(app, message, deadline_s)

    def ask(self, app: str, windows: int = 1, deadline_s: float = DEADLINE_S) -> list[Window]:
        """The last windows of another job or of a stage of this one, the oldest first. Raises NoAnswerError."""
        return self._elf.ask(app, windows, deadline_s)

    def subscribe(self, app: str) -> None:
        """At the root: subscribes to the windows of another job, which come by `on_result` from now on."""
        self._elf.subscribe(app)

    def send_to(self, node: str, paos: Paos, pane: int) -> None:
        """Sends PAOs to the parent as those of a pane (epoch ms) later than all before; a root is its own parent."""
        self._elf.send_to(node, paos, pane)

    def update(self, query: str, *, reset: bool = False) -> None:
        """At the root: switches the job to another of its `queries` from the next window on."""
        self._elf.update(query, reset)

    def show(self, value: object) -> None:
        """Writes a JSON value for the web server beside this agent, as `shown/<app>.json` in the agent's data
        directory.
        """
        self._elf.show(value)

    def log(self, text: str) -> None:
        """Writes a line to the job's log; so does `print`."""
        self._elf.log(text)

    @property
    def cbt(self) -> Cbt:
        return self._elf.cbt

    # Place and time.

    @property
    def is_root(self) -> bool:
        """Whether the job's master is here."""
        return self._elf.is_root

    @property
    def parent(self) -> str:
        """Node id of the parent in the job's tree; a root is its own parent."""
        return self._elf.parent

    @property
    def children(self) -> tuple[str, ...]:
        """Node ids of the children in the job's tree."""
        return self._elf.children

    @property
    def agent(self) -> str:
        """Name of the agent that this object runs beside."""
        return self._elf.agent

    @property
    def node_id(self) -> str:
        return self._elf.node_id

    @property
    def now_ms(self) -> int:
        """The agent's clock (epoch ms) at the call of this callback."""
        return self._elf.now_ms

    @property
    def version(self) -> int:
        """Version of the job's function in force here."""
        return self._elf.version


def app_name(kind: type[Job]) -> str:
    """The name a job runs under.

    >>> class MicroPromotion(Job): ...
    >>> app_name(MicroPromotion)
    'micro-promotion'
    """
    return kind.app or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).lower()
