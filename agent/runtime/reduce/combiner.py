"""The barrier of a job's tree in one agent (paper §3.2): wait for every source, combine, pass on.

Theory of operation. A combiner has sources: its agent's own worker, if there is one, and each child in the tree.
A source delivers runs of panes in pane order. What all sources have delivered is combined and leaves as one run; what
only some have delivered waits. In panes that a source has passed over it is no contributor. Only disjoint contributor
sets combine: a run whose contributors were already counted is dropped, so a retry or a second path can never count an
agent twice (DESIGN §4.1).

Latecomers. A node that loses its parent sends the new one again what is not committed. The dead parent may have passed
that on, combined with others, so it must not be combined with anything else on its way: at the root the larger set
would overlap with it in part only, and one of them would have to go as a whole. Such runs are *loose*: they go up as
they are, are no source's progress, and only the root considers them, beside the sources' runs. So is what a source
delivers of panes that its combiner has already passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from operator import and_, or_
from typing import NamedTuple

import polars as pl

from agent.runtime.model.panes import FIRST_PANE, Counted, Run, add_counted, runs_upto

Combine = Callable[[list[pl.DataFrame], int], pl.DataFrame]
"""Merges the states of a run that ends with this pane."""
GAPS_MAX = 64
"""Spans kept of one source that got lost on their way and may still come; older ones are late then."""
LOOSE_MAX = 4096
"""Loose runs a root keeps of each tree; more are refused, and their agents missing."""


class Span(NamedTuple):
    """The panes in (after, upto] and who is in them; `whole` are those who are so in all trees."""

    after: int
    upto: int
    contributors: int
    whole: int


@dataclass(slots=True)
class Combiner:
    """Runs go in by source, combined runs come out in pane order.

    `refused` counts runs, or parts of them, that were not taken: repeated, of no known source, or overlapping. `trees`:
    those whose runs it combines. Who is in some of them only is partial.
    """

    combine: Combine
    frontier: int = FIRST_PANE
    refused: int = 0
    trees: tuple[int, ...] = (0,)
    ends: tuple[int, ...] = ()
    """The last panes of versions that a later one follows: no combined run reaches across."""
    _progress: dict[Hashable, int] = field(default_factory=dict)
    _joined: dict[Hashable, int] = field(default_factory=dict)
    _waiting: dict[Hashable, list[Run]] = field(default_factory=dict)
    _gaps: dict[Hashable, list[tuple[int, int]]] = field(default_factory=dict)
    _loose: list[Run] = field(default_factory=list)
    _overlapping: int = 0
    _standing: dict[Hashable, tuple[int, float]] = field(default_factory=dict)
    _excused: set[Hashable] = field(default_factory=set)

    def add_source(self, source: Hashable) -> None:
        """From now on, wait for this source too."""
        if source not in self._progress:
            self._progress[source] = self._joined[source] = self.frontier
            self._waiting.setdefault(source, [])

    def remove_source(self, source: Hashable) -> None:
        """Stop waiting for a source; what it delivered stays counted."""
        if self._progress.pop(source, None) is not None:
            del self._joined[source]
            self._gaps.pop(source, None)
            self._standing.pop(source, None)
            self._excused.discard(source)
            if not self._waiting[source]:
                del self._waiting[source]

    def add(self, source: Hashable, run: Run) -> Run | None:
        """Takes the next run of a known source: what lies beyond all its earlier ones, or between them where one got
        lost. Nobody's state is nothing.

        Returns the part of it, if any, that others had been passed on without.
        """
        progress = self._progress.get(source)
        if progress is None or run.upto <= run.after:
            self.refused += 1
            return None
        joined = self._joined[source]
        late = run.within(run.after, joined) if run.contributors and run.after < joined else None
        if run.upto > progress:
            if run.contributors and run.upto > self.frontier:
                self._waiting[source].append(run.within(max(progress, self.frontier), run.upto))
            if run.after > progress:
                self._gaps[source] = [*self._gaps.get(source, ()), (progress, run.after)][-GAPS_MAX:]
            self._progress[source] = run.upto
        elif run.upto > joined:
            late = self._fill(source, run) or late
        return late

    def _fill(self, source: Hashable, run: Run) -> Run | None:
        """Takes a run that got lost, and was sent again after later ones."""
        gaps = self._gaps.get(source, [])
        gap = next((gap for gap in gaps if gap[0] <= run.after and run.upto <= gap[1]), None)
        if gap is None:
            self.refused += 1
            return None
        gaps.remove(gap)
        gaps += [(after, upto) for after, upto in ((gap[0], run.after), (run.upto, gap[1])) if after < upto]
        if not run.contributors:
            return None
        if run.upto > self.frontier:
            self._waiting[source].append(run.within(max(run.after, self.frontier), run.upto))
        return run.within(run.after, min(run.upto, self.frontier)) if run.after < self.frontier else None

    def progress(self, source: Hashable) -> int:
        """How far a known source has come."""
        return self._progress[source]

    def move_on(self, source: Hashable, upto: int) -> None:
        """A source's run went up loose: do not wait for those panes."""
        if source in self._progress:
            self._progress[source] = max(self._progress[source], upto)

    def add_loose(self, run: Run) -> None:
        """At the root: takes a run that is no source's progress, as far as it is not too late for it."""
        if run.upto <= run.after or len(self._loose) >= LOOSE_MAX * len(self.trees):
            self.refused += 1
        elif run.contributors and run.upto > self.frontier:
            beyond = run.within(self.frontier, run.upto)
            if any(beyond.is_like(known) for known in self._loose):
                self.refused += 1
            else:
                self._loose.append(beyond)

    def due(self) -> list[Span]:
        """The spans that `ready` would combine now, and who is in them. No column is touched."""
        return [span for span, _ in self._cuts(self._limit())]

    def ready(self) -> list[Run]:
        """Combined runs up to what every source has reached; O(rows in them · log)."""
        limit = self._limit()
        cuts = self._cuts(limit)
        if not cuts:
            return []
        runs = []
        for (contributors, partial, _), group in groupby(cuts, key=self._kind):
            alike = list(group)
            parts = [run.within(span.after, span.upto) for span, chosen in alike for run in chosen]
            state, counted = self._merge(parts, alike[-1][0].upto)
            after, upto = alike[0][0].after, alike[-1][0].upto
            runs.append(Run(after, upto, contributors, state, counted, partial, self.trees[0]))
        for source, waiting in list(self._waiting.items()):
            self._waiting[source] = _beyond(limit, waiting)
            if source not in self._progress and not self._waiting[source]:
                del self._waiting[source]
        self._loose = _beyond(limit, self._loose)
        self.refused += self._overlapping
        self.frontier = limit
        return runs

    def _kind(self, cut: tuple[Span, list[Run]]) -> tuple[int, int, int]:
        """Who is in a span, who of them in part, and its version: spans alike in all three are one run."""
        span, runs = cut
        partial = reduce(or_, (run.partial for run in runs), span.contributors & ~span.whole)
        return span.contributors, partial, sum(end < span.upto for end in self.ends)

    def end_versions_at(self, ends: tuple[int, ...]) -> None:
        """From now on runs end there. What has been delivered beyond a new end is of a version that is not in force."""
        last = min((end for end in ends if end not in self.ends), default=None)
        self.ends = ends
        if last is not None:
            for source, waiting in self._waiting.items():
                self._waiting[source] = runs_upto(last, waiting)
            self._loose = runs_upto(last, self._loose)

    @property
    def waiting_runs(self) -> int:
        """Runs that are here and not yet passed on."""
        return len(self._loose) + sum(map(len, self._waiting.values()))

    def excuse_stragglers(self, behind: int, patience_s: float, now: float) -> bool:
        """Goes on without sources that are so far behind others (pane time) and have not moved for so long.

        They are waited for again once they have come up. Whether there is one more or less.
        """
        before = len(self._excused)
        most = max(self._progress.values(), default=self.frontier)
        for source, progress in self._progress.items():
            stood_at, since = self._standing.get(source, (None, now))
            if stood_at != progress:
                self._standing[source] = (progress, now)
            elif most - progress >= behind and now - since > patience_s:
                self._excused.add(source)
            if progress >= self.frontier and most - progress < behind:
                self._excused.discard(source)
        return len(self._excused) != before

    def _limit(self) -> int:
        awaited = (progress for source, progress in self._progress.items() if source not in self._excused)
        return min(awaited, default=self.frontier)

    def _cuts(self, limit: int) -> list[tuple[Span, list[Run]]]:
        """Cuts (frontier, limit] wherever a run begins or ends, each span with the runs that count in it."""
        if limit <= self.frontier:
            return []
        pending = [run for runs in (*self._waiting.values(), self._loose) for run in runs]
        ends = {end for run in pending for end in (run.after, run.upto)}
        bounds = sorted({end for end in (*ends, *self.ends) if self.frontier < end < limit} | {limit})
        cuts = []
        after, self._overlapping = self.frontier, 0
        for upto in bounds:
            inside = [run for run in pending if run.after < upto and run.upto > after]
            by_tree = [_disjoint([run for run in inside if run.tree == tree]) for tree in self.trees]
            chosen = [run for runs, _ in by_tree for run in runs]
            members = [contributors for _, contributors in by_tree]
            self._overlapping += len(inside) - len(chosen)
            cuts.append((Span(after, upto, reduce(or_, members), reduce(and_, members)), chosen))
            after = upto
        return cuts

    def _merge(self, parts: list[Run], upto: int) -> tuple[pl.DataFrame, Counted]:
        if len(parts) == 1:
            return parts[0].state, parts[0].counted
        return self.combine([part.state for part in parts], upto), add_counted(part.counted for part in parts)


def _disjoint(runs: list[Run]) -> tuple[list[Run], int]:
    """The largest runs first, each only if it brings no agent that is already in."""
    chosen: list[Run] = []
    contributors = 0
    for run in sorted(runs, key=lambda run: -run.contributors.bit_count()):
        if not run.contributors & contributors:
            chosen.append(run)
            contributors |= run.contributors
    return chosen, contributors


def _beyond(limit: int, runs: list[Run]) -> list[Run]:
    return [run.within(limit, run.upto) for run in runs if run.upto > limit]
