"""Carries a block of a feed, or a part of one, into operators: its events, and what its end lets them do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from agent.parsing import Abandoned
from agent.runtime.durable.records import Place
from agent.runtime.ingest.feed import FeedKey
from agent.runtime.ingest.operator import Operator
from agent.runtime.model.latency.critical_path import Found


class BlockFrame(NamedTuple):
    """Some events of a block, with the time of the newest. `is_passed_over`: all but their times is left out, as they
    fail the clauses of all jobs."""

    events: pl.DataFrame
    newest_ms: int
    is_passed_over: bool


@dataclass(frozen=True, slots=True)
class FeedBlock:
    """A block, all of whose events are believed. `place`: the one after it. `found`: the look that has found it, with
    the time that the feed has come to."""

    key: FeedKey
    frames: tuple[BlockFrame, ...]
    malformed: int
    abandoned: Abandoned | None
    place: Place | None
    found: Found

    @property
    def rows(self) -> int:
        """The number of its events."""
        return sum(frame.events.height for frame in self.frames)

    def insert(self, operator: Operator) -> None:
        """Gives all of it to an operator."""
        for frame in self.frames:
            self.give(operator, frame, frame.events)
        self.end(operator)

    def give(self, operator: Operator, frame: BlockFrame, events: pl.DataFrame) -> None:
        """Gives events of one of its frames to an operator."""
        operator.begin_block(self.place)
        if frame.is_passed_over:
            operator.see(self.key, frame.newest_ms)
            operator.put(events)
        else:
            operator.insert(self.key, events, frozenset(events.columns), frame.newest_ms)

    def end(self, operator: Operator) -> None:
        """Tells an operator that has all its events of its end."""
        operator.begin_block(self.place)
        if self.abandoned is not None:
            operator.see(self.key, self.abandoned.newest_ms)
            count_undecoded(operator, self.abandoned, self.place)
        operator.timing.take(self.found)
        operator.saw(self.key, self.malformed, self.found.reached_ms, self.place)


def catch_up(operator: Operator, key: FeedKey, wall_ms: int, found: Found) -> None:
    """Tells an operator that a feed is at its end for now."""
    operator.timing.take(found)
    operator.caught_up(key, wall_ms)


def count_undecoded(operator: Operator, abandoned: Abandoned, place: Place | None) -> None:
    """Counts lines that were not decoded, as it was too late for them."""
    late = {operator.pane_of(abandoned.newest_ms): abandoned.lines}
    for consumer in operator.consumers:
        consumer.count_late(late, frozenset() if place is None else place.replayed)
