"""Places the keys of a job on its trees: by ranges of their hashes, and by groups of keys that have moved since."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.runtime.function.job_function import JobFunction
from agent.runtime.model.panes import Patch, Run
from agent.runtime.model.placement import GROUPS, NOT_MOVED, KeyMoves
from cbt.algebra import partitions

Trees = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TreePlacement:
    """Tree k has the keys in the k-th range of hashes, but for groups that have moved. A state without keys is all on
    tree 0.
    """

    trees: int
    moved: KeyMoves = NOT_MOVED

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
                placed=self.moved.number,
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
        """The part of a state on each tree, in order. O(n), and O(n · moves) where groups have moved."""
        nothing = function.empty_state
        if self.trees == 1 or function.layout is None:
            return [state, *([nothing] * (self.trees - 1))]
        if self.moved.moves and state.height:
            return self._gathered(state)
        pieces: list[list[pl.DataFrame]] = [[] for _ in range(self.trees)]
        for tree, piece in partitions.cut(state, self.trees):
            pieces[tree].append(piece)
        return [pl.concat(frames) if frames else nothing for frames in pieces]

    def _gathered(self, state: pl.DataFrame) -> list[pl.DataFrame]:
        trees, others = self._trees_of(state)
        order = np.argsort(trees, kind="stable")
        bounds = np.searchsorted(trees[order], np.arange(self.trees + 1))
        rows = [order[start:end] for start, end in pairwise(bounds.tolist())]
        if others is not None:
            rows = [np.union1d(own, np.flatnonzero(others == tree)) for tree, own in enumerate(rows)]
        return [state[own.astype(np.uint32)] for own in rows]

    def _trees_of(self, state: pl.DataFrame) -> tuple[Trees, Trees | None]:
        """The tree of each row and, where panes of moving groups go to two, the other tree; -1 where there is none."""
        hashes, panes = state["hash"].to_numpy(), state["pane"].to_numpy()
        trees = partitions.partitions_of(hashes, self.trees).astype(np.int64)
        others: Trees | None = None
        groups = partitions.partitions_of(hashes, GROUPS)
        for move in self.moved.moves:
            moved = (groups == move.group) & (panes >= move.pane)
            both = moved & (panes < move.until) & (trees != move.tree)
            if both.any():
                others = np.full(len(trees), -1) if others is None else others
                others[both] = trees[both]
            trees[moved] = move.tree
        return trees, others

    def is_on_tree(self, function: JobFunction, state: pl.DataFrame, tree: int) -> bool:
        """Whether all keys of a state are on this tree; groups beyond the limit, as OTHER, may be on any. O(n)."""
        if self.trees == 1 or state.is_empty():
            return True
        if function.layout is None:
            return tree == 0
        trees, others = self._trees_of(state)
        on_tree = trees == tree if others is None else (trees == tree) | (others == tree)
        return bool((pl.Series(on_tree) | state.select(function.is_other).to_series()).all())

    def of_window(self, state: pl.DataFrame, tree: int, at: int) -> pl.DataFrame:
        """The groups of a window that its owner on a tree shows: its rows have the window's start as their pane, and it
        comes with the pane `at`. A group that moves instantly is shown by both owners of its panes, others by one:
        smoothly, by the old one of windows that begin before, disruptively, by the new one of windows that end after.
        O(n · moves)."""
        latest = {move.group: move for move in self.moved.moves}
        hiding = [move for move in latest.values() if move.mode != "instant"]
        if not hiding or state.is_empty():
            return state
        start, groups = int(state["pane"][0]), partitions.partitions_of(state["hash"].to_numpy(), GROUPS)
        hidden = np.zeros(len(groups), dtype=np.bool_)
        for move in hiding:
            has_moved = start >= move.pane if move.mode == "smooth" else at >= move.pane
            if has_moved != (move.tree == tree):
                hidden |= groups == move.group
        return state.filter(pl.Series(~hidden)) if hidden.any() else state
