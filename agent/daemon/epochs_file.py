"""Stores the epochs that this agent took as the root of trees, before any message names them.

Each is one line of group and counter, appended to the file. When there are too many lines, the file is rewritten with
the highest counters of the latest groups. An incomplete or damaged line is skipped: its epoch was never sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from agent.durable_files import write_durably
from overlay import EpochTaken, Id, format_id, parse_id

GROUPS_MAX = 4_096
LINES_MAX = 4 * GROUPS_MAX
COUNTER_DIGITS_MAX = 19
LINE_BYTES_MAX = 32 + 1 + COUNTER_DIGITS_MAX + 1


class EpochsFile:
    """The file at a path. `counters` are by group, the group noted last at the end."""

    def __init__(self, path: Path) -> None:
        self.counters: dict[Id, int] = {}
        self._path = path
        self._lines = LINES_MAX
        self._read()

    def note(self, epochs: Iterable[EpochTaken]) -> None:
        """Saves epochs durably before it returns. OSError if it cannot."""
        lines = []
        for epoch in epochs:
            self._count(epoch.group, epoch.counter)
            lines.append(_line(epoch.group, epoch.counter))
        if self._lines + len(lines) > LINES_MAX:
            self._rewrite()
            return
        lines_before, self._lines = self._lines, LINES_MAX  # if it fails, the next note rewrites a torn line away
        with self._path.open("ab") as file:
            file.write(b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
        self._lines = lines_before + len(lines)

    def _count(self, group: Id, counter: int) -> None:
        self.counters[group] = max(counter, self.counters.pop(group, 0))
        if len(self.counters) > GROUPS_MAX:
            del self.counters[next(iter(self.counters))]

    def _read(self) -> None:
        """Reads the file. The first note rewrites it, so that nothing is appended to an incomplete line."""
        try:
            with self._path.open("rb") as file:
                content = file.read(2 * LINES_MAX * LINE_BYTES_MAX)
        except FileNotFoundError:
            return
        for line in content.splitlines():
            group, _, counter = line.decode("ascii", "replace").partition(" ")
            if counter.isdecimal() and len(counter) <= COUNTER_DIGITS_MAX:
                try:
                    self._count(parse_id(group), int(counter))
                except ValueError:
                    continue

    def _rewrite(self) -> None:
        lines = (_line(group, counter) for group, counter in self.counters.items())
        write_durably(self._path, b"".join(lines))
        self._lines = len(self.counters)


def _line(group: Id, counter: int) -> bytes:
    return f"{format_id(group)} {counter}\n".encode()
