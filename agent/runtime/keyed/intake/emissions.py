"""Takes events that other systems send into the elements of a job, one batch of a client at a time.

A batch has a channel, the same for all batches of a client, and numbers in it, so what is sent again, to whichever
agent, is processed once. Batches of a type that elements without a key read are dealt to the hosts of the job in turn;
others are sent on from here by their keys. The client hears of a batch when its events are safe, or why they are not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

import query
from agent.programs.element_graph import Element, EventType
from agent.runtime.keyed.elements.runtime import SEQ, SOURCE
from agent.runtime.keyed.intake.event_input import EventFault, rows_of_columns, rows_of_lines
from agent.runtime.keyed.logical_nodes import NODES
from agent.runtime.messages.emissions import EmitEvents, EventsTaken, SentEvents, TakenAs
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.step_clock import StepClock
from overlay import Id, Peer

OPEN_MAX = 256
"""Upper bound on the batches that wait here until they are safe."""
PATIENCE_S = 5.0
"""Time for which a batch waits for room, or to be safe, before its client is told to send it again."""
ANSWER_S = 8.0
"""Time for which another agent's answer is waited for."""
CHANNELS_MAX = 4096
"""Upper bound on the channels of clients of which it is known what was inserted here."""
SEQ_SHIFT = 20
FULL = "the job has no room for more events at this moment"
SILENT = "the events are not safe yet: an agent that hosts the job may have died"
NOT_HERE = "no agent that has the job answers: it may be beginning, or its master changing"


class EmissionGraph(Protocol):
    """The types of a job, and what reads them."""

    @property
    def types(self) -> Mapping[str, EventType]: ...
    def routes_of(self, type_: str) -> tuple[object, ...]: ...
    def keyless_of(self, type_: str) -> tuple[Element, ...]: ...


class EmissionJob(Protocol):
    """A keyed job as far as events are sent into it."""

    @property
    def graph(self) -> EmissionGraph: ...
    def insert(self, type_: str, rows: pl.DataFrame, now: float) -> None: ...
    @property
    def has_room(self) -> bool: ...
    def acknowledged(self, source: int) -> int: ...
    def host_of(self, node: int) -> Peer | None: ...


class EmissionJobs(Protocol):
    """The keyed jobs of this agent."""

    def get(self, app_id: Id) -> EmissionJob | None: ...


class Taken(NamedTuple):
    """Answer to a batch: it is safe; or `busy`, to be sent again later; or refused. `reason`: one line."""

    taken: TakenAs
    rows: int = 0
    reason: str = ""


Reply = Callable[[Taken, float], None]


@dataclass(slots=True)
class _Waiting:
    """A batch that waits for room (`rows`), or to be safe (`last`)."""

    app_id: Id
    channel: int
    type: str
    rows: pl.DataFrame | None
    height: int
    last: int
    deadline: float
    reply: Reply


class Emissions:
    """The batches of clients on one agent. `jobs`: the keyed jobs that it takes part in."""

    name = "emissions"

    def __init__(self, own: Peer, sender: MessageSender, clock: StepClock, jobs: EmissionJobs) -> None:
        self._own = own
        self._sender = sender
        self._clock = clock
        self._jobs = jobs
        self._waiting: list[_Waiting] = []
        self._asked: dict[int, tuple[Id, Reply, float]] = {}
        self._inserted: OrderedDict[tuple[Id, int], int] = OrderedDict()
        self._numbers = 0
        self._rows = 0
        self._refused = 0

    def handlers(self) -> Handlers:
        return {
            EmitEvents: Handler(Via.ROUTED | Via.DIRECT, self._sent),
            EventsTaken: Handler(Via.DIRECT, self._taken),
        }

    def statistics(self) -> Mapping[str, int]:
        return {"rows": self._rows, "waiting": len(self._waiting) + len(self._asked), "refused": self._refused}

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._asked

    def emit(self, app_id: Id, channel: int, batch: SentEvents, reply: Reply, now: float) -> None:
        """Takes a batch of a client of this agent."""
        job = self._jobs.get(app_id)
        if job is not None:
            self._deal(app_id, job, channel, batch, reply, now)
        else:
            self._ask(app_id, None, EmitEvents(app_id, self._next(), channel, batch, dealt=False), reply, now)

    def _sent(self, message: EmitEvents, asker: Peer, now: float) -> bool:
        """Takes a batch from another agent; False if this one has no such job."""
        app_id, job = message.app_id, self._jobs.get(message.app_id)
        if job is None:
            return False

        def reply(taken: Taken, then: float) -> None:
            self._sender.send(asker, EventsTaken(app_id, message.question, *taken), then)

        if message.dealt:
            self._insert(app_id, job, message.channel, message.batch, reply, now)
        else:
            self._deal(app_id, job, message.channel, message.batch, reply, now)
        return True

    def _deal(self, app_id: Id, job: EmissionJob, channel: int, batch: SentEvents, reply: Reply, now: float) -> None:
        """Gives a batch to the next host, if elements without a key are to have it; else it is inserted here."""
        host = self._own
        if job.graph.keyless_of(batch.type):
            host = self._next_host(job)
        if host.node_id == self._own.node_id:
            self._insert(app_id, job, channel, batch, reply, now)
        else:
            self._ask(app_id, host, EmitEvents(app_id, self._next(), channel, batch, dealt=True), reply, now)

    def _next_host(self, job: EmissionJob) -> Peer:
        """The hosts in turn, and this agent among them."""
        hosts = {one.node_id: one for node in range(NODES) if (one := job.host_of(node)) is not None}
        hosts[self._own.node_id] = self._own
        self._numbers += 1
        return hosts[sorted(hosts)[self._numbers % len(hosts)]]

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _ask(self, app_id: Id, host: Peer | None, message: EmitEvents, reply: Reply, now: float) -> None:
        if len(self._asked) >= OPEN_MAX:
            reply(Taken("busy", reason=FULL), now)
            return
        self._asked[message.question] = (app_id, reply, now + ANSWER_S)
        if host is None:
            self._sender.route(message, now)
        else:
            self._sender.send(host, message, now)

    def _taken(self, message: EventsTaken, _sender: Peer, now: float) -> bool:
        app_id, reply, _ = self._asked.get(message.question, (None, None, 0.0))
        if reply is None or app_id != message.app_id:
            return False
        del self._asked[message.question]
        reply(Taken(message.taken, message.rows, message.reason), now)
        return True

    def _insert(self, app_id: Id, job: EmissionJob, channel: int, batch: SentEvents, reply: Reply, now: float) -> None:
        """Checks the events of a batch, and lets them wait until they are safe."""
        try:
            rows = _numbered(_rows(job.graph, batch, self._clock.ms), channel)
        except EventFault as fault:
            self._refused += 1
            reply(Taken("refused", reason=str(fault)), now)
            return
        if not rows.height:
            reply(Taken("taken"), now)
        elif len(self._waiting) >= OPEN_MAX:
            reply(Taken("busy", reason=FULL), now)
        else:
            last = int(rows[SEQ][-1])
            new = None if self._inserted.get((app_id, channel), -1) >= last else rows
            until = now + PATIENCE_S
            self._waiting.append(_Waiting(app_id, channel, batch.type, new, rows.height, last, until, reply))
            self.step(now)

    def step(self, now: float) -> None:
        """Inserts batches for which there is room, and answers those that are safe, or have waited for too long."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        self._waiting += [one for one in waiting if not self._is_done(one, now)]

    def _is_done(self, one: _Waiting, now: float) -> bool:
        job = self._jobs.get(one.app_id)
        if job is None:
            one.reply(Taken("busy", reason=NOT_HERE), now)
            return True
        if one.rows is not None and job.has_room:
            job.insert(one.type, one.rows, now)
            self._remember(one)
            one.rows = None
        is_safe = one.rows is None and (
            not job.graph.types[one.type].guaranteed or job.acknowledged(one.channel) >= one.last
        )
        if is_safe:
            self._rows += one.height
            one.reply(Taken("taken", one.height), now)
        elif now >= one.deadline:
            one.reply(Taken("busy", reason=SILENT if one.rows is None else FULL), now)
        return is_safe or now >= one.deadline

    def _remember(self, one: _Waiting) -> None:
        key = (one.app_id, one.channel)
        self._inserted[key] = one.last
        self._inserted.move_to_end(key)
        if len(self._inserted) > CHANNELS_MAX:
            self._inserted.popitem(last=False)

    def tick(self, now: float) -> None:
        """Gives up batches whose agent does not answer."""
        self.step(now)
        for question, (_, reply, deadline) in list(self._asked.items()):
            if now >= deadline:
                del self._asked[question]
                reply(Taken("busy", reason=NOT_HERE), now)


def channel_of(owner: str, emission: str) -> int:
    """The channel of a client's emission: clients of different owners have different ones, whatever they call it."""
    digest = sha256(f"{emission}\0{owner}".encode()).digest()
    return -1 - (int.from_bytes(digest[:8], "little") >> 1)


def _rows(graph: EmissionGraph, batch: SentEvents, wall_ms: int) -> pl.DataFrame:
    """The events of a batch. Raises EventFault."""
    type_ = graph.types.get(batch.type)
    if type_ is None or not (graph.routes_of(batch.type) or graph.keyless_of(batch.type)):
        read = [name for name in graph.types if graph.routes_of(name) or graph.keyless_of(name)]
        nearest = query.nearest(batch.type, read)
        hint = f": did you mean {nearest}?" if nearest else f"; they read {query.listed(read)}"
        raise EventFault(f"no element of the job reads events of type {batch.type[:100]}{hint}")
    if batch.columns is None:
        return rows_of_lines(type_, batch.data, batch.first, batch.time_field, wall_ms)
    return rows_of_columns(type_, batch.columns, batch.data, batch.first, batch.time_field, wall_ms)


def _numbered(rows: pl.DataFrame, channel: int) -> pl.DataFrame:
    """The events with their places in the channel."""
    times, places, *fields = rows.get_columns()
    source = pl.Series(SOURCE, np.full(rows.height, channel))
    return pl.DataFrame([times, source, pl.Series(SEQ, places.to_numpy() << SEQ_SHIFT), *fields])
