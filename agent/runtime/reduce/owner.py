"""Makes windows of the panes of one tree at its root, the tree's *owner* (Enorm, sections 4.2, 4.5 and 6.2).

Theory of operation. Only the master knows whose panes are in a window: it may leap over stragglers, wait for copies, or
take a run that has come another way. So an owner first *reports* what it has combined, as a run without its state, and
holds the state. Once the master has decided on panes, in their order, the owner puts what counts into its windows, and
sends the master those that end with them. Where several agents have panes of one window, since the tree has another
root by now or keys have moved to another tree, each sends what it has, and the master merges that.

Windows of a version that are open when another one begins go on here without further panes: those of later time come
to the master (`agent.runtime.model.panes.OldPanes`), which merges both.

A group of keys that moves *disruptively* goes with its state: before the first pane that is with its new owner, the old
one gives it what open windows have of the group so far. The new one answers nothing until it has that.

Nothing is lost with an owner: agents keep the panes that open windows need. If it dies, the master begins an epoch, in
which they hand them in again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.runtime.function.changing_windows import WindowUpdate
from agent.runtime.function.consolidated_windows import ConsolidatedWindows
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.tree_placement import TreePlacement, are_of, rows_of_groups
from agent.runtime.function.versions import Beside, InForce
from agent.runtime.messages.jobs import Decision
from agent.runtime.model import contributors
from agent.runtime.model.fields import GROUPS
from agent.runtime.model.panes import END, PANE_MAX, Run, closed_ms

ANSWER_WINDOWS = 64
"""Upper bound on the windows in one answer to the master; more go as several."""
GIVEN_MAX = 64
"""Upper bound on the given states that wait for the master's decision."""
Giver = tuple[int, int, int]
"""The tree and the node id of an owner, and the last pane before those that another one has of its groups."""


class OwnedWindow(NamedTuple):
    """A window's state in one tree, whose rows have the window's start as their pane. `at`: the pane with which it
    comes. `version`: the number of an older version that it is of."""

    at: int
    start_ms: int
    size_ms: int
    state: pl.DataFrame
    version: int | None = None


class WindowSpan(NamedTuple):
    """The windows that end with the panes in (after, upto]. `older`: those of older versions, with the last span of a
    decision."""

    after: int
    upto: int
    windows: list[OwnedWindow]
    older: Sequence[OwnedWindow] = ()


class _OlderWindows(NamedTuple):
    """Windows of a version that are open when another one begins, and what was restored of them."""

    number: int
    windows: ConsolidatedWindows
    restored: list[OwnedWindow]


class TreeOwner:
    """The owner of one tree, as long as this agent is its root in one epoch, and as long after as windows need it."""

    def __init__(self, trees: int, answer_bytes: int, held_bytes: int) -> None:
        self._trees, self._answer_bytes, self._held_max = trees, answer_bytes, held_bytes
        self._held: deque[Run] = deque()
        self._held_bytes = 0
        self._rows: npt.NDArray[np.int64] = np.zeros(GROUPS, dtype=np.int64)
        self._decided: int | None = None
        """The last pane that is decided on."""
        self._is_needed = self._has_given_up = False
        """Whether windows need panes of this owner; whether it leaves with them."""
        self._open: tuple[InForce, ConsolidatedWindows] | None = None
        self._older: list[_OlderWindows] = []
        self._given: dict[Giver, list[OwnedWindow]] = {}
        """States that other owners have given before they were asked for here."""
        self._restored: list[OwnedWindow] = []
        """Windows that end later, as far as they had come with other owners."""
        self.made = self.made_rows = self.taken = self.taken_rows = 0
        """Windows that were made here, states of panes that they were made of, and the rows of both."""

    @property
    def has_panes(self) -> bool:
        """Whether the master may ask for panes that are here."""
        return bool(self._held) or self._is_needed

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the master's decision that nothing more is to be combined."""
        return self._held_bytes > self._held_max

    @property
    def memory_bytes(self) -> int:
        """Bytes of open windows, of older versions too. O(frames)."""
        newest = () if self._open is None else (self._open[1],)
        return sum(one.memory_bytes for one in (*newest, *(older.windows for older in self._older)))

    @property
    def merged(self) -> int:
        """The states that were merged for windows of the newest version."""
        return 0 if self._open is None else self._open[1].done.inputs

    def hold(self, run: Run) -> None:
        """Holds a run until it is decided on."""
        self._held.append(run)
        self._held_bytes += int(run.state.estimated_size())
        if run.state.height:
            self._rows += rows_of_groups(run.state)

    def take_loads(self) -> list[int]:
        """The rows of each key group that have come since the last call; empty where none have."""
        rows, self._rows = self._rows, np.zeros(GROUPS, dtype=np.int64)
        return rows.tolist() if rows.any() else []

    def give_up(self) -> None:
        """Drops all panes: the master is told, and begins anew without them."""
        self._held.clear()
        self._older = []
        self._open, self._held_bytes, self._is_needed, self._has_given_up = None, 0, False, True

    # Groups that move with their state.

    def take_given(self, giver: Giver, windows: list[OwnedWindow]) -> bool:
        """Takes what another owner has of open windows; False if too many wait."""
        if len(self._given) >= GIVEN_MAX and giver not in self._given:
            return False
        self._given.setdefault(giver, windows)
        return True

    def awaits(self, decision: Decision) -> bool:
        """Whether a decision is the next one here."""
        return not self._has_given_up and (decision.begins or decision.after == self._decided)

    def lacks(self, decision: Decision) -> bool:
        """Whether a decision has to wait for what other owners give."""
        is_known = self._decided is not None and decision.upto <= self._decided
        return not is_known and any((*giver, decision.after) not in self._given for giver in decision.restores)

    def given(self, decision: Decision, groups: Sequence[int]) -> list[OwnedWindow]:
        """The state of groups in the windows that are open before the panes of a decision, if these are of the same
        version. O(open windows)."""
        if self._open is None or self._open[0].version.number != decision.version:
            return []
        version, windows = self._open
        placement = TreePlacement.of(self._trees, decision.moved)
        found = []
        for one in _joined(windows.partial(), self._restored, version.function):
            state = placement.of_window(one.state, decision.tree, decision.after)
            state = state.filter(are_of(state, groups))
            if one.start_ms >= version.version.starts and state.height:
                found.append(one._replace(state=state))
        return found

    # Decisions.

    def decide(
        self, decision: Decision, version: InForce, beside: Sequence[Beside] = ()
    ) -> Iterator[WindowSpan] | None:
        """Yields the windows that end with the panes that are decided on, in order; None if panes are not here which
        the master counts upon. Nothing comes of a decision that is known. `beside`: the older versions whose windows
        go on in these panes."""
        if self._has_given_up:
            return None
        if self._decided is not None and decision.upto <= self._decided:
            return iter(())
        if decision.begins:
            self._open, self._restored, self._older = None, [], []
        elif decision.after != self._decided:
            return None
        taken = list(self._take(decision.after, decision.upto))
        self.taken += sum(run.state["pane"].n_unique() for run in taken)
        self.taken_rows += sum(run.state.height for run in taken)
        if decision.contributors and not _are_those(taken, decision):
            return None
        self._decided, self._is_needed = decision.upto, not decision.ends
        self._begin(version, beside)
        for giver in decision.restores:
            self._restored += self._given.pop((*giver, decision.after))
        self._restored.sort(key=_end_and_size)
        return self._answers(decision, version, taken if decision.contributors else (), beside)

    def _begin(self, version: InForce, beside: Sequence[Beside]) -> None:
        """Begins windows of another version, if it is one; those of the one before go on if they are to."""
        numbers = {one.number for one in beside}
        if self._open is not None and self._open[0].version.number in numbers:
            self._older.append(_OlderWindows(self._open[0].version.number, self._open[1], self._restored))
        self._older = [one for one in self._older if one.number in numbers]
        if self._open is None or self._open[0].function is not version.function:
            made = ConsolidatedWindows.of(version.function) if version.function.is_consolidated else None
            self._open, self._restored = None if made is None else (version, made), []

    def _take(self, after: int, upto: int) -> Iterator[Run]:
        """Takes the runs in (after, upto]; what is before has been decided on without this owner."""
        while self._held and self._held[0].after < upto:
            run = self._held.popleft()
            self._held_bytes -= int(run.state.estimated_size())
            if run.upto > upto:
                rest = run.within(upto, run.upto)
                self._held.appendleft(rest)
                self._held_bytes += int(rest.state.estimated_size())
            if run.upto > after:
                yield run.within(after, upto)

    def _answers(
        self, decision: Decision, version: InForce, taken: Iterable[Run], beside: Sequence[Beside]
    ) -> Iterator[WindowSpan]:
        """The windows as answers, none of which is large unless a window is; the last ends where the decision does."""
        after, size = decision.after, 0
        windows: list[OwnedWindow] = []
        for window in self._shown(decision, version, taken):
            is_much = size > self._answer_bytes or len(windows) >= ANSWER_WINDOWS
            if is_much and window.at > windows[-1].at:
                yield WindowSpan(after, windows[-1].at, windows)
                after, windows, size = windows[-1].at, [], 0
            windows.append(window)
            size += int(window.state.estimated_size())
        older = [window for one in self._older for window in self._go_on(one, decision, beside)]
        if decision.ends:
            self._open, self._restored, self._older = None, [], []
        yield WindowSpan(after, decision.upto, windows, older)

    def _go_on(self, one: _OlderWindows, decision: Decision, beside: Sequence[Beside]) -> Iterator[OwnedWindow]:
        """The windows of an older version that are over with the panes of a decision, as far as they are here."""
        found = next((old for old in beside if old.number == one.number), None)
        if found is None:
            return
        old, reached = found.old, found.frontier(decision.upto)
        placement = TreePlacement.of(self._trees, decision.moved)
        made, restored = one.windows.advance(min(reached + found.pane_ms, PANE_MAX)), list(one.restored)
        one.restored[:] = [window for window in restored if window.at > reached]
        for window in _joined(made, [window for window in restored if window.at <= reached], old.function):
            # Groups that move later have no panes of it elsewhere.
            state = placement.of_window(window.state, decision.tree, min(window.at, old.upto))
            if window.start_ms >= old.version.starts and state.height:
                yield window._replace(state=state, version=one.number)

    def _shown(self, decision: Decision, version: InForce, taken: Iterable[Run]) -> Iterator[OwnedWindow]:
        """The windows that end with these panes, with the groups that this owner shows."""
        function, placement = version.function, TreePlacement.of(self._trees, decision.moved)
        if self._open is None:
            return
        made, restored = _windows_of(self._open[1], taken, decision.upto, function), self._restored
        self._restored = [one for one in restored if one.at > decision.upto]
        for window in _joined(made, [one for one in restored if one.at <= decision.upto], function):
            if window.start_ms < version.version.starts or window.at <= decision.published:
                continue
            state = placement.of_window(window.state, decision.tree, window.at)
            self.made, self.made_rows = self.made + 1, self.made_rows + state.height
            if window.start_ms >= decision.whole_from:
                shared = placement.with_two_owners(state, window.at)
                state = function.pruned(state, window.size_ms, self._trees, shared)
            if state.height:
                yield window._replace(state=state)


def _joined(
    updates: Iterable[WindowUpdate], restored: Sequence[OwnedWindow], function: JobFunction
) -> Iterator[OwnedWindow]:
    """Windows with what was restored of them, in order."""
    made = (OwnedWindow(one.at, one.start_ms, one.size_ms, one.state) for one in updates)
    for _, alike in groupby(merge(made, restored, key=_end_and_size), key=_end_and_size):
        first, *others = alike
        states = [one.state for one in (first, *others)]
        yield first if not others else first._replace(state=function.combine(states))


def _end_and_size(window: OwnedWindow) -> tuple[int, int]:
    return window.at, window.size_ms


def _windows_of(
    windows: ConsolidatedWindows, runs: Iterable[Run], upto: int, function: JobFunction
) -> Iterator[WindowUpdate]:
    """The windows that end with panes up to one, of which these runs have what there is."""
    for run in runs:
        for frame in run.state.partition_by("pane"):
            yield from windows.add(frame["pane"][0], frame)
    if upto == END:
        yield from windows.end()
    else:
        yield from windows.advance(min(closed_ms(upto, function.pane_ms) + 1, PANE_MAX))


def _are_those(runs: Sequence[Run], decision: Decision) -> bool:
    """Whether runs are what the master counts upon: an agent that was started again may have parts of it only."""
    if not runs or (runs[0].after, runs[-1].upto) != (decision.after, decision.upto):
        return False
    members = contributors.from_bytes(decision.contributors)
    return all(run.contributors == members for run in runs)
