"""Keeps what an operator has got of its open panes as states, beside the events in its store.

States of many windows may come for one pane. They are merged as they come: what is kept of a pane is little more than
its groups, and each row is merged a few times at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from agent.runtime.function.job_function import JobFunction

MERGED_TIMES = 2
"""Rows that wait to be merged, over those of a pane's merged state, from which on they are."""
WAITING_ROWS = 1 << 14
"""Least number of rows that are merged at once."""
BYTES_MAX = 256 << 20
"""Upper bound on the states of open panes; with more, rows are read, which a store can put on disk."""


@dataclass(slots=True)
class _Pane:
    """The states of one pane: a merged one, and those that came since."""

    merged: pl.DataFrame
    waiting: list[pl.DataFrame] = field(default_factory=list)
    waiting_rows: int = 0

    @property
    def memory_bytes(self) -> int:
        return sum(int(frame.estimated_size()) for frame in (self.merged, *self.waiting))


class TakenStates:
    """The states of a function's open panes."""

    def __init__(self, function: JobFunction) -> None:
        self._function = function
        self._panes: dict[int, _Pane] = {}
        self.memory_bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether more may be taken."""
        return self.memory_bytes < BYTES_MAX

    def add(self, pane: int, state: pl.DataFrame) -> None:
        """Takes a state of a pane. O(rows) amortized, and the merging."""
        own = self._panes.get(pane)
        if own is None:
            own = self._panes[pane] = _Pane(self._function.gather([state]))
            self.memory_bytes += own.memory_bytes
            return
        own.waiting.append(state)
        own.waiting_rows += state.height
        self.memory_bytes += int(state.estimated_size())
        if own.waiting_rows > max(WAITING_ROWS, MERGED_TIMES * own.merged.height):
            self.memory_bytes -= own.memory_bytes
            self._panes[pane] = own = _Pane(self._function.combine([own.merged, *own.waiting]))
            self.memory_bytes += own.memory_bytes

    def with_rest(self, state: pl.DataFrame, after: int, upto: int) -> pl.DataFrame:
        """A state of the panes in (after, upto] with those that are kept of them."""
        inside = self._inside(after, upto)
        states = [frame for pane in inside for frame in (self._panes[pane].merged, *self._panes[pane].waiting)]
        if not states:
            return state
        states += [state] if state.height else []
        return states[0] if len(states) == 1 else self._function.combine(states)

    def rows(self, after: int, upto: int) -> int:
        """The number of rows of the panes in (after, upto], at most."""
        found = (self._panes[pane] for pane in self._inside(after, upto))
        return sum(one.merged.height + one.waiting_rows for one in found)

    def _inside(self, after: int, upto: int) -> Sequence[int]:
        return sorted(pane for pane in self._panes if after < pane <= upto)

    def empty(self, upto: int) -> None:
        """Drops all panes up to one."""
        for pane in [pane for pane in self._panes if pane <= upto]:
            self.memory_bytes -= self._panes.pop(pane).memory_bytes
