"""Describes the processing elements of this agent to whoever asks the fleet for them, and shows the state of one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import msgspec
import polars as pl

from agent.programs.element_graph import Element, EventType
from agent.runtime.keyed.elements.runtime import Tables
from agent.runtime.keyed.logical_nodes import nodes_of
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.messages.views.element_views import (
    HOSTED_MAX,
    STATE_BYTES_MAX,
    DescribeElements,
    ElementsDescription,
    HostedElement,
    KeyedState,
)
from overlay import Id

OPEN_MAX = 64
"""Upper bound on the questions for which a state is being fetched; further ones are answered without it."""


NOTE_S = 1.0
"""Interval between two looks at the number of events."""
RATE_S = 5.0
"""Time over which rates are."""
ElementKey = tuple[Id, str]


class EventRates:
    """Events a second of each element of a job, over the last seconds."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, Mapping[ElementKey, int]]] = deque()

    def note(self, events: Mapping[ElementKey, int], now: float) -> None:
        """Takes the number of events that each has had so far."""
        self._noted.append((now, events))
        while self._noted[0][0] < now - RATE_S:
            self._noted.popleft()

    def per_s(self, key: ElementKey, events: int, now: float) -> float:
        """The rate of one that has had so many events by now."""
        at, before = self._noted[0] if self._noted else (now, {})
        return max(0.0, events - before.get(key, 0)) / (now - at) if now > at else 0.0


class ObservedGraph(Protocol):
    """The elements and types of a job, by their names."""

    @property
    def elements(self) -> Mapping[str, Element]: ...
    @property
    def types(self) -> Mapping[str, EventType]: ...


class ObservedJob(Protocol):
    """A keyed job as far as it is looked at."""

    @property
    def app_id(self) -> Id: ...
    @property
    def graph(self) -> ObservedGraph: ...
    def describe(self) -> list[dict[str, Any]]: ...
    def lost_nodes(self) -> Collection[int]: ...
    def state_of(self, element: str, node: int, done: Callable[[Tables], None]) -> bool: ...
    def epoch_of(self, node: int) -> int: ...


class ObservedJobs(Protocol):
    """The keyed jobs of this agent."""

    def get(self, app_id: Id) -> ObservedJob | None: ...
    def __iter__(self) -> Iterator[ObservedJob]: ...


@dataclass(slots=True)
class _Look:
    """A question whose states are being fetched."""

    asked: DescribeElements
    elements: list[HostedElement]
    fault: str
    awaited: int = 0
    states: list[KeyedState] = field(default_factory=list)


class ElementsObservation:
    """Answers `DescribeElements` for this agent, at once or, where code has the state that is asked for, later."""

    name = "elements_seen"

    def __init__(self, agent: str, sender: MessageSender, jobs: ObservedJobs) -> None:
        self._agent = agent
        self._sender = sender
        self._jobs = jobs
        self._rates = EventRates()
        self._noted_at = 0.0
        self._open = 0
        self._dropped = 0

    def handlers(self) -> Handlers:
        return {DescribeElements: Handler(Via.FLEET, self._asked)}

    def statistics(self) -> Mapping[str, int]:
        return {"open": self._open, "dropped": self._dropped}

    def tick(self, now: float) -> None:
        """Notes how many events each element has had, for its rate."""
        if now < self._noted_at + NOTE_S:
            return
        self._noted_at = now
        self._rates.note(
            {(job.app_id, one["element"]): one["events"] for job in self._jobs for one in job.describe()}, now
        )

    def events_per_s(self, app_id: Id, element: str, events: int, now: float) -> float:
        """The rate of an element of a job that has had so many events by now."""
        return self._rates.per_s((app_id, element), events, now)

    def _asked(self, asked: DescribeElements, now: float) -> None:
        jobs = list(self._jobs) if asked.job is None else [job] if (job := self._jobs.get(asked.job)) else []
        elements = [
            _hosted(job, one, self._rates.per_s((job.app_id, one["element"]), one["events"], now))
            for job in jobs
            for one in job.describe()
        ][:HOSTED_MAX]
        look = _Look(asked, elements, "")
        if asked.key is None or asked.job is None or not jobs or self._open >= OPEN_MAX:
            self._dropped += asked.key is not None and self._open >= OPEN_MAX
            self._answer(look, now)
            return
        self._fetch(look, jobs[0], asked.key, now)

    def _fetch(self, look: _Look, job: ObservedJob, key: list[str], now: float) -> None:
        """Fetches the states of the elements with a key, then answers."""
        found, look.fault = _with_key(job.graph, look.asked.element, key)
        wanted = [(element, columns, node) for element, columns in found for node in _nodes(element, columns)]
        look.awaited = 1 + len(wanted)
        self._open += 1
        for element, columns, node in wanted:
            fetched = partial(self._fetched, look, element, columns, node, job.epoch_of(node), now)
            if not job.state_of(element.name, node, fetched):
                look.awaited -= 1
        self._one_less(look, now)

    def _fetched(
        self, look: _Look, element: Element, key: list[pl.Series], node: int, epoch: int, now: float, tables: Tables
    ) -> None:
        from agent.runtime.keyed.seen.key_values import state_of_key

        state = state_of_key(element, key, tables)
        if state is not None:
            room = STATE_BYTES_MAX - sum(len(one.state) for one in look.states)
            shown = state if len(state) <= room else b""
            of = KeyedState(element=element.name, node=node, state=shown, state_bytes=len(state), epoch=epoch)
            look.states.append(of)
        self._one_less(look, now)

    def _one_less(self, look: _Look, now: float) -> None:
        look.awaited -= 1
        if not look.awaited:
            self._open -= 1
            self._answer(look, now)

    def _answer(self, look: _Look, now: float) -> None:
        asked, states = look.asked, look.states
        is_keyed = asked.job is not None and self._jobs.get(asked.job) is not None
        answer = ElementsDescription(
            FLEET_GROUP, asked.question, self._agent, is_keyed, look.elements, states, look.fault
        )
        self._sender.send(asked.asker, answer, now)


def _hosted(job: ObservedJob, described: Mapping[str, Any], per_s: float) -> HostedElement:
    known = {name: described[name] for name in HostedElement.__struct_fields__ if name in described}
    lost = len(job.lost_nodes()) if described.get("nodes") else 0
    return msgspec.convert({"lost": lost} | known | {"job": job.app_id, "events_per_s": per_s}, HostedElement)


def _nodes(element: Element, key: list[pl.Series]) -> Sequence[int]:
    """The logical nodes in which an element may have this key: all of its workers, where keys are split."""
    return range(element.workers) if element.grouping else [int(nodes_of(key)[0])]


def _with_key(graph: ObservedGraph, named: str, key: list[str]) -> tuple[list[tuple[Element, list[pl.Series]]], str]:
    """The elements that may have this key, with its columns; the reason why there are none."""
    from agent.runtime.keyed.seen.key_values import KeyMismatchError, key_columns

    found: list[tuple[Element, list[pl.Series]]] = []
    faults: list[str] = []
    for element in graph.elements.values():
        if named and element.name != named:
            continue
        try:
            found.append((element, key_columns(graph.types, element, key)))
        except KeyMismatchError as error:
            faults.append(str(error))
    names = ", ".join(graph.elements)
    none_named = f"the job has no element {named}; it has {names}"
    return found, "" if found else "; ".join(faults)[:2000] or none_named[:2000]
