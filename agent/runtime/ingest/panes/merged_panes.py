"""Merges the sealed panes that an agent keeps for a job's next master along the job's windows (Enorm §6.1).

Theory. Of panes that are out, only windows that are still open have any use. Two panes with no start of such a window
between them are in the same of these windows, so one frame does for both: the state of all is that of the last pane
that has any. Of 24 hours in panes of 10 minutes, with windows of 24 hours, 6, 1 and half an hour, four frames are kept,
not 144. Counts stay by pane.

A master that has published less than this agent knows may need windows that a frame is no use for. So panes are merged
only for windows that were open `HEAL_RETENTION_MS` ago, for which time masters also say who was left out of a pane; and
to a master that is even further behind they are not given. Nobody counts twice then, but windows lack this agent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import polars as pl

from agent.runtime.function.job_function import JobFunction
from agent.runtime.model.incomplete import HEAL_RETENTION_MS
from agent.runtime.model.panes import END, FIRST_PANE, Run, add_counted

MERGED_BYTES_MAX = 16 << 20
"""Upper bound on the states that are merged into one frame."""
MORE_RUNS, MORE_SHARE = 4, 4
"""Runs by which there are to be more than were left before until they are looked at again, or a part of those."""


class MergedPanes:
    """The frames of one worker, in pane order. Those of functions whose windows are not made of panes once, and those
    that may be amended, are never merged. `lag_ms`: how long a window is over whose panes are merged."""

    def __init__(self, lag_ms: int = HEAL_RETENTION_MS) -> None:
        self.runs: list[Run] = []
        self._lag_ms = lag_ms
        self._open_after = FIRST_PANE
        """The pane after which windows may end of which frames are told apart."""
        self._left = 0

    def after(self, frontier: int, published: int) -> list[Run]:
        """The frames beyond a frontier, for a master that has published the panes up to one."""
        if published < self._open_after:
            return []
        return [run.within(frontier, run.upto) for run in self.runs if run.upto > frontier]

    def merge(self, function: JobFunction, retained: Collection[Run], frontier: int) -> int:
        """Merges frames and the oldest of the runs after them, as panes up to a frontier are out; returns how many runs
        are frames now. O(runs + merged rows), once there are a quarter more."""
        pane_ms = function.pane_ms
        if not function.merges_kept or pane_ms is None or frontier in (FIRST_PANE, END):
            return 0
        if len(self.runs) + len(retained) < self._left + max(MORE_RUNS, self._left // MORE_SHARE):
            return 0
        open_after = (frontier - self._lag_ms) // pane_ms * pane_ms
        taken = sum(run.upto <= open_after for run in retained)
        every = (*self.runs, *islice(retained, taken))
        self.runs = list(_merged(function, every, open_after + pane_ms))
        if len(self.runs) < len(every):
            self._open_after = max(self._open_after, open_after)
        self._left = len(self.runs) + len(retained) - taken
        return taken

    def pop(self) -> Run:
        """Takes the oldest frame away."""
        return self.runs.pop(0)


def _merged(function: JobFunction, runs: Iterable[Run], open_ms: int) -> Iterator[Run]:
    """The runs, neighbours that windows open at a time have all or none of as one."""
    alike: list[Run] = []
    size = 0
    for run in runs:
        own = int(run.state.estimated_size())
        if alike and not (_goes_on(function, alike[-1], run, open_ms) and size + own <= MERGED_BYTES_MAX):
            yield _as_one(function, alike)
            alike, size = [], 0
        alike.append(run)
        size += own
    if alike:
        yield _as_one(function, alike)


def _goes_on(function: JobFunction, before: Run, run: Run, open_ms: int) -> bool:
    """Whether a run may be in one frame with the one before it."""
    if before.upto != run.after or (before.contributors, before.partial) != (run.contributors, run.partial):
        return False
    is_plain = not any(one.patches or one.before or one.leaped or one.losses for one in (before, run))
    return is_plain and not function.windows_begin_in(before.after, run.upto, open_ms)


def _as_one(function: JobFunction, alike: Sequence[Run]) -> Run:
    if len(alike) == 1:
        return alike[0]
    first, last = alike[0], alike[-1]
    states = [run.state for run in alike if run.state.height]
    pane = pl.lit(states[-1]["pane"].max() if states else 0, dtype=pl.Int64)
    state = function.combine([one.with_columns(pane=pane) for one in states])
    counted = add_counted(run.counted for run in alike)
    return replace(last, after=first.after, state=state, counted=counted, encoding=None)
