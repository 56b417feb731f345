"""Defines runs of panes with their contributors: workers seal them, combiners merge them, masters publish them.

A pane is named by its start in epoch milliseconds. A run covers the panes in (after, upto]; a source's runs follow
each other in pane order, so that "how far" is one number and the barrier is a minimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple

import polars as pl

FIRST_PANE = -(2**63)
"""Before every pane: the start of a source's first run."""
END = 2**63 - 1
"""After every pane: the end of a source's last run. Also the pane of counts that have no time."""

PANE_MAX = 1 << 62
"""Upper bound on a pane's distance from the Unix epoch: times can be added to it."""
COUNT_MAX = 1 << 47
"""Upper bound on a count: those of 4096 children still add up without overflow."""


class Counts(NamedTuple):
    """The counts of one pane."""

    events: int = 0
    matched: int = 0
    late: int = 0
    malformed: int = 0
    coerced: int = 0
    dropped: int = 0

    def plus(self, other: Counts) -> Counts:
        """The sum of both."""
        return Counts(*(min(mine + theirs, COUNT_MAX) for mine, theirs in zip(self, other, strict=True)))


Counted = dict[int, Counts]
"""Counts by pane."""
Losses = tuple[tuple[int, str], ...]
"""Contributors whose runs were too large to be passed on, as bitmaps, each with the reason."""
LOSSES_MAX = 64
"""Upper bound on the reasons in a run; the contributors of further ones share the last."""
COUNTS_BYTES = 64
"""Upper bound on the encoded size of a pane and its counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The panes in (after, upto] of some contributors: their state and their counts, both by pane.

    `partial`: the contributors that know that they lack some of their events. `tree`: the range of the keys' hashes of
    the state; the counts go with tree 0. `leaped`: the agents that were leaped over in these panes. `losses`: those who
    would be contributors, and why they are none.
    """

    after: int
    upto: int
    contributors: int
    state: pl.DataFrame
    counted: Counted = field(default_factory=dict)
    partial: int = 0
    tree: int = 0
    leaped: int = 0
    losses: Losses = ()

    @property
    def tells(self) -> bool:
        """Whether it says more than that its panes are over."""
        return bool(self.contributors or self.leaped or self.losses)

    def pieces(self, panes_max: int) -> Iterator[Run]:
        """The run as runs with counts of at most so many panes each, in order; itself if that is one."""
        ends = sorted(self.counted)[panes_max - 1 : -1 : panes_max] if len(self.counted) > panes_max else []
        after = self.after
        for upto in (*ends, self.upto):
            yield self.within(after, upto)
            after = upto

    def halves(self) -> tuple[Run, Run] | None:
        """Two runs, each with about half of its panes; None if it has one at most."""
        panes = sorted({*self.counted, *self.state["pane"].unique()})
        if len(panes) < 2:
            return None
        middle = panes[len(panes) // 2 - 1]
        return self.within(self.after, middle), self.within(middle, self.upto)

    def without_content(self, nothing: pl.DataFrame, reason: str) -> Run:
        """Replaces its state by `nothing`, and its contributors by the reason; its panes stay."""
        counted = dict.fromkeys(self.counted, Counts())
        losses = merged_losses([self.losses, ((self.contributors, reason),) if self.contributors else ()])
        return Run(self.after, self.upto, 0, nothing, counted, 0, self.tree, self.leaped, losses)

    def within(self, after: int, upto: int) -> Run:
        """The part of the run in (after, upto]; the run itself when that is all of it."""
        after, upto = max(after, self.after), min(upto, self.upto)
        if (after, upto) == (self.after, self.upto):
            return self
        inside = pl.col("pane").is_between(after, upto, closed="right")
        state = self.state.filter(inside) if self.state.height else self.state
        counted = {pane: counts for pane, counts in self.counted.items() if after < pane <= upto}
        return replace(self, after=after, upto=upto, state=state, counted=counted)

    def is_like(self, other: Run) -> bool:
        """Whether it covers the same panes of the same contributors, in the same tree."""
        mine = (self.tree, self.after, self.upto, self.contributors, self.leaped, self.losses)
        return mine == (other.tree, other.after, other.upto, other.contributors, other.leaped, other.losses)

    def by(self, number: int) -> Run:
        """A worker's own run under its number; a run without contributors stays so."""
        if not self.contributors:
            return self
        return replace(self, contributors=1 << number, partial=1 << number if self.partial else 0)

    def is_sound(self, pane_ms: int | None) -> bool:
        """Whether an honest peer could have made it: it has only the job's panes, within its span, and sane counts."""
        if self.partial & ~self.contributors or self.leaped & self.contributors:
            return False
        if not all(self._holds(pane, pane_ms) or pane == END == self.upto for pane in self.counted):
            return False
        if not all(0 <= count <= COUNT_MAX for counts in self.counted.values() for count in counts):
            return False
        if not self.state.height:
            return True
        panes = self.state["pane"]
        first, last = panes.min(), panes.max()
        if not isinstance(first, int) or not isinstance(last, int) or panes.null_count():
            return False
        are_aligned = first == last or not pane_ms or ((panes % pane_ms) == 0).all()
        return are_aligned and self._holds(first, pane_ms) and self._holds(last, pane_ms)

    def _holds(self, pane: int, pane_ms: int | None) -> bool:
        """Whether it is a pane of the job in this run's span."""
        is_pane = pane % pane_ms == 0 if pane_ms else pane == 0
        return is_pane and self.after < pane <= self.upto and abs(pane) < PANE_MAX


def closed_ms(frontier: int, pane_ms: int | None) -> int:
    """The last instant (epoch ms) of the panes up to a frontier; where there is none, the frontier itself."""
    if pane_ms is None or frontier in (FIRST_PANE, END):
        return frontier
    return frontier // pane_ms * pane_ms + pane_ms - 1


def runs_upto(pane: int, runs: Iterable[Run]) -> list[Run]:
    """The runs, cut to the panes up to one."""
    return [run.within(run.after, pane) for run in runs if run.after < pane]


def add_counted(every: Iterable[Counted]) -> Counted:
    """Sums counts by pane, in pane order. O(panes · log)."""
    summed: Counted = {}
    for counted in every:
        count_in(summed, counted)
    return dict(sorted(summed.items()))


def count_in(summed: Counted, counted: Counted) -> None:
    """Adds the counts of some panes. O(panes)."""
    for pane, counts in counted.items():
        known = summed.get(pane)
        summed[pane] = counts if known is None else known.plus(counts)


def merged_losses(every: Iterable[Losses]) -> Losses:
    """All losses together, by their reasons in order."""
    by_reason: dict[str, int] = {}
    for contributors, reason in (loss for losses in every for loss in losses):
        by_reason[reason] = by_reason.get(reason, 0) | contributors
    merged = [(contributors, reason) for reason, contributors in sorted(by_reason.items())]
    for contributors, _ in merged[LOSSES_MAX:]:
        last, reason = merged[LOSSES_MAX - 1]
        merged[LOSSES_MAX - 1] = (last | contributors, reason)
    return tuple(merged[:LOSSES_MAX])


def total(counted: Iterable[Counts]) -> Counts:
    """The sum of several counts."""
    return reduce(Counts.plus, counted, Counts())
