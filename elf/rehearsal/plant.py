"""Stages to rehearse: their sources, their workers, and who relieves whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agent.grouping import Assignment
from elf.rehearsal.queues import Floats, Places

SERVICE_S = 0.001
"""Seconds a worker takes for a row, unless said."""
BLOCK_ROWS = 256
"""Rows that a source hands to its grouping at once, unless said."""


def worker_names(count: int, prefix: str = "worker") -> tuple[bytes, ...]:
    """Ids of workers; those of fewer are the first of those of more."""
    return tuple(f"{prefix} {number}".encode() for number in range(count))


@dataclass(frozen=True)
class Crew:
    """An assignment, and the number of the server that each of its workers is."""

    assignment: Assignment
    servers: Places

    @classmethod
    def of(cls, workers: tuple[bytes, ...], counter: int = 1) -> Crew:
        """Workers that are the first servers, in their order."""
        return cls(Assignment(1, counter, workers), np.arange(len(workers), dtype=np.int16))


@dataclass(frozen=True)
class Relief:
    """Another crew, from this row of the stream on."""

    row: int
    crew: Crew


@dataclass(frozen=True)
class Plant:
    """A stage to rehearse: its number of sources, its first crew, and each server's seconds a row.

    `told_s` are the seconds a row that servers report, None: the true ones. `routing_s` are a source's seconds a row,
    `block_rows` the rows that it hands to its grouping at once, at most. `reliefs` come in the order of their rows.
    """

    sources: int
    crew: Crew
    service_s: Floats
    routing_s: float = 0.0
    reliefs: tuple[Relief, ...] = ()
    told_s: Floats | None = None
    block_rows: int = BLOCK_ROWS

    @classmethod
    def even(cls, workers: int, sources: int, routing_s: float = 0.0, block_rows: int = BLOCK_ROWS) -> Plant:
        """A stage whose workers are equally fast."""
        service_s = np.full(workers, SERVICE_S)
        return cls(sources, Crew.of(worker_names(workers)), service_s, routing_s, block_rows=block_rows)

    @property
    def full_load(self) -> float:
        """Rows a second that keep the first crew just busy."""
        return float((1 / self.service_s[self.crew.servers]).sum())

    def shifts(self, rows: int) -> Iterator[tuple[Crew, range]]:
        """Yields the crews, each with its rows."""
        starts = [0, *(one.row for one in self.reliefs), rows]
        crews = [self.crew, *(one.crew for one in self.reliefs)]
        for crew, begin, end in zip(crews, starts, starts[1:], strict=False):
            yield crew, range(begin, end)
