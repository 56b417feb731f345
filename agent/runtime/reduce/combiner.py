"""Implements the barrier of a job's tree in one agent (paper §3.2): wait for every source, combine, pass on.

Theory of operation. A combiner has sources: its agent's own worker, if there is one, and each child in the tree.
A source delivers runs of panes in pane order. Panes that all sources have delivered are combined and leave as one run;
panes that only some have delivered wait. In panes that a source has passed over it is no contributor. Only disjoint
contributor sets combine: a run whose contributors were already counted is dropped, so a retry or a second path can
never count an agent twice (DESIGN §4.1).

Latecomers. A node that loses its parent sends the new one again what is not committed. The dead parent may have passed
that on, combined with others, so it must not be combined with anything else on its way: at the root the larger set
would overlap with it in part only, and one of them would have to go as a whole. Such runs are *detached*: they go up as
they are, are no source's progress, and only the root considers them, beside the sources' runs. Panes that a source
delivers after its combiner has passed them on are detached as well.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial as bound
from functools import reduce
from itertools import groupby
from operator import and_, itemgetter, or_
from typing import NamedTuple

import polars as pl

from agent.runtime.model.latency.critical_path import last_of
from agent.runtime.model.panes import (
    END,
    FIRST_PANE,
    Combine,
    Counted,
    Holding,
    Losses,
    Run,
    add_counted,
    merged_losses,
    merged_old,
    merged_patches,
    runs_upto,
)
from agent.runtime.model.state_encoding import StateEncoding
from agent.runtime.reduce.straggler import RUNS_MAX, SourceWatch, StragglerPolicy

GAPS_MAX = 64
"""Upper bound on the lost spans of one source that may still come; runs of older spans are late."""
ENCODED_MAX = 64
"""Number of runs up to which those that are bytes leave as they are: many small messages cost more than one."""
DETACHED_MAX = 4096
"""Upper bound on the detached runs a root keeps of each tree; more are refused, and their agents missing."""


class PaneSpan(NamedTuple):
    """The panes in (after, upto] and their contributors; `whole` are those that contribute in all trees, `leaped`
    those that were leaped over in any."""

    after: int
    upto: int
    contributors: int
    whole: int
    leaped: int = 0


@dataclass(slots=True)
class Combiner:
    """Takes runs by source, and yields combined runs in pane order.

    `refused` counts runs, or parts of them, that were not taken: repeated, of no known source, or overlapping. `trees`
    are those whose runs it combines; agents that contribute in some of them only are partial.
    """

    combine: Combine
    frontier: int = FIRST_PANE
    refused: int = 0
    trees: tuple[int, ...] = (0,)
    ends: tuple[int, ...] = ()
    """The last panes of all versions but the newest: no combined run reaches across."""
    _progress: dict[Hashable, int] = field(default_factory=dict)
    _joined: dict[Hashable, int] = field(default_factory=dict)
    _waiting: dict[Hashable, list[Run]] = field(default_factory=dict)
    _gaps: dict[Hashable, list[tuple[int, int]]] = field(default_factory=dict)
    _detached: list[Run] = field(default_factory=list)
    _overlapping: int = 0
    _watch: SourceWatch = field(default_factory=SourceWatch)
    _awaited_from: int = FIRST_PANE
    """Nobody is waited for up to this pane."""

    def add_source(self, source: Hashable) -> None:
        """Adds a source to wait for."""
        if source not in self._progress:
            self._progress[source] = self._joined[source] = self.frontier
            self._waiting.setdefault(source, [])

    def remove_source(self, source: Hashable) -> None:
        """Stops waiting for a source; its delivered runs still count."""
        if self._progress.pop(source, None) is not None:
            del self._joined[source]
            self._gaps.pop(source, None)
            self._watch.forget(source)
            if not self._waiting[source]:
                del self._waiting[source]

    def add(self, source: Hashable, run: Run) -> Run | None:
        """Takes the next run of a known source: the part beyond all its earlier runs, or between them where one got
        lost. A run without contributors has no state.

        Returns the part of it, if any, whose panes were passed on without it.
        """
        progress = self._progress.get(source)
        if progress is None or run.upto <= run.after:
            self.refused += 1
            return None
        joined = self._joined[source]
        late = run.within(run.after, joined) if run.tells and run.after < joined else None
        if run.upto > progress:
            if run.tells and run.upto > self.frontier:
                self._wait(source, run.within(max(progress, self.frontier), run.upto))
            if run.after > progress:
                self._gaps[source] = [*self._gaps.get(source, ()), (progress, run.after)][-GAPS_MAX:]
            self._progress[source] = run.upto
        elif run.upto > joined:
            late = self._fill(source, run) or late
        return late

    def _fill(self, source: Hashable, run: Run) -> Run | None:
        """Takes a run that was lost, and retransmitted after later ones."""
        gaps = self._gaps.get(source, [])
        gap = next((gap for gap in gaps if gap[0] <= run.after and run.upto <= gap[1]), None)
        if gap is None:
            self.refused += 1
            return None
        gaps.remove(gap)
        gaps += [(after, upto) for after, upto in ((gap[0], run.after), (run.upto, gap[1])) if after < upto]
        if not run.tells:
            return None
        if run.upto > self.frontier:
            self._wait(source, run.within(max(run.after, self.frontier), run.upto))
        return run.within(run.after, min(run.upto, self.frontier)) if run.after < self.frontier else None

    def _wait(self, source: Hashable, run: Run) -> None:
        if self.is_full(source):
            self.refused += 1
        else:
            self._waiting[source].append(run)

    def is_full(self, source: Hashable) -> bool:
        """Whether as many runs of a source wait as may. A child sends more of them later; others are refused, and
        their agents missing.
        """
        return len(self._waiting.get(source, ())) >= RUNS_MAX

    def can_wait(self, source: Hashable, after: int, upto: int) -> bool:
        """Whether the next run of a source is of no use yet, as earlier ones wait for others."""
        progress = self._progress.get(source)
        return progress is not None and bool(self._waiting[source]) and self.frontier < progress <= after < upto

    def most_awaited(self) -> int | None:
        """The pane to which the farthest source has come, if its runs wait for others."""
        if not any(self._waiting.values()):
            return None
        most = max(self._progress.values(), default=self.frontier)
        return most if most > self._limit() else None

    def newest_pane(self) -> int:
        """The pane to which the farthest source has come."""
        return max(self._progress.values(), default=self.frontier)

    def is_level(self, upto: int) -> bool:
        """Whether no source is ahead of another, and nobody is waited for up to a pane."""
        limit = self._limit()
        return max(self._progress.values(), default=limit) <= limit and self.frontier >= upto

    def lacks(self, source: Hashable, pane: int) -> bool:
        """Whether a source has not delivered a pane; also one that is not known."""
        return self._progress.get(source, FIRST_PANE) < pane

    def progress(self, source: Hashable) -> int:
        """The last pane that a known source has delivered."""
        return self._progress[source]

    def move_on(self, source: Hashable, upto: int) -> None:
        """Counts panes as delivered whose run went up detached."""
        if source in self._progress:
            self._progress[source] = max(self._progress[source], upto)

    def add_detached(self, run: Run) -> bool:
        """At the root: takes a detached run, cut to the panes that are not complete yet; False if it is refused."""
        if run.upto <= run.after or len(self._detached) >= DETACHED_MAX * len(self.trees):
            self.refused += 1
            return False
        if run.tells and run.upto > self.frontier:
            beyond = run.within(self.frontier, run.upto)
            if any(beyond.is_like(known) for known in self._detached):
                self.refused += 1
                return False
            self._detached.append(beyond)
        return True

    @property
    def is_ready(self) -> bool:
        """Whether every source has reached a pane that is not taken yet."""
        return self._limit() > self.frontier

    def due(self) -> list[PaneSpan]:
        """The spans that `ready` would combine now, with their contributors. Touches no column."""
        return [span for span, _ in self._cuts(self._limit())]

    def ready(self, upto: int = END, *, as_encoded: bool = False) -> list[Run]:
        """Combined runs up to what every source has reached, and no further than a pane; O(rows in them · log).
        `as_encoded`: a few that are bytes by now and are combined with no other stay as they are.
        """
        limit = min(self._limit(), upto)
        cuts = self._cuts(limit)
        if not cuts:
            return []
        runs = []
        as_encoded &= len(cuts) <= ENCODED_MAX
        for kind, group in groupby(cuts, bound(self._kind, as_encoded)):
            contributors, partial, leaped, losses, held, placed, *_ = kind
            alike = list(group)
            parts = [run.within(span.after, span.upto) for span, chosen in alike for run in chosen]
            after, upto = alike[0][0].after, alike[-1][0].upto
            state, counted = self._merge(parts, upto)
            patches = merged_patches((one for part in parts for one in part.patches), upto, self.combine)
            before = merged_old((one for part in parts for one in part.before), upto, self.combine)
            encoding, tree = next((part.encoding for part in parts if part.state is state), None), self.trees[0]
            path = last_of(part.path for part in parts if part.upto == upto)
            runs.append(
                Run(
                    after, upto, contributors, state, counted, partial, tree, leaped, losses, patches, encoding, held,
                    placed, before=before, path=path,
                )
            )  # fmt: skip
        for source, waiting in list(self._waiting.items()):
            self._waiting[source] = _beyond(limit, waiting)
            if source not in self._progress and not self._waiting[source]:
                del self._waiting[source]
        self._detached = _beyond(limit, self._detached)
        self.refused += self._overlapping
        self.frontier = limit
        return runs

    def _kind(
        self, as_encoded: bool, cut: tuple[PaneSpan, list[Run]]
    ) -> tuple[int, int, int, Losses, frozenset[Holding], int, int, StateEncoding | None]:
        """Merge key of a span (contributors, partial, leaped, losses, owners, placement, version, bytes); neighbours
        with equal keys form one run.
        """
        span, runs = cut
        partial = reduce(or_, (run.partial for run in runs), span.contributors & ~span.whole)
        losses = merged_losses(run.losses for run in runs if run.losses)
        encoding = runs[0].encoding if as_encoded and len(runs) == 1 else None
        alone = encoding if encoding is not None and encoding.is_made else None
        held = frozenset[Holding]().union(*(run.held for run in runs if run.held))
        placed, version = min((run.placed for run in runs), default=0), sum(end < span.upto for end in self.ends)
        return span.contributors, partial, span.leaped, losses, held, placed, version, alone

    def end_versions_at(self, ends: tuple[int, ...]) -> None:
        """Ends runs at these panes from now on. Panes delivered beyond a new end are of no version in force."""
        last = min((end for end in ends if end not in self.ends), default=None)
        self.ends = ends
        if last is not None:
            for source, waiting in self._waiting.items():
                self._waiting[source] = runs_upto(last, waiting)
            self._detached = runs_upto(last, self._detached)

    @property
    def waiting_runs(self) -> int:
        """Runs that are not yet passed on."""
        return len(self._detached) + sum(map(len, self._waiting.values()))

    def skip_stragglers(self, policy: StragglerPolicy, now: float) -> bool:
        """Skips stragglers; returns whether their set has changed."""
        return self._watch.look(self._progress, self.frontier, policy, now)

    def lag(self, policy: StragglerPolicy) -> tuple[int, bool] | None:
        """The pane to which the farthest source has come where others are stragglers; whether too many runs wait."""
        most = max(self._progress.values(), default=self.frontier)
        runs = max(map(len, self._waiting.values()), default=0)
        is_behind = policy.leap_to(self._limit(), most, runs) is not None
        return (most, policy.is_full(runs)) if is_behind else None

    def go_on(self, upto: int) -> bool:
        """Waits for nobody up to this pane; returns whether it has waited."""
        self._awaited_from = max(self._awaited_from, upto)
        return self.frontier < upto

    def _limit(self) -> int:
        skipped = self._watch.skipped
        awaited = (progress for source, progress in self._progress.items() if source not in skipped)
        return max(min(awaited, default=self.frontier), self._awaited_from)

    def _cuts(self, limit: int) -> list[tuple[PaneSpan, list[Run]]]:
        """Cuts (frontier, limit] wherever a run begins or ends, each span with the runs that count in it. O(runs in all
        spans + runs · log).
        """
        if limit <= self.frontier:
            return []
        pending = [run for runs in (*self._waiting.values(), self._detached) for run in runs]
        ends = {end for run in pending for end in (run.after, run.upto)}
        bounds = sorted({end for end in (*ends, *self.ends) if self.frontier < end < limit} | {limit})
        by_begin = deque(sorted(enumerate(pending), key=lambda one: one[1].after))
        spanning: list[tuple[int, Run]] = []
        cuts = []
        after, self._overlapping = self.frontier, 0
        for upto in bounds:
            spanning = [one for one in spanning if one[1].upto > after]
            while by_begin and by_begin[0][1].after < upto:
                insort(spanning, by_begin.popleft(), key=itemgetter(0))
            there = [run for _, run in spanning if run.upto > after]
            inside = [run for run in there if run.contributors]
            by_tree = [_disjoint([run for run in inside if run.tree == tree]) for tree in self.trees]
            if any(run.is_old_cut for run in inside):
                by_tree = _disjoint_cuts(inside, self.trees)
            chosen = [run for runs, _ in by_tree for run in runs]
            telling = [run for run in there if not run.contributors and (run.losses or (run.leaped and run.counted))]
            members = [contributors for _, contributors in by_tree]
            self._overlapping += len(inside) - len(chosen)
            every, leaped = reduce(or_, members), reduce(or_, (run.leaped for run in there), 0)
            cuts.append((PaneSpan(after, upto, every, reduce(and_, members), leaped & ~every), [*chosen, *telling]))
            after = upto
        return cuts

    def _merge(self, parts: list[Run], upto: int) -> tuple[pl.DataFrame, Counted]:
        if len(parts) == 1 and parts[0].contributors:
            return parts[0].state, parts[0].counted
        states = [part.state for part in parts if part.contributors]
        state = states[0] if len(states) == 1 else self.combine(states, upto)
        return state, add_counted(part.counted for part in parts)


def _disjoint(runs: list[Run]) -> tuple[list[Run], int]:
    """The largest runs first, each only if none of its contributors is in already."""
    chosen: list[Run] = []
    contributors = 0
    for run in sorted(runs, key=lambda run: -run.contributors.bit_count()):
        if not run.contributors & contributors:
            chosen.append(run)
            contributors |= run.contributors
    return chosen, contributors


def _disjoint_cuts(runs: list[Run], trees: tuple[int, ...]) -> list[tuple[list[Run], int]]:
    """Does the same for each tree where some runs are copies of other cuts: what one cut has in one tree, another may
    have in another one, so no agent contributes by two of them."""
    chosen: list[list[Run]] = [[] for _ in trees]
    taken = 0
    for _, cut in groupby(sorted(runs, key=_cut_of), key=_cut_of):
        free = [run for run in cut if not run.contributors & taken]
        for found, tree in zip(chosen, trees, strict=True):
            found += _disjoint([run for run in free if run.tree == tree])[0]
        taken |= reduce(or_, (run.contributors for run in free), 0)
    return [(found, reduce(or_, (run.contributors for run in found), 0)) for found in chosen]


def _cut_of(run: Run) -> tuple[bool, int]:
    """The placement by which a copy was cut, the newest first; what agents send themselves is before all copies."""
    return run.is_old_cut, -run.placed if run.is_old_cut else 0


def _beyond(limit: int, runs: list[Run]) -> list[Run]:
    return [run.within(limit, run.upto) for run in runs if run.upto > limit]
