"""Messages that describe the fleet: a stream on every agent, the agents, and their places in a job's trees."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from agent.runtime.model.fields import Count, Message, Name, Number
from overlay import Id, Peer

COLUMNS_MAX = 1_000
EXAMPLE_CHARACTERS_MAX = 80

ColumnType = Literal["any", "text", "number", "integer", "string", "boolean", "timestamp"]
Example = Annotated[str, msgspec.Meta(max_length=EXAMPLE_CHARACTERS_MAX)]


class DescribedColumn(msgspec.Struct, frozen=True):
    """A column of a stream on one agent. `example`: one of its values, "" where none was seen."""

    name: Name
    type: ColumnType
    example: Example = ""


class DescribeStream(Message, frozen=True, tag=True):
    """Agent → every agent, multicast to the fleet's group: send the `asker` a description of this stream's files."""

    asker: Peer
    question: Count
    stream: Name


class StreamDescription(Message, frozen=True, tag=True):
    """Agent → asker: the description. `has_stream`: else it is empty. `open`: events may have other columns too."""

    question: Count
    has_stream: bool
    columns: Annotated[list[DescribedColumn], msgspec.Meta(max_length=COLUMNS_MAX)]
    open: bool


PLACES_MAX = 64
"""Upper bound on the trees of a job that an agent describes its place in."""
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]
Role = Literal["master", "root", "worker", "combiner"]
ParentChoice = Literal["", "root", "prefix", "nearer", "passed_down"]
"""Reason why an agent has its parent in a tree: it is the root and has none; the parent shares more digits with the
tree's key; it is numerically closer; or a full node has passed this agent down to it."""


class TreePlace(msgspec.Struct, frozen=True):
    """An agent's place in one of a job's trees. `depth`: edges up to the root, None without a path to it.

    `lag_s`: time since the end of the last pane that it has passed on. `waiting`: the runs that wait here for others.
    `awaited`: the children that panes wait for.
    """

    tree: Number
    roles: Annotated[list[Role], msgspec.Meta(max_length=4)]
    parent: Id | None
    choice: ParentChoice
    children: Count
    awaited: Annotated[list[Id], msgspec.Meta(max_length=64)]
    depth: Count | None
    round_trip_s: Seconds | None
    lag_s: Seconds | None
    waiting: Count


class DescribeAgent(Message, frozen=True, tag=True):
    """Agent → every agent, multicast to the fleet's group: send the `asker` a description of this agent and, if a job
    is named, of its place in that job's trees."""

    asker: Peer
    question: Count
    job: Id | None = None


class AgentDescription(Message, frozen=True, tag=True):
    """Agent → asker: the description. Without a job named, `places` is empty. `elements`: processing elements here, of
    all keyed jobs."""

    question: Count
    agent: Name
    version: Name
    uptime_s: Seconds
    memory_bytes: Count
    events: Count
    malformed: Count
    events_per_s: Seconds
    jobs: Count
    masters: Count
    lag_s: Seconds | None
    is_leaving: bool
    places: Annotated[list[TreePlace], msgspec.Meta(max_length=PLACES_MAX)] = []  # noqa: RUF012
    elements: Count = 0


SAMPLE_LINES_MAX = 100
"""Upper bound on the lines of a sample."""
SAMPLE_BYTES_MAX = 1 << 16
"""Upper bound on the bytes of a sample's lines."""
SampleLine = Annotated[bytes, msgspec.Meta(max_length=SAMPLE_BYTES_MAX)]
Condition = Annotated[str, msgspec.Meta(min_length=1, max_length=1 << 16)]
Refusal = Annotated[str, msgspec.Meta(max_length=2000)]


class SampleStream(Message, frozen=True, tag=True):
    """Agent → every agent, multicast to the fleet's group: send the `asker` at most `most` of the lines that have come
    into this stream since its last question of this `tap`; the first one opens the tap.

    `malformed`: lines that are no event; else events that `where` keeps. `owner`: the client who asks, as owners of
    jobs are spelled.
    """

    asker: Peer
    question: Count
    tap: Count
    stream: Name
    malformed: bool
    where: Condition | None
    most: Annotated[int, msgspec.Meta(ge=1, le=SAMPLE_LINES_MAX)]
    owner: str


class StreamSample(Message, frozen=True, tag=True):
    """Agent → asker: lines as clients get them, in JSON; `skipped` more were left out, of `read` ones. `refusal`: the
    reason for there being none. An agent without the stream says so (`has_stream`)."""

    question: Count
    agent: Name
    has_stream: bool
    lines: Annotated[list[SampleLine], msgspec.Meta(max_length=SAMPLE_LINES_MAX)] = []  # noqa: RUF012
    skipped: Count = 0
    read: Count = 0
    refusal: Refusal = ""
