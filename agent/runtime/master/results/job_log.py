"""Keeps the log lines of a job's code, at its master."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from agent.runtime.messages.programs import LOG_LINES_MAX, Line, Log
from overlay import Id

BYTES_MAX = 512 << 10
"""Upper bound on the text of a log; the oldest lines are dropped first, and counted."""


class JobLog:
    """The last lines of one job, in the order in which they came.

    >>> log = JobLog()
    >>> log.add([Line(0, "a", "hello")])
    >>> [line.text for line in log.answer(Id(1), "shop", 10).lines]
    ['hello']
    """

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._lines: deque[Line] = deque()
        self._bytes = 0
        self._dropped = 0

    def add(self, lines: Iterable[Line]) -> None:
        """Adds lines, and drops the oldest if there are too many."""
        for line in lines:
            self._lines.append(line)
            self._bytes += _bytes_of(line)
        while len(self._lines) > LOG_LINES_MAX or self._bytes > self._bytes_max:
            self._bytes -= _bytes_of(self._lines.popleft())
            self._dropped += 1

    @property
    def lines(self) -> list[Line]:
        """All lines it has."""
        return list(self._lines)

    def answer(self, app_id: Id, name: str, lines: int) -> Log:
        """The last lines, at most this number."""
        last = list(self._lines)[-lines:]
        return Log(app_id, name, last, self._dropped + len(self._lines) - len(last))


def _bytes_of(line: Line) -> int:
    return len(line.text.encode(errors="replace")) + len(line.agent) + 16
