"""Events that wait for the watermark, and are given to their elements in one order, whatever way they came."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from agent.programs.element_graph import Element
from agent.runtime.keyed.elements.runtime import EVENT_TIME, SEQ
from agent.runtime.keyed.hosting.commits.records import Table
from agent.runtime.keyed.hosting.options import Bools
from agent.runtime.keyed.hosting.rows.numbering import rank
from agent.runtime.keyed.hosting.rows.outgoing import NEVER

CELL_MS = 60_000
"""Events of so much event time are processed before time goes on, where an element has no period of its own."""
BEGINNING = -(2**62)


class Hold:
    """Events of one element by (time, rank of the channel, number).

    For code, and what has a period, time goes on in whole cells, so that it acts between the same events on any number
    of agents. Other declared elements do not depend on it: they get all events up to the watermark, a type at a time.
    """

    def __init__(self, place: int, element: Element, *, is_bounded: bool) -> None:
        self._place = place
        self._cell = CELL_MS if element.every_s is None else max(1, round(element.every_s * 1000))
        acts_on_time = is_bounded or element.every_s is not None or element.ttl_s is not None
        self._has_cells = element.kind in ("code", "top") and acts_on_time
        self._is_declared = element.kind != "code"
        self._types = [one.type for one in element.inputs]
        self._frames: dict[str, list[pl.DataFrame]] = {name: [] for name in self._types}
        self._added: dict[str, list[pl.DataFrame]] = {name: [] for name in self._types}
        self.released = BEGINNING
        self.rows = 0
        self._lowest = NEVER

    def add(self, type_: str, rows: pl.DataFrame) -> None:
        """Holds rows of a type."""
        self._frames[type_].append(rows)
        self._added[type_].append(rows)
        self.rows += rows.height
        if isinstance(lowest := rows[EVENT_TIME].min(), int):
            self._lowest = min(self._lowest, lowest)

    def release(
        self, watermark: int, process: Callable[[str, pl.DataFrame], None], advance: Callable[[int], None]
    ) -> None:
        """Gives out the rows of all cells that are complete, and the time after each."""
        is_exact = watermark >= NEVER or not self._has_cells
        upto = watermark if is_exact else watermark // self._cell * self._cell
        if upto <= self.released:
            return
        self.released = upto
        ready = self._take(upto)
        if ready:
            self._give(ready, process, advance)
        advance(upto)

    def _take(self, upto: int) -> dict[str, pl.DataFrame]:
        ready: dict[str, pl.DataFrame] = {}
        if upto <= self._lowest:
            return ready
        for name, frames in self._frames.items():
            if not frames:
                continue
            rows = pl.concat(frames)
            is_due = pl.col(EVENT_TIME) < upto
            due, rest = rows.filter(is_due), rows.filter(~is_due)
            self._frames[name] = [rest] if rest.height else []
            self.rows -= due.height
            if due.height:
                ready[name] = due
        self._lowest = self.lowest
        return ready

    def _give(
        self,
        ready: dict[str, pl.DataFrame],
        process: Callable[[str, pl.DataFrame], None],
        advance: Callable[[int], None],
    ) -> None:
        if not self._has_cells and self._is_declared:
            for name, due in ready.items():
                process(name, due.sort(pl.col(EVENT_TIME), rank(), pl.col(SEQ)))
            return
        names = list(ready)
        keys = pl.concat(
            rows.select(
                pl.col(EVENT_TIME),
                rank().alias("rank"),
                pl.col(SEQ),
                pl.lit(place, pl.Int64).alias("type"),
                pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
            )
            for place, rows in enumerate(ready.values())
        ).sort(EVENT_TIME, "rank", SEQ, "type", "row")
        cells, types, rows = (
            (keys[EVENT_TIME] // self._cell).to_numpy(),
            keys["type"].to_numpy(),
            keys["row"].to_numpy(),
        )
        changes = np.flatnonzero((cells[1:] != cells[:-1]) | (types[1:] != types[:-1])) + 1
        for part in np.split(np.arange(len(rows)), changes):
            first = part[0]
            if self._has_cells:
                advance(int(cells[first]) * self._cell)
            process(names[types[first]], ready[names[types[first]]][rows[part]])

    # Commits.

    def take_added(self) -> list[Table]:
        """The rows that have come since the last call and are still held."""
        tables = []
        for name, frames in self._added.items():
            if frames and (rows := pl.concat(frames).filter(pl.col(EVENT_TIME) >= self.released)).height:
                tables.append(Table("held", self._place, name, rows))
            self._added[name] = []
        return tables

    def all(self) -> list[Table]:
        """All rows that are held."""
        return [Table("held", self._place, name, pl.concat(frames)) for name, frames in self._frames.items() if frames]

    def drop(self, kept: Bools) -> None:
        """Forgets the rows of nodes that are not here any more."""
        for frames in (self._frames, self._added):
            for name, parts in frames.items():
                tables = [Table("held", self._place, name, part).of(kept).rows for part in parts]
                frames[name] = [part for part in tables if part.height]
        self.rows = sum(part.height for parts in self._frames.values() for part in parts)

    @property
    def lowest(self) -> int:
        """The lowest time of a row that is held."""
        times = [part[EVENT_TIME].min() for parts in self._frames.values() for part in parts]
        return min((time for time in times if isinstance(time, int)), default=NEVER)
