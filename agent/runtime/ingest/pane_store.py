"""A job's open panes on an agent whose disk may fail: what cannot be written stays in memory, what cannot be read is
named.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

import cbt
from agent.runtime.function.job_function import JobFunction, TreeOrRows
from agent.runtime.function.spill import SpillArea


class PaneStore:
    """The store of a job's function, in a `room` if there is one. Nothing here raises `cbt.SpillError`."""

    def __init__(self, function: JobFunction, room: SpillArea | None) -> None:
        self._room = room
        self._store = self._made(function)

    def _made(self, function: JobFunction) -> TreeOrRows:
        if self._room is not None:
            try:
                return function.new_store(self._room)
            except cbt.SpillError as error:
                self._room.could_not_write(error)
        return function.new_store()

    def insert(self, selected: pl.DataFrame) -> None:
        """Takes selected events, whether the disk takes its part or not."""
        try:
            self._store.insert(selected)
        except cbt.SpillError as error:
            assert self._room is not None
            self._room.could_not_write(error)

    def flush(self, pane: int | None = None, *, upto: int | None = None) -> Iterator[pl.DataFrame | None]:
        """Frames as the store yields them. None is the last if what comes next cannot be read: of one pane, it is lost
        then; of all up to one, the others may still be read, each by itself.
        """
        try:
            yield from self._store.flush(pane, upto=upto)
        except cbt.SpillError as error:
            assert self._room is not None
            if pane is not None:
                self._room.could_not_read(error)
            yield None

    def empty(self, *, upto: int | None = None) -> None:
        """Forgets everything, or all panes up to one."""
        self._store.empty(upto=upto)

    @property
    def memory_bytes(self) -> int:
        return self._store.memory_bytes
