"""The shape of every element on its host, and of the frames of events that go through it.

Frames of events have, before the fields of their type, the columns
    @time    Int64   event time, ms since the epoch
    @source  Int64   the channel that numbers them: see `channel_of`
    @seq     Int64   number in that channel, ascending
    @node    UInt16  logical node of the element that takes them (of their key)
Strings are String, integers and timestamps Int64, numbers Float64, booleans Boolean, `any` is String (canonical JSON).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

import polars as pl

EVENT_TIME, SOURCE, SEQ, NODE = "@time", "@source", "@seq", "@node"
DTYPES: Mapping[str, pl.DataType] = {
    "string": pl.String(),
    "integer": pl.Int64(),
    "timestamp": pl.Int64(),
    "number": pl.Float64(),
    "boolean": pl.Boolean(),
    "any": pl.String(),
}
"""The physical type of each type of a field."""

Tables = Mapping[str, pl.DataFrame]
"""States by the name of a table of the element's own, each frame with the column `@node`."""


class Emitted(NamedTuple):
    """Events of one type that an element has emitted: @time, @node (of the element that has emitted them), and the
    fields, in the order in which it has emitted them."""

    type: str
    rows: pl.DataFrame


class ElementRuntime(Protocol):
    """All elements of one prototype that an agent hosts. Calls are carried out in order, and each calls `done` when it
    has been: at once where the element is declared, later where it is code in a program.
    """

    def process(self, type_: str, rows: pl.DataFrame, done: Callable[[list[Emitted]], None]) -> None:
        """Gives the elements events of a type, in the order in which they are to be processed."""
        ...

    def advance(self, watermark_ms: int, done: Callable[[list[Emitted]], None]) -> None:
        """Lets elements act on event time: every event before the watermark has been given to them."""
        ...

    def take_changes(self, done: Callable[[Tables], None]) -> None:
        """Returns what has changed since the last call, in a form that `put` takes after what it was given before."""
        ...

    def states(self, nodes: Collection[int], done: Callable[[Tables], None]) -> None:
        """Returns the whole state of these logical nodes."""
        ...

    def put(self, tables: Tables) -> None:
        """Takes the state of logical nodes that come here: whole states, then changes, in order."""
        ...

    def drop(self, nodes: Collection[int]) -> None:
        """Forgets logical nodes that are elsewhere now."""
        ...

    def evict(self, bytes_max: int, watermark_ms: int) -> int:
        """Removes elements until so many bytes are used: first those past their time to live; returns how many."""
        ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def elements(self) -> int:
        """Number of elements here."""
        ...


Compact = Callable[[str, list[pl.DataFrame]], pl.DataFrame]
"""Puts the frames of one table, given one after the other, into one: what standbys keep stays small."""
