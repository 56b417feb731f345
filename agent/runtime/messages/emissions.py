"""Messages by which events that other systems send reach an agent that hosts the elements of their job."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from agent.programs.element_graph import FIELDS_MAX, GraphName
from agent.runtime.model.fields import Count, Message

EVENTS_BYTES_MAX = 768 << 10
"""Upper bound on the bytes of the events that are sent at once."""
EventBytes = Annotated[bytes, msgspec.Meta(max_length=EVENTS_BYTES_MAX)]
EventColumns = Annotated[list[tuple[GraphName, str]], msgspec.Meta(max_length=FIELDS_MAX + 1)]
ClientChannel = Annotated[int, msgspec.Meta(ge=-(2**63), lt=0)]
"""Elements number what they emit in channels from 0 on."""
TakenAs = Literal["taken", "busy", "refused"]


class SentEvents(msgspec.Struct, frozen=True):
    """Events of one type in order, the first of which has the number `first`, from 0, in its client's emission.

    `columns` None: `data` is lines of JSON; else columns, as the bytes of `cbt.encode_frame`, by name and type.
    `time_field`: the one with the time of an event, "" for that of its arrival.
    """

    type: GraphName
    first: Annotated[int, msgspec.Meta(ge=0, le=2**42)]
    data: EventBytes
    columns: EventColumns | None = None
    time_field: Annotated[str, msgspec.Meta(max_length=255)] = ""


class EmitEvents(Message, frozen=True, tag=True):
    """Agent → an agent that has the job: insert these events. `channel` numbers them, while their client sends.

    `dealt`: the receiver's own elements take them; else it deals them itself.
    """

    question: Count
    channel: ClientChannel
    batch: SentEvents
    dealt: bool


class EventsTaken(Message, frozen=True, tag=True):
    """Agent → asker: whether the events are safe, or why not: `busy` if they may be sent again later, else they are
    refused."""

    question: Count
    taken: TakenAs
    rows: Count = 0
    reason: Annotated[str, msgspec.Meta(max_length=2000)] = ""
