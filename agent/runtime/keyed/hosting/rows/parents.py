"""Events of keyed elements of which elements without keys make others beside them, until these are safe where they go:
a new host of their node shows them again, in the order of their numbers."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from agent.runtime.keyed.elements.runtime import SEQ, SOURCE
from agent.runtime.keyed.hosting.layout import GraphLayout, TypeLayout
from agent.runtime.keyed.hosting.rows.emitter import Emitter
from agent.runtime.keyed.hosting.rows.numbering import EVENT_BITS, derived_channel

FAMILY_MAX = 256
"""Channels that elements without keys derive from one, of which account is kept."""


class Parents:
    """Keeps them, by type."""

    def __init__(self, layout: GraphLayout, emitter: Emitter) -> None:
        self._layout, self._emitter = layout, emitter
        at = layout.by_name
        self._steps = [
            (place, at[taken].place, at[emitted].place)
            for place in range(len(layout.elements))
            if place not in layout.keyed
            for taken in layout.inputs(place)
            for emitted in layout.graph.emits(layout.elements[place])
        ]
        self._frames: dict[str, list[pl.DataFrame]] = {}

    def family(self, source: int, types: Iterable[int]) -> list[int]:
        """A channel of events of these types, by place, and those that elements without keys derive from it."""
        found = [(source, type_) for type_ in types]
        for parent, type_ in found:
            for step in self._steps:
                if step[1] == type_ and len(found) < FAMILY_MAX:
                    found.append((derived_channel(parent, *step), step[2]))
        return list({channel for channel, _ in found})

    def add(self, type_: TypeLayout, rows: pl.DataFrame) -> None:
        """Learns of events that are given to elements without keys."""
        if type_.guaranteed and type_.keyless and rows.height and rows[SOURCE][0] >= 0:
            self._frames.setdefault(type_.name, []).append(rows)

    def kept(self, *, is_busy: bool) -> list[tuple[str, pl.DataFrame]]:
        """The events of which something is not safe yet; the others are forgotten. `is_busy`: events wait for elements
        without keys here. O(rows kept)."""
        if self._frames and not is_busy:
            lowest = self._lowest()
            together = {name: pl.concat(frames) for name, frames in self._frames.items()}
            self._frames = {
                name: [kept] for name, rows in together.items() if (kept := self._unsafe(name, rows, lowest)).height
            }
        return [(name, rows) for name, frames in self._frames.items() for rows in frames]

    def _lowest(self) -> dict[int, int]:
        """The lowest number of an event by the channel in which something made of it is not safe."""
        found: dict[int, int] = {}
        for type_ in self._layout.types:
            for rows in self._emitter.kept(type_.place) if type_.guaranteed else ():
                derived = rows.filter(pl.col(SOURCE) < 0).group_by(SOURCE).agg(pl.col(SEQ).min())
                for source, seq in derived.iter_rows():
                    found[source] = min(found.get(source, seq >> EVENT_BITS), seq >> EVENT_BITS)
        return found

    def _unsafe(self, name: str, rows: pl.DataFrame, lowest: dict[int, int]) -> pl.DataFrame:
        if not lowest:
            return rows.clear()
        firsts, place = [], self._layout.by_name[name].place
        for source in rows[SOURCE].unique().to_list():
            first = min((lowest[one] for one in self.family(source, (place,)) if one in lowest), default=None)
            if first is not None:
                firsts.append((source, first))
        found = pl.DataFrame(firsts, {SOURCE: pl.Int64, "first": pl.Int64}, orient="row")
        joined = rows.join(found, on=SOURCE, how="inner", maintain_order="left")
        return joined.filter(pl.col(SEQ) // (1 << EVENT_BITS) >= pl.col("first")).drop("first")
