"""Makes windows of the panes of one tree at its root, the tree's *owner* (Enorm, sections 4.2 and 6.2).

Theory of operation. Only the master knows whose panes are in a window: it may leap over stragglers, wait for copies, or
take a run that has come another way. So an owner first *reports* what it has combined, as a run without its state, and
holds the state. Once the master has decided on panes, in their order, the owner puts what counts into its windows, and
sends the master those that end with them. Where several agents have panes of one window, since the tree has another
root by now or keys have moved to another tree, each sends what it has, and the master merges that.

Nothing is lost with an owner: agents keep the panes that open windows need. If it dies, the master begins an epoch, in
which they hand them in again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import polars as pl

from agent.runtime.function.changing_windows import WindowUpdate
from agent.runtime.function.consolidated_windows import ConsolidatedWindows
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.function.versions import InForce
from agent.runtime.messages.jobs import Decision, Snapshot, SnapshotPart
from agent.runtime.model import contributors
from agent.runtime.model.panes import END, PANE_MAX, Run, closed_ms
from agent.runtime.reduce.parts import RunLimits
from agent.runtime.reduce.retransmit import AckLatency, RetransmitBuffer

ANSWER_WINDOWS = 64
"""Upper bound on the windows in one answer to the master; more go as several."""


class OwnedWindow(NamedTuple):
    """A window's state in one tree, whose rows have the window's start as their pane. `at`: the pane with which it
    comes."""

    at: int
    start_ms: int
    size_ms: int
    state: pl.DataFrame


class WindowSpan(NamedTuple):
    """The windows that end with the panes in (after, upto]."""

    after: int
    upto: int
    windows: list[OwnedWindow]


class TreeOwner:
    """The owner of one tree, as long as this agent is its root in one epoch, and as long after as windows need it."""

    def __init__(self, latency: AckLatency, trees: int, limits: RunLimits) -> None:
        self.reports = RetransmitBuffer(latency, trees, limits)
        self.answers = RetransmitBuffer(latency, trees, limits)
        self._trees = trees
        self._answer_bytes, self._held_max = limits.whole_bytes, limits.kept_bytes // trees
        self._held: deque[Run] = deque()
        self._held_bytes = 0
        self._decided: int | None = None
        """The last pane that is decided on."""
        self._is_needed = self._has_given_up = False
        """Whether windows need panes of this owner; whether it leaves with them."""
        self._open: tuple[InForce, ConsolidatedWindows] | None = None

    @property
    def has_panes(self) -> bool:
        """Whether the master may ask for panes that are here."""
        return bool(self._held) or self._is_needed

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the master's decision that nothing more is to be combined."""
        return self._held_bytes > self._held_max or self.reports.is_full

    def hold(self, run: Run) -> None:
        """Holds a run until it is decided on."""
        self._held.append(run)
        self._held_bytes += int(run.state.estimated_size())

    def decide(self, decision: Decision, version: InForce) -> Iterator[WindowSpan] | None:
        """Yields the windows that end with the panes that are decided on, in order; None if panes are not here which
        the master counts upon. Nothing comes of a decision that is known."""
        if self._has_given_up:
            return None
        if self._decided is not None and decision.upto <= self._decided:
            return iter(())
        if decision.begins:
            self._open = None
        elif decision.after != self._decided:
            return None
        taken = list(self._take(decision.after, decision.upto))
        if decision.contributors and not _are_those(taken, decision):
            return None
        self._decided, self._is_needed = decision.upto, not decision.ends
        return self._answers(decision, version, taken if decision.contributors else ())

    def give_up(self) -> None:
        """Drops all panes: the master is told, and begins anew without them."""
        self._held.clear()
        self._open, self._held_bytes, self._is_needed, self._has_given_up = None, 0, False, True

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

    def _answers(self, decision: Decision, version: InForce, taken: Iterable[Run]) -> Iterator[WindowSpan]:
        """The windows as answers, none of which is large unless a window is; the last ends where the decision does."""
        after, size = decision.after, 0
        windows: list[OwnedWindow] = []
        for window in self._windows(decision, version, taken):
            is_much = size > self._answer_bytes or len(windows) >= ANSWER_WINDOWS
            if is_much and window.at > windows[-1].at:
                yield WindowSpan(after, windows[-1].at, windows)
                after, windows, size = windows[-1].at, [], 0
            windows.append(window)
            size += int(window.state.estimated_size())
        if decision.ends:
            self._open = None
        yield WindowSpan(after, decision.upto, windows)

    def _windows(self, decision: Decision, version: InForce, taken: Iterable[Run]) -> Iterator[OwnedWindow]:
        function = version.function
        if self._open is None or self._open[0].function is not function:
            self._open = version, ConsolidatedWindows.of(function)
        windows = self._open[1]
        for run in taken:
            for frame in run.state.partition_by("pane"):
                yield from self._shown(windows.add(frame["pane"][0], frame), decision, version)
        if decision.upto == END:
            yield from self._shown(windows.end(), decision, version)
        else:
            complete_ms = min(closed_ms(decision.upto, function.pane_ms) + 1, PANE_MAX)
            yield from self._shown(windows.advance(complete_ms), decision, version)

    def _shown(self, updates: Iterable[WindowUpdate], decision: Decision, version: InForce) -> Iterator[OwnedWindow]:
        for update in updates:
            if update.start_ms >= version.version.starts and update.at > decision.published and update.state.height:
                placement = TreePlacement(self._trees, decision.moved)
                state = placement.of_window(update.state, decision.tree, update.at)
                if update.start_ms >= decision.whole_from:
                    state = version.function.pruned(state, update.size_ms, self._trees)
                yield OwnedWindow(update.at, update.start_ms, update.size_ms, state)

    def due(self, now: float) -> list[Snapshot | SnapshotPart]:
        """The snapshots to send to the master now."""
        return [*self.reports.due(now), *self.answers.due(now)]


def _are_those(runs: Sequence[Run], decision: Decision) -> bool:
    """Whether runs are what the master counts upon: an agent that was started again may have parts of it only."""
    if not runs or (runs[0].after, runs[-1].upto) != (decision.after, decision.upto):
        return False
    members = contributors.from_bytes(decision.contributors)
    return all(run.contributors == members for run in runs)
