"""Messages that describe a stream all over the fleet."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from agent.runtime.model.fields import Count, Message, Name
from overlay import Peer

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
