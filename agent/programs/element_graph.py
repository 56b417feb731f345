"""Describes the processing elements of a job: their event types, keys, and what declared ones compute (S4, section II).

The graph is built where a job's file is loaded, signed with the job's query, and checked by every agent that hosts
elements (`agent.runtime.keyed.graph`). Programs load this module too, so it imports little.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

ELEMENTS_MAX = 64
"""Upper bound on the elements of one job, on its sources, and on its event types."""
WORKERS_MAX = 1024
"""Upper bound on the workers of one element: the logical nodes of a job."""
FIELDS_MAX = 128
"""Upper bound on the fields of an event type."""
NAME_CHARACTERS_MAX = 100

FieldType = Literal["string", "integer", "number", "boolean", "timestamp", "any"]
Kind = Literal["code", "aggregate", "join", "top", "exchange"]
GroupingName = Literal["", "fish", "shuffle", "fields", "pkg", "dchoices", "wchoices"]
UNSPLIT = {
    "join": "events that match meet where their key is",
    "top": "the greatest of a key are known where all of its events are",
    "aggregate": "what it emits of a key is of all of its events",
    "code": "its state of a key is in one place",
}
"""Reason why a key of an element has one worker, by its kind; keys of others may be split."""
SPLITS = "splits"
"""The option of code whose states of parts of a key can be combined."""
GraphName = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]


class EventType(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A type of events: its name, which is that of the stream it forms, and its fields in order.

    `guaranteed`: each event is processed exactly once, else it may be lost with the host of its element. `shed`: the
    field by whose hash events are shed at the job's entry, "" for none.
    """

    name: GraphName
    fields: Annotated[list[tuple[GraphName, FieldType]], msgspec.Meta(max_length=FIELDS_MAX)] = []
    guaranteed: bool = True
    shed: str = ""


class ElementSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Brings events of `type`: a query over a stream of logs, without groups. `plan` is its plan on the wire, filled in
    at submission, when the fields of the type are known too."""

    type: GraphName
    query: Annotated[str, msgspec.Meta(min_length=1, max_length=1 << 16)]
    plan: dict[str, Any] = {}


class ElementInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A type of events that an element consumes. One element is made for each value of the fields `key`.

    `key` None: the element has no key, and is beside every agent. `constant`: the one value of the key of an element
    without fields in its key, so that there is a single one in the fleet; `key` is [] then.
    """

    type: GraphName
    key: Annotated[list[GraphName], msgspec.Meta(max_length=16)] | None
    constant: str | int | None = None


class Element(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A prototype of processing elements. `output`: the type that a declared element emits, "" where code emits any.

    `every_s`, `every_n`: when `output` is called. `ttl_s`: time after its last event from which an element may be
    evicted. `ordered`: its events come by their time, source and position. `options`: what a declared element computes.
    `grouping`: chooses, for each event, one of so many `workers`, as events of one key may be processed in several
    places; "" and 0 where each key has one place.
    """

    name: GraphName
    kind: Kind
    inputs: Annotated[list[ElementInput], msgspec.Meta(min_length=1, max_length=16)]
    output: str = ""
    every_s: Seconds | None = None
    every_n: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    ttl_s: Seconds | None = None
    ordered: bool = False
    options: dict[str, Any] = {}
    grouping: GroupingName = ""
    workers: Annotated[int, msgspec.Meta(ge=0, le=WORKERS_MAX)] = 0


class ElementGraph(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The elements of a job. `types` holds all of their event types, also those of sources and declared elements."""

    sources: Annotated[list[ElementSource], msgspec.Meta(max_length=ELEMENTS_MAX)]
    types: Annotated[list[EventType], msgspec.Meta(max_length=ELEMENTS_MAX)]
    elements: Annotated[list[Element], msgspec.Meta(max_length=ELEMENTS_MAX)]
