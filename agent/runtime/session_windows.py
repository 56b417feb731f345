"""Sessions at a job's master: panes of a group with no more than a gap between their events, put together."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from agent.runtime.growing_windows import Grown
from cbt import OpenSessions, SessionLayout

START = "session.start"


class SessionWindows:
    """The shape of windows of a size. What comes with a pane are all sessions that it shows to be over: they are one
    window, from the pane in which the first of them began.
    """

    def __init__(self, layout: SessionLayout) -> None:
        self._layout = layout
        self._sessions = OpenSessions(layout)
        self._complete: int | None = None

    def add(self, pane: int, state: pl.DataFrame) -> Iterator[Grown]:
        """Takes a pane's state, with the times of its first and last events."""
        yield from self.advance(pane)
        self._complete = pane + self._layout.pane_ms
        yield from self._over(self._sessions.add(self._layout.pieces(state), self._complete).frame)

    def advance(self, complete_ms: int) -> Iterator[Grown]:
        """All panes before a time are in."""
        if self._complete is not None and complete_ms > self._complete and len(self._sessions):
            self._complete = complete_ms
            yield from self._over(self._sessions.add(self._layout.empty(), complete_ms).frame)

    def end(self) -> Iterator[Grown]:
        """Those that are open, at the end of the input."""
        yield from self._over(self._sessions.end().frame)

    def _over(self, sessions: pl.DataFrame) -> Iterator[Grown]:
        first = sessions[START].min()
        if isinstance(first, int) and self._complete is not None:
            pane_ms = self._layout.pane_ms
            start = first // pane_ms * pane_ms
            yield Grown(self._complete - pane_ms, start, self._complete - start, sessions, True)

    @property
    def memory_bytes(self) -> int:
        return self._sessions.memory_bytes
