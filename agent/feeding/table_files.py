"""Keeps look-up tables up to date: small files of rows, read whole, and again whenever they change."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterable

import trio

from agent.configuration.config import TableConfig
from agent.feeding.table_reading import read_table
from agent.runtime.upstream.tables import FileTables
from agent.sources import SourceError

POLL_S = 1.0
"""Interval at which files are checked for changes."""

_LOG = logging.getLogger("elf.agent")
_State = tuple[int, int, int, int] | None
"""Device, inode, size and time of the last change of a file; None: there is no file."""


class TableFiles:
    """Keeps the agent's tables up to date with their files; `pump` is called after each change.

    A file is read when two polls find it unchanged, and again if it changed during the reading, so that a file written
    in place is seldom read half-written. Only renaming a new file over the old one makes that certain.
    """

    def __init__(
        self,
        held: FileTables,
        tables: Iterable[TableConfig],
        *,
        pump: Callable[[], None],
    ) -> None:
        self._held = held
        self._tables = tuple(tables)
        self._has_changed = trio.Event()
        self._pump = pump
        self._read: dict[str, _State] = {}
        self._seen: dict[str, _State] = {}

    async def run(self) -> None:
        """Polls until it is cancelled."""
        while True:
            self._has_changed = trio.Event()
            await self.look()
            with trio.move_on_after(POLL_S if self._tables else math.inf):
                await self._has_changed.wait()

    def change(self, tables: Iterable[TableConfig]) -> None:
        """Reads these tables from now on, at once those that are new or have another file."""
        tables = tuple(tables)
        for table in tables:
            if table not in self._tables:
                self._seen.pop(table.name, None)
                self._read.pop(table.name, None)
        self._tables = tables
        self._held.keep_only([table.name for table in tables])
        self._has_changed.set()

    async def look(self) -> None:
        """Checks each file once, and reads those that have changed."""
        for table in self._tables:
            await self._look_at(table)

    async def _look_at(self, table: TableConfig) -> None:
        state = _state(table.path)
        is_first = table.name not in self._seen
        is_settled = is_first or state == self._seen[table.name]
        self._seen[table.name] = state
        if not is_settled or (not is_first and state == self._read.get(table.name)):
            return
        self._read[table.name] = state
        try:
            found = await trio.to_thread.run_sync(read_table, table.path, table.format, abandon_on_cancel=True)
        except SourceError as error:
            _LOG.warning("table", extra={"fields": {"table": table.name, "fault": str(error)}})
            found = None
        if state is not None and _state(table.path) != state:
            del self._read[table.name]
            if not is_first:
                return
        self._held.hold(table.name, found)
        self._pump()


def _state(path: str) -> _State:
    try:
        status = os.stat(path)  # noqa: PTH116 (every second: a Path takes thrice as long)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
