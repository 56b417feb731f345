"""Declared elements as tests drive them: events and watermarks in order, cut into batches anywhere, while the state
moves to another host now and then, whole or by what a standby was told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import polars as pl
from hypothesis import strategies as st

import query
from agent.programs.element_graph import Element, ElementInput, EventType, FieldType
from agent.runtime.function.spill import SpillArea
from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.elements.runtime import DTYPES, ElementRuntime, Emitted, Tables
from agent.runtime.keyed.logical_nodes import NODES, nodes_of
from agent.runtime.keyed.seen.key_values import key_columns, state_of_key

Fields = list[tuple[str, FieldType]]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Event:
    """An event of a type at a time (ms), with the values of its fields."""

    type: str
    time: int
    values: Row


@dataclass(frozen=True)
class Advance:
    """A watermark (ms)."""

    to: int


Step = Event | Advance


def aggregate(value: str, fields: Fields, key: Sequence[str], window: str | None = None, **more: Any) -> Element:
    """An aggregate over events of the type Event, with the plan that submission gives it."""
    text = f"SELECT {', '.join([*key, value])} FROM Event"
    text += f" GROUP BY {', '.join(key)}" if key else ""
    text += f" WINDOWING {window}" if window else ""
    plan = query.analyze(query.parse(text), {"Event": query.Schema(dict(fields), open=False)})
    options = {"key": list(key), "value": value, "window": window, "plan": plan.to_wire()}
    read = ElementInput("Event", list(key), None if key else 1)
    return Element("Counted", "aggregate", [read], output="Counted", options=options, **more)


def frame_of(of: EventType, key: Sequence[str], events: Sequence[Event]) -> pl.DataFrame:
    """The frame of some events, as a host gives it to an element."""
    columns = [
        pl.Series(name, [event.values[number] for event in events], dtype=DTYPES[type_])
        for number, (name, type_) in enumerate(of.fields)
    ]
    fields = pl.DataFrame(columns) if columns else pl.DataFrame(height=len(events))
    node = nodes_of([fields[name] for name in key]) if key else nodes_of([pl.Series([1] * len(events), dtype=pl.Int64)])
    head = pl.DataFrame(
        {"@time": [event.time for event in events], "@source": 0, "@seq": range(len(events))},
        schema={"@time": pl.Int64, "@source": pl.Int64, "@seq": pl.Int64},
    )
    return head.with_columns(node).hstack(fields)


@dataclass
class Host:
    """An element on a host, its standby, and all that it has emitted."""

    element: Element
    types: dict[str, EventType]
    room: SpillArea | None = None
    emitted: list[Row] = field(default_factory=list)
    runtime: ElementRuntime = field(init=False)
    told: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    watermark: int | None = None

    def __post_init__(self) -> None:
        declared.check(self.element, self.types)
        self.runtime = declared.runtime_of(self.element, self.types, self.room)

    def give(self, batch: Sequence[Event]) -> None:
        """Processes events of one type."""
        key = next(read.key for read in self.element.inputs if read.type == batch[0].type)
        self.runtime.process(batch[0].type, frame_of(self.types[batch[0].type], key or [], batch), self._take)

    def advance(self, to: int) -> None:
        self.watermark = to if self.watermark is None else max(to, self.watermark)
        self.runtime.advance(to, self._take)

    def commit(self) -> None:
        """Tells the standby what has changed. What it was told before goes with the host."""
        for name, table in answer(self.runtime.take_changes).items():
            self.told.setdefault(name, []).append(table)

    def fail_over(self, *, compacted: bool) -> None:
        """Goes on with what the standby was told."""
        self.commit()
        if compacted:
            one = declared.compact(self.element)
            self.told = {name: [one(name, tables)] for name, tables in self.told.items()}
        self.runtime = declared.runtime_of(self.element, self.types, self.room)
        for number in range(max(map(len, self.told.values()), default=0)):
            self.runtime.put({name: tables[number] for name, tables in self.told.items() if number < len(tables)})
        self._catch_up()

    def hand_over(self) -> None:
        """Goes on with the whole state, which another runtime takes in two parts."""
        old, self.runtime = self.runtime, declared.runtime_of(self.element, self.types, self.room)
        parts = [answer(lambda done, part=part: old.states(part, done)) for part in halves()]
        for part in parts:
            self.runtime.put(part)
        self.told = {name: [pl.concat([part[name] for part in parts])] for name in parts[0]}
        self._catch_up()
        for part in halves():
            old.drop(part)
        assert not any(table.height for table in answer(lambda done: old.states(range(NODES), done)).values())

    def told_of(self, *key: str) -> Any:
        """What people are told of an element, by its key as they write it."""
        columns = key_columns(self.types, self.element, key)
        tables = answer(lambda done: self.runtime.states([int(nodes_of(columns)[0])], done))
        told = state_of_key(self.element, columns, tables)
        return None if told is None else msgspec.json.decode(told)

    def _catch_up(self) -> None:
        """Tells the new runtime the time of its host: nothing is emitted again."""
        if self.watermark is not None:
            emitted = len(self.emitted)
            self.runtime.advance(self.watermark, self._take)
            assert len(self.emitted) == emitted

    def _take(self, emitted: list[Emitted]) -> None:
        for one in emitted:
            assert one.type == self.element.output
            fields = declared.output_fields(self.element, self.types)
            assert dict(one.rows.schema) == {"@time": pl.Int64, "@node": pl.UInt16} | {
                name: DTYPES[type_] for name, type_ in fields
            }
            self.emitted += one.rows.rows()


def halves() -> tuple[range, range]:
    return range(NODES // 2), range(NODES // 2, NODES)


def answer(call: Callable[[Callable[[Tables], None]], None]) -> Tables:
    """What a call answers at once."""
    found: list[Tables] = []
    call(found.append)
    (tables,) = found
    return tables


MOVES = ("commit", "compact", "pile", "whole")


def drive(host: Host, steps: Sequence[Step], data: st.DataObject) -> list[Row]:
    """Runs steps, cut into batches as `data` decides, with moves in between; returns all that was emitted."""
    for batch in batches(steps, data):
        if isinstance(batch, Advance):
            host.advance(batch.to)
        else:
            host.give(batch)
        move = data.draw(st.sampled_from((*MOVES, None, None, None)), "move")
        if move == "commit":
            host.commit()
        elif move == "whole":
            host.hand_over()
        elif move is not None:
            host.fail_over(compacted=move == "compact")
    return host.emitted


def batches(steps: Sequence[Step], data: st.DataObject) -> Iterator[list[Event] | Advance]:
    """The events between watermarks, those of one type after the other cut anywhere."""
    batch: list[Event] = []
    for step in steps:
        if batch and (
            isinstance(step, Advance) or step.type != batch[0].type or not data.draw(st.integers(0, 3), "cut")
        ):
            yield batch
            batch = []
        if isinstance(step, Advance):
            yield step
        else:
            batch.append(step)
    if batch:
        yield batch
