"""The barrier of a job's tree in one agent (paper §3.2): wait for every source, combine, pass on.

Theory of operation. A combiner has sources: its agent's own worker, if there is one, and each child in the tree.
A source delivers runs of panes in pane order. What all sources have delivered is combined and leaves as one run; what
only some have delivered waits. In panes that a source has passed over it is no contributor. Only disjoint contributor
sets combine: a run whose contributors were already counted is dropped, so a retry or a second path can never count an
agent twice (DESIGN §4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import polars as pl

from agent.panes import FIRST_PANE, Run, add_counters

Combine = Callable[[list[pl.DataFrame]], pl.DataFrame]


@dataclass(slots=True)
class Combiner:
    """Runs go in by source, combined runs come out in pane order.

    `refused` counts runs, or parts of them, that were not taken: repeated, of no known source, or overlapping.
    """

    combine: Combine
    frontier: int = FIRST_PANE
    refused: int = 0
    _progress: dict[Hashable, int] = field(default_factory=dict)
    _waiting: dict[Hashable, list[Run]] = field(default_factory=dict)

    def add_source(self, source: Hashable) -> None:
        """From now on, wait for this source too."""
        self._progress.setdefault(source, self.frontier)
        self._waiting.setdefault(source, [])

    def remove_source(self, source: Hashable) -> None:
        """Stop waiting for a source; what it delivered stays counted."""
        if self._progress.pop(source, None) is not None and not self._waiting[source]:
            del self._waiting[source]

    def add(self, source: Hashable, run: Run) -> None:
        """Takes the next run of a known source: what lies beyond all its earlier ones. Nobody's state is nothing."""
        progress = self._progress.get(source)
        if progress is None or run.upto <= max(progress, run.after):
            self.refused += 1
            return
        if run.contributors:
            self._waiting[source].append(run.within(progress, run.upto))
        self._progress[source] = run.upto

    def ready(self) -> list[Run]:
        """Combined runs up to what every source has reached; O(rows in them · log)."""
        limit = min(self._progress.values(), default=self.frontier)
        if limit <= self.frontier:
            return []
        runs = [self._merge(*span) for span in self._spans(limit)]
        for source, waiting in list(self._waiting.items()):
            self._waiting[source] = [run.within(limit, run.upto) for run in waiting if run.upto > limit]
            if source not in self._progress and not self._waiting[source]:
                del self._waiting[source]
        self.frontier = limit
        return runs

    def _spans(self, limit: int) -> list[tuple[int, int, int, list[Run]]]:
        """Cuts (frontier, limit] wherever the set of contributors changes: (after, upto, contributors, parts)."""
        pending = [run for runs in self._waiting.values() for run in runs]
        ends = {end for run in pending for end in (run.after, run.upto)}
        bounds = sorted({end for end in ends if self.frontier < end < limit} | {limit})
        spans: list[tuple[int, int, int, list[Run]]] = []
        after = self.frontier
        for upto in bounds:
            chosen, contributors = self._disjoint([run for run in pending if run.after < upto and run.upto > after])
            parts = [run.within(after, upto) for run in chosen]
            if spans and spans[-1][2] == contributors:
                start, _, _, earlier = spans.pop()
                spans.append((start, upto, contributors, earlier + parts))
            else:
                spans.append((after, upto, contributors, parts))
            after = upto
        return spans

    def _disjoint(self, runs: list[Run]) -> tuple[list[Run], int]:
        """The largest runs first, each only if it brings no agent that is already in."""
        chosen: list[Run] = []
        contributors = 0
        for run in sorted(runs, key=lambda run: -run.contributors.bit_count()):
            if run.contributors & contributors:
                self.refused += 1
            else:
                chosen.append(run)
                contributors |= run.contributors
        return chosen, contributors

    def _merge(self, after: int, upto: int, contributors: int, parts: list[Run]) -> Run:
        counters = add_counters(part.counters for part in parts)
        states = [part.state for part in parts]
        return Run(after, upto, contributors, states[0] if len(states) == 1 else self.combine(states), counters)
