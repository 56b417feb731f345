"""The face of the core towards the agent around it: what it needs of the ring, and its settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from agent.runtime.keyed.elements.runtime import Compact
from agent.runtime.keyed.logical_nodes import NONE_BEGUN, BegunNodes
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.fields import Message
from overlay import Id, Peer

PENDING_ROWS_MAX = 1 << 18
"""Rows of one event type that may wait or be under way at one agent."""
STUCK_S = 30.0
"""Time for which a circle of elements may be full."""
DIRECT_MAX = 256
"""Agents of one job up to which each sends to all others directly; with more, messages go along the ring."""
Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]


class Ring(Protocol):
    """The overlay as the core of one job sees it. Messages to this agent itself are never sent through it."""

    @property
    def me(self) -> Peer: ...

    def nearest(self, key: Id, count: int) -> tuple[Peer, ...]:
        """The live agents closest to a key, the closest first, as far as this agent knows; it may be among them."""
        ...

    def next_hop(self, node_id: Id) -> Peer | None:
        """The agent that a message to another one goes to first, by way of the ring; None if none is nearer to it."""
        ...

    def send(self, peer: Peer, message: Message, now: float) -> None:
        """Sends to one agent. What is sent to an agent arrives in order, or not at all."""
        ...

    def multicast(self, message: Message, now: float) -> None:
        """Sends to every member of the job's group, this agent included or not."""
        ...


class ChoiceStore(Protocol):
    """A file of one job, which outlives the agent's process. Both writers return whether it has all of the data."""

    def read(self) -> bytes: ...

    def append(self, data: bytes) -> bool: ...

    def replace(self, data: bytes) -> bool: ...


class ChoiceStores(Protocol):
    """The files of all jobs."""

    def of(self, term: JobTerm) -> ChoiceStore: ...

    def retain(self, terms: Collection[JobTerm]) -> None:
        """Removes those of all other jobs."""
        ...


@dataclass(frozen=True, slots=True)
class KeyedOptions:
    """Settings of one job on one agent.

    `incarnation`: a number that is higher after each start of the agent. `begun_before`: the nodes that its process
    before knew to have been begun, of which this one remembers nothing. `standbys`: copies of guaranteed state.
    `weight`: share of the load this agent takes; 0 makes it an idle standby. `needs_time`: something acts on event
    time. `bounded`: the input ends, and elements take events in their order. `grace_ms`: how long late events
    that clients send to a live job are waited for. `direct_max`: agents up to which each sends to all directly.
    `probe_s`: time without news of a host after which it is asked how far it is. `pane_ms`: what windows over the job's
    types are multiples of, None if that is not known.
    `choices`: where is kept which workers were chosen for rows of this agent's logs; None where no log is read again
    under the same numbers. `compact`: by the name of an element, puts frames that a standby holds into one.
    """

    incarnation: int = 0
    begun_before: BegunNodes = NONE_BEGUN
    standbys: int = 2
    weight: float = 1.0
    bounded: bool = False
    needs_time: bool = True
    grace_ms: int = 0
    memory_bytes: int = 1 << 30
    pending_rows_max: int = PENDING_ROWS_MAX
    pending_bytes_max: int = 256 << 20
    commit_s: float = 0.1
    cut_s: float = 0.02
    direct_max: int = DIRECT_MAX
    batch_rows: int = 8192
    probe_s: float = 2.0
    pane_ms: int | None = None
    lost_s: float = 30.0
    stuck_s: float = STUCK_S
    choices: ChoiceStore | None = None
    compact: Mapping[str, Compact] = field(default_factory=dict)
