"""Runs of panes with their contributors: what workers seal, combiners merge and masters publish.

A pane is named by its start in epoch milliseconds. A run covers the panes in (after, upto]; a source's runs follow
each other in pane order, so that "how far" is one number and the barrier is a minimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

FIRST_PANE = -(2**63)
"""Before every pane: where a source's first run starts."""
END = 2**63 - 1
"""After every pane: how far a source has come when its input is over. Also the pane of counts that have no time."""

COUNTERS = ("events", "matched", "late", "malformed", "coerced", "dropped")
COUNTERS_SCHEMA = pl.Schema({"pane": pl.Int64(), **{name: pl.Int64() for name in COUNTERS}})
NO_COUNTERS = pl.DataFrame(schema=COUNTERS_SCHEMA)

COUNT_MAX = 1 << 47
"""No count goes beyond: 4096 children's counts still add up without overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The panes in (after, upto] of these contributors: their state and what was counted, both by pane.

    `partial`: those among them who know that they lack some of their events. `tree`: which range of the keys' hashes
    the state is of; what was counted goes with tree 0.
    """

    after: int
    upto: int
    contributors: int
    state: pl.DataFrame
    counters: pl.DataFrame
    partial: int = 0
    tree: int = 0

    def within(self, after: int, upto: int) -> Run:
        """The part of the run in (after, upto]; the run itself when that is all of it."""
        after, upto = max(after, self.after), min(upto, self.upto)
        if (after, upto) == (self.after, self.upto):
            return self
        inside = pl.col("pane").is_between(after, upto, closed="right")
        state, counters = self.state.filter(inside), self.counters.filter(inside)
        return replace(self, after=after, upto=upto, state=state, counters=counters)

    def is_like(self, other: Run) -> bool:
        """Whether it covers the same panes of the same contributors, in the same tree."""
        mine = (self.tree, self.after, self.upto, self.contributors)
        return mine == (other.tree, other.after, other.upto, other.contributors)

    def by(self, number: int) -> Run:
        """A worker's own run under its number; nobody's stays nobody's."""
        if not self.contributors:
            return self
        return replace(self, contributors=1 << number, partial=1 << number if self.partial else 0)

    def is_sound(self, pane_ms: int | None) -> bool:
        """Whether an honest peer could have made it: only the job's panes, within its span, and sane counts."""
        if self.partial & ~self.contributors:
            return False
        pane = pl.col("pane")
        in_span = pane.is_between(self.after, self.upto, closed="right")
        aligned = pane % pane_ms == 0 if pane_ms else pane == 0
        if self.state.height and not self.state.select((in_span & aligned).all()).item():
            return False
        if not self.counters.height:
            return True
        sane = pl.all_horizontal(pl.col(*COUNTERS).is_between(0, COUNT_MAX).fill_null(False))
        counters = in_span & (aligned | (pane == END)) & pane.is_unique() & sane
        return bool(self.counters.select(counters.all()).item())


def closed_ms(frontier: int, pane_ms: int | None) -> int:
    """The last instant (epoch ms) of the panes up to a frontier; where there is none, the frontier itself."""
    if pane_ms is None or frontier in (FIRST_PANE, END):
        return frontier
    return frontier // pane_ms * pane_ms + pane_ms - 1


def runs_upto(pane: int, runs: Iterable[Run]) -> list[Run]:
    """The runs as far as they lie up to a pane."""
    return [run.within(run.after, pane) for run in runs if run.after < pane]


def count(**columns: pl.Series | Sequence[int]) -> pl.DataFrame:
    """A counters frame from the given columns, `pane` among them; zero where a counter is not named."""
    zeros = [0] * len(columns["pane"])
    # Whole columns at once take a third of the time of expressions.
    return pl.DataFrame([pl.Series(name, columns.get(name, zeros), pl.Int64()) for name in COUNTERS_SCHEMA])


def add_counters(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Sums counters by pane, in pane order."""
    summed = pl.concat([pl.DataFrame(schema=COUNTERS_SCHEMA), *frames]).group_by("pane").sum().sort("pane")
    return summed.with_columns(pl.col(*COUNTERS).clip(upper_bound=COUNT_MAX))
