"""A job's worker on one agent (paper §3.1), for one version of its function: which panes it has, and what is late.

Its operator counts, filters and aggregates, for it and for the workers of equal functions, and gives it its panes in
order, as runs that follow each other. What a worker has it keeps until the master says that it is out: another master,
or another parent, may want it again. What arrives for a pane that is closed is late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.runtime.function import JobFunction
from agent.runtime.panes import COUNTS_BYTES, END, FIRST_PANE, Counts, Run, add_counted, closed_ms, runs_upto
from overlay import Id

if TYPE_CHECKING:
    from agent.runtime.operator import Operator

KEPT_BYTES_MAX = 64 << 20
"""Sealed and not yet committed: past it a worker takes nothing further until the master has caught up."""
WANTED_BYTES_MAX = 256 << 20
"""Committed, and needed if another master has to make the windows that are open: past it the oldest go."""
SELF = 1
"""Stands for the worker in `Run.contributors` until its number is known."""


class Worker:
    """On an operator; it has panes from `begin_after` on."""

    def __init__(self, app_id: Id, function: JobFunction, operator: Operator) -> None:
        self.app_id = app_id
        self.function = function
        self.operator = operator
        self.is_begun = False
        self._is_open = True
        self.frontier = FIRST_PANE
        """How far it has sealed."""
        self.last_pane = END
        """Later panes are none of its own."""
        self.first_pane = FIRST_PANE
        """From here on it has everything."""
        self.late = 0
        """Events that came for a pane that was closed."""
        self._late_from = FIRST_PANE
        self._unexpected_before = FIRST_PANE
        self._given_up = (END, FIRST_PANE)
        self._closed = FIRST_PANE
        self._late = self._malformed = 0
        self._counts_from: int | None = None
        self._counted: tuple[int, int, int] | None = None
        self._sealed: list[Run] = []
        self._fresh: list[Run] = []
        self._kept_bytes = 0
        self._wanted: deque[Run] = deque()
        self._wanted_bytes = 0
        operator.add(self)

    def turn_to(self, operator: Operator) -> None:
        """Goes on with another operator, which suits it."""
        counts = self._counts_from is not None
        self._stop_counting()
        self.operator.insert_waiting()
        self.operator.remove(self)
        self.operator = operator
        operator.add(self)
        if counts:
            self.count_malformed()

    def close(self) -> None:
        """Gets nothing any more."""
        if self._is_open:
            self._is_open = False
            self._stop_counting()
            self.operator.remove(self)

    # Which panes are its own.

    def begin_after(self, after: int, starts: int) -> None:
        """Has its place, and has sealed nothing: panes after this one are its own, and it has all from `starts` on."""
        self.frontier = self._closed = after
        self.is_begun = True
        if starts > FIRST_PANE:
            self.begin_at(starts)

    def begin_at(self, pane: int, unexpected_before: int = FIRST_PANE) -> None:
        """Has nothing to say about its panes before this one, and says so at once.

        Of events older than `unexpected_before` (epoch ms) it had better say something: they count as late.
        """
        pane = min(pane, self.last_pane + 1) if self.last_pane < END else pane
        if pane - 1 <= self.frontier:
            return
        self.operator.catch_up(self)
        if pane - 1 <= self.frontier:
            return
        nothing = Run(self.frontier, pane - 1, 0, self.function.nothing)
        self.first_pane = self._late_from = pane
        self._closed = pane - 1
        self._unexpected_before = unexpected_before
        self._keep(nothing)
        self.operator.trim()

    def lacks_upto(self, time_ms: int) -> None:
        """Events up to this time were read without the columns it needs."""
        if self.is_begun:
            self.begin_at(self.next_pane(time_ms))

    def end_at(self, last_pane: int) -> None:
        """Later panes are another version's, also those that it has sealed."""
        if last_pane >= self.last_pane:
            return
        self.last_pane = last_pane
        if self._counted is not None and self._counted[0] > last_pane:
            self._late += self._counted[1]
            self._malformed += self._counted[2]
            self._counted = None
        if self.frontier > last_pane:
            self._sealed = runs_upto(last_pane, self._sealed)
            self._fresh = runs_upto(last_pane, self._fresh)
            self._kept_bytes = sum(map(_bytes_of, self._sealed))
            self.frontier = last_pane

    @property
    def has_ended(self) -> bool:
        """Whether all of its panes are sealed."""
        return self.frontier >= self.last_pane

    def is_behind(self, upto: int) -> bool:
        """Whether it lacks any of its panes up to this one."""
        return self.frontier < min(upto, self.last_pane)

    @property
    def closed(self) -> int:
        """Panes up to this one take no more events, of this worker."""
        return max(self._closed, self.operator.closed) if self.is_begun else FIRST_PANE

    @property
    def closed_ms(self) -> int:
        """The last instant of what is sealed."""
        return closed_ms(self.frontier, self.pane_ms)

    @property
    def pane_ms(self) -> int | None:
        """Milliseconds a pane lasts; None: there is only one."""
        return self.function.pane_ms

    def pane_at(self, time_ms: int | None) -> int | None:
        """The pane that an instant lies in."""
        return None if time_ms is None or self.pane_ms is None else time_ms // self.pane_ms * self.pane_ms

    def next_pane(self, time_ms: int) -> int:
        """The first pane that begins after an instant; before every pane where there is nothing to choose."""
        pane = None if time_ms == FIRST_PANE else self.pane_at(time_ms)
        return FIRST_PANE if pane is None or self.pane_ms is None else pane + self.pane_ms

    # What is counted for it alone.

    def take_over(self, before: Worker) -> None:
        """Goes on for the version before, whose panes are sealed: what comes for them is late, and counted here."""
        assert before.has_ended
        for operator in (self.operator, before.operator):
            operator.finish_sealing()
            operator.insert_waiting()
        before.close()
        self._late_from = min(self._late_from, before._late_from)
        self._given_up = (before.closed_ms + 1, self.first_pane)
        self._unexpected_before = max(self._unexpected_before, before._unexpected_before)
        self._late, self._malformed = self._late + before._late, self._malformed + before._malformed
        self.late += before.late

    def count_late(self, passed: Mapping[int, int]) -> None:
        """Of events for panes that are closed, some for this worker, how many in each.

        The window under way when it began is none of its windows, so it does not miss them.
        """
        closed = min(self.closed, self.last_pane)
        begun, ended = self._given_up
        for pane, events in passed.items():
            in_windows = pane >= self._late_from and not begun <= pane < ended
            if pane <= closed and (in_windows or pane < self._unexpected_before):
                self.late += events
                self._late += events

    def count_malformed(self) -> None:
        """From now on lines that are no events count here. They have no time: they are in the newest pane of a run."""
        if self._counts_from is None:
            self._counts_from = self.operator.malformed

    def _stop_counting(self) -> None:
        if self._counts_from is not None:
            self._malformed += self.operator.malformed - self._counts_from
            self._counts_from = None

    def begin_run(self, upto: int) -> None:
        """Everything up to this pane is being sealed: what it has counted by itself goes with that."""
        if self._counts_from is not None:
            self._stop_counting()
            self.count_malformed()
        upto = min(upto, self.last_pane)
        if (self._late or self._malformed) and upto > self.frontier:
            self._counted = (upto, self._late, self._malformed)
            self._late = self._malformed = 0

    # What is sealed.

    def take(self, run: Run) -> None:
        """A run of the operator's, as far as it is this worker's; `fresh` yields it."""
        upto = min(run.upto, self.last_pane)
        if upto <= self.frontier:
            return
        run = run.within(self.frontier, upto)
        if self._counted is not None and self._counted[0] <= upto:
            pane, late, malformed = self._counted
            extra = {pane: Counts(late=late, malformed=malformed)}
            run = replace(run, counted=add_counted([run.counted, extra]))
            self._counted = None
        self._keep(run)

    def _keep(self, run: Run) -> None:
        self.frontier = run.upto
        self._sealed.append(run)
        self._fresh.append(run)
        self._kept_bytes += _bytes_of(run)
        self.operator.tell(self)

    def fresh(self) -> list[Run]:
        """What was sealed since the last call; `SELF` stands for its contributor."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def after(self, frontier: int) -> list[Run]:
        """Everything that was sealed beyond a frontier and is still there, again."""
        self._fresh = []
        return [run.within(frontier, run.upto) for run in (*self._wanted, *self._sealed) if run.upto > frontier]

    def commit(self, frontier: int, kept_after: int) -> None:
        """Frees what is out, up to the last pane that no window needs any more."""
        if self._sealed and self._sealed[0].upto <= frontier:
            out = [run for run in self._sealed if run.upto <= frontier]
            self._sealed = self._sealed[len(out) :]
            self._kept_bytes = sum(map(_bytes_of, self._sealed))
            self._wanted += out
            self._wanted_bytes += sum(map(_bytes_of, out))
        while self._wanted and (self._wanted[0].upto <= kept_after or self._wanted_bytes > WANTED_BYTES_MAX):
            self._wanted_bytes -= _bytes_of(self._wanted.popleft())

    @property
    def is_blocked(self) -> bool:
        """Whether so much is sealed and not committed that it may not take more."""
        return self._kept_bytes > KEPT_BYTES_MAX

    @property
    def memory_bytes(self) -> int:
        """What it keeps, and its share of what its operator holds."""
        shared = self.operator.memory_bytes // len(self.operator.workers) if self._is_open else 0
        return shared + self._kept_bytes + self._wanted_bytes


def _bytes_of(run: Run) -> int:
    return int(run.state.estimated_size()) + COUNTS_BYTES * len(run.counted)
