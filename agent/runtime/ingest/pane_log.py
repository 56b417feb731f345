"""Keeps the runs that one worker has sealed until the master commits them, and longer while open windows need them.

Whoever becomes master next gets them again: nothing that a worker has sealed is lost with a master, or with a parent.
"""

from __future__ import annotations

from collections import deque

from agent.runtime.model.panes import COUNTS_BYTES, Run, runs_upto

UNCOMMITTED_BYTES_MAX = 64 << 20
"""Upper bound on runs that are sealed and not committed; past it a worker seals nothing until the master catches up."""
RETAINED_BYTES_MAX = 256 << 20
"""Upper bound on committed runs retained for windows that are still open; past it the oldest are dropped."""


class PaneLog:
    """A replay log of runs in pane order."""

    def __init__(self) -> None:
        self._uncommitted: list[Run] = []
        self._uncommitted_bytes = 0
        self._retained: deque[Run] = deque()
        self._retained_bytes = 0

    def append(self, run: Run) -> None:
        """Keeps a run, which follows the last one."""
        self._uncommitted.append(run)
        self._uncommitted_bytes += _bytes_of(run)

    def cut(self, last_pane: int) -> None:
        """Drops all panes after `last_pane`."""
        self._uncommitted = runs_upto(last_pane, self._uncommitted)
        self._uncommitted_bytes = sum(map(_bytes_of, self._uncommitted))

    def after(self, frontier: int) -> list[Run]:
        """Every run beyond a frontier that is still kept, cut to what lies beyond it."""
        return [run.within(frontier, run.upto) for run in (*self._retained, *self._uncommitted) if run.upto > frontier]

    def commit(self, frontier: int, retention_pane: int) -> None:
        """Marks panes up to `frontier` as published, and frees those up to `retention_pane`: no window needs them."""
        if self._uncommitted and self._uncommitted[0].upto <= frontier:
            committed = [run for run in self._uncommitted if run.upto <= frontier]
            self._uncommitted = self._uncommitted[len(committed) :]
            self._uncommitted_bytes = sum(map(_bytes_of, self._uncommitted))
            self._retained += committed
            self._retained_bytes += sum(map(_bytes_of, committed))
        while self._retained and (
            self._retained[0].upto <= retention_pane or self._retained_bytes > RETAINED_BYTES_MAX
        ):
            self._retained_bytes -= _bytes_of(self._retained.popleft())

    @property
    def is_full(self) -> bool:
        """Whether the master has so much to catch up with that nothing more may be sealed."""
        return self._uncommitted_bytes > UNCOMMITTED_BYTES_MAX

    @property
    def memory_bytes(self) -> int:
        return self._uncommitted_bytes + self._retained_bytes


def _bytes_of(run: Run) -> int:
    return int(run.state.estimated_size()) + COUNTS_BYTES * len(run.counted)
