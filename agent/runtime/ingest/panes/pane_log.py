"""Keeps the runs that one worker has sealed until the master commits them, and longer while open windows need them.

Whoever becomes master next gets them again: nothing that a worker has sealed is lost with a master, or with a parent.

Accounts. A pane may be published without this worker: its run was too late, or went to a master on the other side of a
cut. The master says so for a while (`agent.runtime.model.incomplete`). What was counted of such a pane is in no window:
it is to be counted as late, once, and is not handed in again. Where windows that are out can be corrected, it is kept
instead for the `heal_ms` that a master may ask for it, and counted as late when it falls out.
"""

from __future__ import annotations

from collections import deque

from agent.runtime.durable.records import Span
from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest.panes.merged_panes import MergedPanes
from agent.runtime.model.incomplete import HEAL_RETENTION_MS, Publication
from agent.runtime.model.panes import COUNTS_BYTES, END, Counted, Counts, Run, add_counted, count_in, runs_upto, total

UNCOMMITTED_BYTES_MAX = 64 << 20
"""Upper bound on runs that are sealed and not committed; past it a worker seals nothing until the master catches up."""
RETAINED_BYTES_MAX = 256 << 20
"""Upper bound on committed runs retained for windows that are still open; past it the oldest are dropped."""
HEALING_BYTES_MAX = 64 << 20
"""Upper bound on runs kept for windows that may be corrected; past it the oldest fall out."""
ACCOUNTS_MAX = 4096
"""Upper bound on published panes whose counts are remembered; those of older ones are taken to be in windows."""


class PaneLog:
    """A replay log of runs in pane order. `heal_ms`: time for which panes published without somebody are kept for
    windows to be corrected, with all panes as near as `window_ms`; 0: no window is corrected. `merge_lag_ms`: that of
    `MergedPanes`.
    """

    def __init__(self, heal_ms: int = 0, window_ms: int = 0, merge_lag_ms: int = HEAL_RETENTION_MS) -> None:
        self._heal_ms = heal_ms
        self._window_ms = window_ms
        self._uncommitted: list[Run] = []
        self._uncommitted_bytes = 0
        self._merged = MergedPanes(merge_lag_ms)
        """The oldest of the retained runs, as few as windows allow."""
        self._retained: deque[Run] = deque()
        self._retained_bytes = 0
        self._healing: deque[Run] = deque()
        """Runs that no open window needs, of panes published without somebody; they are older than the retained."""
        self._healing_bytes = 0
        self._accounts: Counted = {}
        """The counts of published panes, in their order."""
        self._has_gaps = False

    def append(self, run: Run) -> None:
        """Keeps a run, which follows the last one."""
        self._uncommitted.append(run)
        self._uncommitted_bytes += _bytes_of(run)

    def cut(self, last_pane: int) -> None:
        """Drops all panes after `last_pane`."""
        self._uncommitted = runs_upto(last_pane, self._uncommitted)
        self._uncommitted_bytes = sum(map(_bytes_of, self._uncommitted))
        self._accounts = {pane: counts for pane, counts in self._accounts.items() if pane <= last_pane}

    @property
    def counted(self) -> Counted:
        """The counts of its panes, but for those whose accounts are closed. O(panes)."""
        return add_counted([self._accounts, *(_own(run) for run in self._uncommitted)])

    def after(self, frontier: int, published: int = END) -> list[Run]:
        """Every run beyond a frontier that is still kept, cut to what lies beyond it, for a master that has published
        the panes up to another."""
        every = (*self._healing, *self._merged.after(frontier, published), *self._retained, *self._uncommitted)
        return [run.within(frontier, run.upto) for run in every if run.upto > frontier]

    @property
    def held(self) -> tuple[Span, ...]:
        """The panes of the runs that are kept, as spans (after, upto]. O(1) where none is missing in between."""
        every = (self._healing, self._merged.runs, self._retained, self._uncommitted)
        if not self._has_gaps and not self._healing:
            kept = [runs for runs in every if runs]
            return ((kept[0][0].after, kept[-1][-1].upto),) if kept else ()
        spans: list[Span] = []
        for run in (run for runs in every for run in runs):
            if spans and spans[-1][1] == run.after:
                spans[-1] = (spans[-1][0], run.upto)
            else:
                spans.append((run.after, run.upto))
        self._has_gaps = len(spans) > 1
        return tuple(spans)

    def commit(self, published: Publication, retention_pane: int) -> Counts:
        """Takes panes as published, and frees those up to `retention_pane`: no open window needs them.

        Returns what was counted in runs that are in no window and never will be.
        """
        frontier = published.frontier
        if self._uncommitted and self._uncommitted[0].upto <= frontier:
            committed = [run for run in self._uncommitted if run.upto <= frontier]
            self._uncommitted = self._uncommitted[len(committed) :]
            self._uncommitted_bytes = sum(map(_bytes_of, self._uncommitted))
            self._retained += committed
            for run in committed:
                if run.encoding is not None:
                    run.encoding.forget()
            self._retained_bytes += sum(map(_bytes_of, committed))
            for run in committed:
                count_in(self._accounts, _own(run))
        if not self._heal_ms and published.without:
            self._drop_left_out(published)
        while (oldest := self._merged.runs or self._retained) and (
            oldest[0].upto <= retention_pane or self._retained_bytes > RETAINED_BYTES_MAX
        ):
            self._free(self._merged.pop() if self._merged.runs else self._retained.popleft(), published)
        return self._settled(published)

    def merge(self, function: JobFunction, frontier: int) -> None:
        """Merges what is retained of a function's panes, as far as its windows allow, when panes up to a frontier are
        out."""
        if not self._heal_ms and (merged := self._merged.merge(function, self._retained, frontier)):
            for _ in range(merged):
                self._retained.popleft()
            self._measure()

    @property
    def frames(self) -> int:
        """The number of frames that are kept."""
        return sum(map(len, (self._healing, self._merged.runs, self._retained, self._uncommitted)))

    def _drop_left_out(self, published: Publication) -> None:
        """Drops what is counted as late, so that no later master puts it into a window."""
        kept = [part for run in self._retained for part in published.parts_with(run)]
        if kept != list(self._retained):
            self._retained, self._has_gaps = deque(kept), True
            self._measure()

    def _measure(self) -> None:
        self._retained_bytes = sum(map(_bytes_of, (*self._merged.runs, *self._retained)))

    def _free(self, run: Run, published: Publication) -> None:
        """Keeps a run that no open window needs, if one that is out may be corrected with it."""
        self._retained_bytes -= _bytes_of(run)
        near = self._window_ms
        if self._heal_ms and published.is_incomplete_in(run.after - near, run.upto + near):
            self._healing.append(run)
            self._healing_bytes += _bytes_of(run)

    def _settled(self, published: Publication) -> Counts:
        """Forgets what windows are corrected with no longer, and the accounts of that time."""
        oldest = published.frontier - (self._heal_ms or HEAL_RETENTION_MS)
        fallen = oldest
        while self._healing and (self._healing[0].upto <= oldest or self._healing_bytes > HEALING_BYTES_MAX):
            fallen = self._healing[0].upto
            self._healing_bytes -= _bytes_of(self._healing.popleft())
        late = [pane for pane in self._accounts if (pane <= fallen or not self._heal_ms) and published.lacks(pane)]
        lost = total([self._accounts.pop(pane) for pane in late])
        while self._accounts and (len(self._accounts) > ACCOUNTS_MAX or next(iter(self._accounts)) <= oldest):
            del self._accounts[next(iter(self._accounts))]
        return lost

    @property
    def is_full(self) -> bool:
        """Whether the master has so much to catch up with that nothing more may be sealed."""
        return self._uncommitted_bytes > UNCOMMITTED_BYTES_MAX

    @property
    def memory_bytes(self) -> int:
        return self._uncommitted_bytes + self._retained_bytes + self._healing_bytes


def _own(run: Run) -> Counted:
    """The counts of a run's own panes."""
    return run.without_patches().counted if run.contributors else {}


def _bytes_of(run: Run) -> int:
    states = (run.state, *(patch.state for patch in run.patches))
    panes = len(run.counted) + sum(len(patch.agents) for patch in run.patches)
    return sum(int(state.estimated_size()) for state in states) + COUNTS_BYTES * panes
