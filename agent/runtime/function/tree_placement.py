"""Places the keys of a job on its trees by ranges of their hashes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from agent.runtime.function.job_function import JobFunction
from agent.runtime.model.panes import Patch, Run
from cbt.algebra import partitions


@dataclass(frozen=True, slots=True)
class TreePlacement:
    """Tree k has the keys in the k-th range of hashes. A state without keys is all on tree 0."""

    trees: int

    def split(self, function: JobFunction, run: Run) -> list[Run]:
        """A worker's run as it goes up each tree; what was counted goes up tree 0. O(n)."""
        if self.trees == 1:
            return [run]
        patches = [self._split_patch(function, patch) for patch in run.patches]
        return [
            replace(
                run,
                tree=tree,
                state=state,
                counted={} if tree else run.counted,
                patches=tuple(parts[tree] for parts in patches),
            )
            for tree, state in enumerate(self.cut(function, run.state))
        ]

    def _split_patch(self, function: JobFunction, patch: Patch) -> list[Patch]:
        """A patch as it goes up each tree, also where it has nothing: who does not have it in all trees is partial."""
        return [
            replace(patch, state=state, counted={} if tree else patch.counted)
            for tree, state in enumerate(self.cut(function, patch.state))
        ]

    def cut(self, function: JobFunction, state: pl.DataFrame) -> list[pl.DataFrame]:
        """The part of a state on each tree. O(n)."""
        nothing = function.empty_state
        if self.trees == 1 or function.layout is None:
            return [state, *([nothing] * (self.trees - 1))]
        pieces: list[list[pl.DataFrame]] = [[] for _ in range(self.trees)]
        for tree, piece in partitions.cut(state, self.trees):
            pieces[tree].append(piece)
        return [pl.concat(frames) if frames else nothing for frames in pieces]

    def is_on_tree(self, function: JobFunction, state: pl.DataFrame, tree: int) -> bool:
        """Whether all keys of a state are on this tree; groups beyond the limit, as OTHER, may be on any. O(n)."""
        if self.trees == 1 or state.is_empty():
            return True
        if function.layout is None:
            return tree == 0
        numbers = pl.Series(partitions.partitions_of(state["hash"].to_numpy(), self.trees))
        return bool(((numbers == tree) | state.select(function.is_other).to_series()).all())
