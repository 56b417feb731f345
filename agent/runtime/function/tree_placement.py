"""Places the keys of a job on its trees: by ranges of their hashes, and by groups of keys that have moved since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from agent.runtime.function.job_function import JobFunction
from agent.runtime.model.fields import GROUPS
from agent.runtime.model.panes import FIRST_PANE, OldPanes, Patch, Run
from agent.runtime.model.placement import NOT_MOVED, KeyMoves, Move
from cbt.algebra import partitions

Trees = npt.NDArray[np.int64]
_Part = TypeVar("_Part", Patch, OldPanes)
_GROUP_SHIFT = 64 - GROUPS.bit_length() + 1


def are_of(state: pl.DataFrame, groups: Sequence[int]) -> pl.Series:
    """Which rows of a state are of these key groups. O(n)."""
    numbers = partitions.partitions_of(state["hash"].to_numpy(), GROUPS)
    return pl.Series(np.isin(numbers, np.array(groups, dtype=np.uint64)))


def rows_of_groups(state: pl.DataFrame) -> npt.NDArray[np.int64]:
    """The number of a state's rows in each key group. O(n)."""
    return np.bincount(partitions.partitions_of(state["hash"].to_numpy(), GROUPS).astype(np.int64), minlength=GROUPS)


@dataclass(frozen=True, slots=True)
class TreePlacement:
    """Tree k has the keys in the k-th of `ranges` of hashes, but for groups that have moved, also to trees that were
    added. A state without keys is all on tree 0.
    """

    ranges: int
    moved: KeyMoves = NOT_MOVED

    @classmethod
    def of(cls, trees: int, moved: KeyMoves) -> TreePlacement:
        """The placement on this many trees, those that were added among them."""
        return cls(trees - len(moved.added), moved)

    @property
    def trees(self) -> int:
        """The number of trees."""
        return self.ranges + len(self.moved.added)

    def split(self, function: JobFunction, run: Run, functions: Mapping[int, JobFunction] | None = None) -> list[Run]:
        """A worker's run as it goes up each tree; what was counted goes up tree 0. O(n). `functions`: those of the
        versions that are known, as older ones may be. Their panes go up one tree each in any case, and so do those of
        which owners make no windows: the master merges them all."""
        if self.trees == 1:
            return [run]
        if not function.is_consolidated and self.once is not self:
            return self.once.split(function, run, functions)
        patches = [self._split_part(function, patch) for patch in run.patches]
        known = functions or {}
        old = [self.once._split_part(known[one.version], one) for one in run.before if one.version in known]
        return [
            replace(
                run,
                tree=tree,
                state=state,
                counted={} if tree else run.counted,
                patches=tuple(parts[tree] for parts in patches),
                before=tuple(parts[tree] for parts in old),
                placed=self.moved.number,
            )
            for tree, state in enumerate(self.cut(function, run.state))
        ]

    def _split_part(self, function: JobFunction, part: _Part) -> list[_Part]:
        """A patch, or old panes, as they go up each tree, also where they have nothing: who does not have a patch in
        all trees is partial."""
        return [
            replace(part, state=state, counted={} if tree else part.counted)
            for tree, state in enumerate(self.cut(function, part.state))
        ]

    def as_cut(self, run: Run, *, once: bool = False) -> TreePlacement:
        """The placement by which a worker's run is cut, perhaps `once` alone: this one, or the one by which parts of it
        may have left before, where moves since then hold for its panes."""
        if once:
            return self.as_cut(run).once
        cut_by = self.moved.number if run.cut_by is None else run.cut_by
        if not any(move.number > cut_by and FIRST_PANE < move.pane <= run.upto for move in self.moved.moves):
            return self
        moves = tuple(move for move in self.moved.moves if move.number <= cut_by or move.pane == FIRST_PANE)
        number = max([cut_by, *(move.number for move in moves)])
        return TreePlacement(self.ranges, msgspec.structs.replace(self.moved, number=number, moves=moves))

    @property
    def once(self) -> TreePlacement:
        """This placement without panes that go to two trees, for those who merge all trees."""
        if not any(move.until > move.pane for move in self.moved.moves):
            return self
        moves = tuple(msgspec.structs.replace(move, until=move.pane) for move in self.moved.moves)
        return TreePlacement(self.ranges, msgspec.structs.replace(self.moved, moves=moves))

    def cut(self, function: JobFunction, state: pl.DataFrame) -> list[pl.DataFrame]:
        """The part of a state on each tree, in order. O(n), and O(n · moves) where groups have moved."""
        nothing = function.empty_state
        if self.trees == 1 or function.layout is None:
            return [state, *([nothing] * (self.trees - 1))]
        if self.moved.moves and state.height:
            return self._gathered(state)
        pieces: list[list[pl.DataFrame]] = [[] for _ in range(self.trees)]
        for tree, piece in partitions.cut(state, self.ranges):
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

    def trees_of_group(self, group: int) -> set[int]:
        """The trees that a group is on, with all moves that are known."""
        latest = [move.tree for move in self.moved.moves if move.group == group]
        return {latest[-1]} if latest else self._trees_by_range(group)

    def _trees_by_range(self, group: int) -> set[int]:
        first, last = group << _GROUP_SHIFT, ((group + 1) << _GROUP_SHIFT) - 1
        of_first, of_last = (partitions.partition_of(one, self.ranges) for one in (first, last))
        return set(range(of_first, of_last + 1))

    def trees_before(self, move: Move) -> set[int]:
        """The trees that a move's group has been on: a group may reach across two ranges of hashes."""
        before = self._moved_before(move)
        return self._trees_by_range(move.group) if before is None else {before.tree}

    def _trees_of(self, state: pl.DataFrame) -> tuple[Trees, Trees | None]:
        """The tree of each row and, where panes of moving groups go to two, the other tree; -1 where there is none."""
        hashes, panes = state["hash"].to_numpy(), state["pane"].to_numpy()
        trees = partitions.partitions_of(hashes, self.ranges).astype(np.int64)
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
        comes with the pane `at`. Of a group that moves smoothly the old owner shows windows that begin before the move,
        the new one those that begin later; what one has given to another it shows no more. O(n · moves)."""
        if not any(move.mode != "instant" for move in self.moved.moves) or state.is_empty():
            return state
        start, hashes = int(state["pane"][0]), state["hash"].to_numpy()
        groups, hidden = partitions.partitions_of(hashes, GROUPS), np.zeros(len(hashes), dtype=np.bool_)
        for move in self.moved.moves:
            if _is_hidden(move, start, at, is_new=move.tree == tree):
                before = self._trees_before(move, hashes)
                hidden |= (groups == move.group) & ((before != tree) if move.tree == tree else (before == tree))
        return state.filter(pl.Series(~hidden)) if hidden.any() else state

    def with_two_owners(self, state: pl.DataFrame, at: int) -> pl.Series | None:
        """Which rows of a window are of groups that move instantly within it, so that another owner has them as well;
        None if none are. O(n)."""
        if state.is_empty():
            return None
        start = int(state["pane"][0])
        groups = [move.group for move in self.moved.moves if move.mode == "instant" and start < move.pane <= at]
        return are_of(state, groups) if groups else None

    def _trees_before(self, move: Move, hashes: npt.NDArray[np.uint64]) -> Trees:
        """The tree that each key of a move's group has been on."""
        before = self._moved_before(move)
        if before is not None:
            return np.full(len(hashes), before.tree)
        return partitions.partitions_of(hashes, self.ranges).astype(np.int64)

    def _moved_before(self, move: Move) -> Move | None:
        """The last move of a move's group before it."""
        before = [one for one in self.moved.moves if one.group == move.group and one.number < move.number]
        return before[-1] if before else None


def _is_hidden(move: Move, start: int, at: int, *, is_new: bool) -> bool:
    """Whether the new, or the old, owner of a group does not show it in a window."""
    spans = start < move.pane <= at
    if move.mode == "smooth":
        return spans if is_new else move.pane <= start < move.until
    return move.mode == "disruptive" and spans and not is_new
