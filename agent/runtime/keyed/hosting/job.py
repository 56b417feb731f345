"""The elements of one job on one agent: the face of the core."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import polars as pl

from agent.runtime.keyed.elements.runtime import ElementRuntime
from agent.runtime.keyed.graph import CheckedGraph
from agent.runtime.keyed.hosting.options import KeyedOptions, Ring
from agent.runtime.model.fields import Message
from overlay import Id, Peer

OnRows = Callable[[str, pl.DataFrame], None]


class KeyedJob:
    """Sends, hosts and keeps the elements of one job on one agent, with the same class on its peers.

    `runtimes`: by the name of an element, keyed and keyless alike; a keyless one emits rows with the columns @source
    and @seq of the event that each comes from. `on_rows`: takes the rows of a type that elements emit here (@time, @source,
    @seq, fields), once they may be seen; after a host is lost some come again, with the same @source and @seq.
    """

    def __init__(
        self,
        app_id: Id,
        graph: CheckedGraph,
        ring: Ring,
        runtimes: Mapping[str, ElementRuntime],
        options: KeyedOptions,
        on_rows: OnRows,
    ) -> None:
        self.graph, self.options, self.app_id = graph, options, app_id
        self._ring, self._runtimes, self._on_rows = ring, runtimes, on_rows
        self.failure: str | None = None
        """The reason why the job cannot go on, as one line; the agent around it fails the job."""

    def channel(self, type_: str) -> int:
        """The channel that numbers this agent's rows of a source, `@source` in `insert`."""
        raise NotImplementedError

    def insert(self, type_: str, rows: pl.DataFrame, now: float) -> None:
        """Takes rows of a source: @time, @source, @seq (a multiple of 2**20, ascending), and the fields."""

    def source_time(self, type_: str, watermark_ms: int) -> None:
        """Learns that rows of a source that come here later are not before this time."""

    def end_of_source(self, type_: str) -> None:
        """Learns that a source brings no more rows here."""

    @property
    def has_room(self) -> bool:
        """Whether rows may be inserted; False: stop reading."""
        raise NotImplementedError

    def acknowledged(self, source: int) -> int:
        """The number up to which all rows inserted in a channel are safe; -1 for none."""
        raise NotImplementedError

    def handle(self, message: Message, sender: Peer, now: float) -> bool:
        """Takes a message from a peer; False: it is not of use."""
        raise NotImplementedError

    def routed(self, message: Message, key: Id, origin: Peer, now: float) -> bool:
        """Takes a message that came to the root of a key."""
        raise NotImplementedError

    def multicast(self, message: Message, now: float) -> None:
        """Takes a message to all of the job."""

    def tick(self, now: float, wall_ms: int) -> None:
        """Does what is due."""

    def next_timer(self) -> float | None:
        """The time of the next thing that is due, None for nothing."""
        raise NotImplementedError

    def members(self, peers: Collection[Peer], master: Peer, now: float) -> None:
        """Learns who takes part, and who leads the job."""

    def failed(self, peer: Peer, now: float) -> None:
        """Learns that an agent is dead."""

    def neighbours_changed(self, now: float) -> None:
        """Learns that agents near to this one have come or gone."""

    def leave(self, now: float) -> None:
        """Begins to hand over everything."""

    @property
    def has_left(self) -> bool:
        """Whether everything has been handed over."""
        raise NotImplementedError

    def watermark(self, type_: str) -> int:
        """The time before which no more rows of a type come, anywhere."""
        raise NotImplementedError

    @property
    def is_quiet(self) -> bool:
        """Bounded input: whether everything has been processed everywhere, and all timers have fired."""
        raise NotImplementedError

    def statistics(self) -> Mapping[str, int]:
        """Counts by name: hosted, elements, events, emitted, shed, evicted, lost, null_keys, refused, ..."""
        raise NotImplementedError

    def lost_nodes(self) -> frozenset[int]:
        """The logical nodes begun anew here without the state that they had."""
        raise NotImplementedError

    def describe(self) -> list[dict[str, Any]]:
        """A row per element: name, nodes hosted, elements, events, queue, memory."""
        raise NotImplementedError

    def state_of(self, element: str, node: int, done: Callable[[Mapping[str, pl.DataFrame]], None]) -> bool:
        """Gives the states in a logical node of an element; False if it is not hosted here."""
        raise NotImplementedError

    def host_of(self, node: int) -> Peer | None:
        """The host of a logical node, if it is known here."""
        raise NotImplementedError
