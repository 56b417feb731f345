"""Messages by which a client sees the processing elements of keyed jobs, as all agents of the fleet describe theirs."""

from __future__ import annotations

from typing import Annotated

import msgspec

from agent.programs.element_graph import ELEMENTS_MAX, WORKERS_MAX
from agent.runtime.messages.views.descriptions import Seconds
from agent.runtime.model.fields import Count, Message, Name, Number
from overlay import Id, Peer

HOSTED_MAX = 4096
"""Upper bound on the elements, over all of its jobs, that an agent describes."""
KEY_FIELDS_MAX = 16
KEY_TEXT_MAX = 4096
STATES_MAX = ELEMENTS_MAX
HOT_MAX = 10
"""Upper bound on the hot keys of an element that are told."""
STATE_BYTES_MAX = 1 << 20
"""Upper bound on the state of an element that is shown; of a longer one its size is."""
KeyText = Annotated[str, msgspec.Meta(max_length=KEY_TEXT_MAX)]
StateBytes = Annotated[bytes, msgspec.Meta(max_length=STATE_BYTES_MAX)]


class SplitKey(msgspec.Struct, frozen=True, array_like=True):
    """A key that is split as it is hot, its share of an agent's events, and the workers that it may go to."""

    key: Annotated[str, msgspec.Meta(max_length=KEY_TEXT_MAX)]
    share: float
    workers: Number


class HostedElement(msgspec.Struct, frozen=True, kw_only=True):
    """The processing elements of one prototype on one agent, since the job has begun there. `job` is its id.

    `nodes`: logical nodes hosted here. `elements`: the processing elements in them, one for each value of the key.
    `queue`: events that wait for them. `lost`: logical nodes begun anew without their state. `lag_s`: age of the oldest
    input that is not committed, None where there is none. `failed`: calls that have raised. `missed`: events that were
    late, or beyond a bound. `under_replicated`: logical nodes whose standbys do not all hold their state,
    and those decided on here that have no host.

    Where keys are split: the `grouping`, over how many `workers`, and as this agent sends events to them, how many keys
    are hot, which the hottest are, how many are split, into how many parts on average, and how long an event is
    estimated to wait at each worker (s). `refused_reports`: news of workers that could not be.
    """

    job: Id
    element: Name
    nodes: Number = 0
    elements: Count = 0
    events: Count = 0
    events_per_s: Seconds = 0.0
    queue: Count = 0
    emitted: Count = 0
    evicted: Count = 0
    shed: Count = 0
    lost: Count = 0
    null_keys: Count = 0
    refused: Count = 0
    memory_bytes: Count = 0
    lag_s: Seconds | None = None
    failed: Count = 0
    missed: Count = 0
    under_replicated: Count = 0
    grouping: str = ""
    workers: Number = 0
    hot_keys: Count = 0
    split_keys: Count = 0
    mean_parts: Seconds = 0.0
    hot: Annotated[list[SplitKey], msgspec.Meta(max_length=HOT_MAX)] = []
    waits: Annotated[list[Seconds], msgspec.Meta(max_length=WORKERS_MAX)] = []
    refused_reports: Count = 0


class KeyedState(msgspec.Struct, frozen=True, kw_only=True):
    """One processing element as its host has it. `state` is JSON; b"" if it is longer than is shown, `state_bytes` then
    tells. `epoch` numbers the configurations of its logical node."""

    element: Name
    node: Number
    state: StateBytes
    state_bytes: Count
    epoch: Count = 0


class DescribeElements(Message, frozen=True, tag=True):
    """Agent → every agent, multicast to the fleet's group: send the `asker` a description of the processing elements
    here, of one job if it is named.

    With a `key`, in text, one for each field: the state of the elements of this value too, of `element` alone if named.
    """

    asker: Peer
    question: Count
    job: Id | None = None
    element: Annotated[str, msgspec.Meta(max_length=255)] = ""
    key: Annotated[list[KeyText], msgspec.Meta(max_length=KEY_FIELDS_MAX)] | None = None


class ElementsDescription(Message, frozen=True, tag=True):
    """Agent → asker: the description. `keyed`: whether a job that was named has elements here. `fault`: the reason why
    no element can have the key."""

    question: Count
    agent: Name
    keyed: bool = False
    elements: Annotated[list[HostedElement], msgspec.Meta(max_length=HOSTED_MAX)] = []  # noqa: RUF012
    states: Annotated[list[KeyedState], msgspec.Meta(max_length=STATES_MAX)] = []  # noqa: RUF012
    fault: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class ElementsGiven(Message, frozen=True, tag=True):
    """Agent → master: what the job's elements on this agent have given up since they have begun there: elements that
    were evicted, events that were shed, and a bitmap of the logical nodes that began anew without their state; how
    many calls of their code have `failed`, and how many events they have `missed`."""

    evicted: Count
    shed: Count
    lost: Annotated[bytes, msgspec.Meta(max_length=128)] = b""
    failed: Count = 0
    missed: Count = 0
