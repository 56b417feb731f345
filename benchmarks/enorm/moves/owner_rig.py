"""Owners of key groups, and the master that merges what they make, as agents run them, with their messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import TypeVar

import msgspec
import numpy as np
import polars as pl

import query
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.tree_placement import TreePlacement, are_of
from agent.runtime.function.versions import FunctionCache, InForce, Versions, first_version
from agent.runtime.messages.jobs import CODEC, Decision, Snapshot, Submit
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import GROUPS, Mode
from agent.runtime.model.panes import FIRST_PANE, Run
from agent.runtime.model.placement import KeyMoves, Move
from agent.runtime.reduce.owned_states import decoded_windows, encoded_windows
from agent.runtime.reduce.owner import OwnedWindow, TreeOwner
from overlay import Id, app_id

PANE_MS = 1000
HOW: dict[Mode, str] = {"instant": "instantly", "smooth": "smoothly", "disruptive": "with their state"}
"""The modes as people read them."""
TEXT = (
    "SELECT key, COUNT(*) AS n, SUM(size) AS bytes FROM web GROUP BY key ORDER BY n DESC, key LIMIT 10 "
    "WINDOWING {panes} SECONDS EVERY 1 SECOND TREES {trees}"
)
FIRST = 1_000_000
"""The first pane."""
GROUPS_MAX = 20_000_000
BYTES = 64 << 20
_KEY = app_id("benchmark", b"")
_EPOCH = JobEpoch(1, 1, Id(1))
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What some work yields, and the seconds of a processor that it takes."""
    began = process_time()
    return work(), process_time() - began


def function_of(trees: int, panes: int) -> InForce:
    """The job's function, whose windows of so many panes come with each pane."""
    text = TEXT.format(trees=trees, panes=panes)
    plan = query.analyze(query.parse(text), {"web": query.Schema({}, open=True)}, max_groups=GROUPS_MAX)
    job = Submit(_KEY, "benchmark", plan.stream, plan.to_wire(), text, bounded=False)
    return Versions([first_version(job)], job, FunctionCache()).newest


def pane_of(function: JobFunction, keys: int) -> pl.DataFrame:
    """The state of a pane in which each key has had an event. O(keys · log keys)."""
    assert function.layout is not None
    names = pl.select(pl.format("key-{}", pl.int_range(keys))).to_series()
    sizes = pl.select(pl.int_range(keys) % 1000 + 1).to_series()
    events = pl.DataFrame({"key": names, "size": sizes, "@time": pl.zeros(keys, dtype=pl.Int64, eager=True)})
    return function.layout.lift(function.select(function.in_range(events)))


def pane_at(index: int) -> int:
    """The start of the pane with a number."""
    return FIRST + index * PANE_MS


def placed(trees: Sequence[int]) -> KeyMoves:
    """The placement in which each group is on the tree given, from the first pane on."""
    moves = (Move(1, FIRST_PANE, group, tree, "instant", FIRST_PANE) for group, tree in enumerate(trees))
    return KeyMoves(1, tuple(moves))


def takers_of(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """The trees that get groups, in the order of the first of these."""
    return list(dict.fromkeys(new for old, new in zip(before, after, strict=True) if old != new))


def moved(before: Sequence[int], after: Sequence[int], index: int, mode: Mode, window_ms: int) -> KeyMoves:
    """The placement whose groups move from a pane on to the trees of `after`; as masters have it, an owner gives states
    to one other at a time."""
    placement = placed(before)
    takers = takers_of(before, after)
    for group, (old, new) in enumerate(zip(before, after, strict=True)):
        if old != new:
            pane = pane_at(index + (takers.index(new) if mode == "disruptive" else 0))
            until = pane + window_ms if mode == "smooth" else pane
            placement = placement.with_move(Move(placement.number + 1, pane, group, new, mode, until), FIRST_PANE)
    return placement


@dataclass(frozen=True)
class PaneCosts:
    """Seconds of a processor that a pane takes: of `gives` from one tree's owner to that of another, to give and to
    take states; of `answers` by tree; and of the master, until the window is `shown`: its keys, with their counts."""

    gives: dict[tuple[int, int], tuple[float, float]]
    answers: dict[int, float]
    shown_s: float
    shown: list[tuple[object, object]]


@dataclass
class Owners:
    """The owners of trees, each an agent by itself, and a master that only shows."""

    version: InForce
    moves: KeyMoves
    trees: Sequence[int]
    _owners: dict[int, _Owner] = field(default_factory=dict)
    _pieces: dict[tuple[int, ...], list[pl.DataFrame]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._owners = {tree: _Owner(tree, self.version, self.ranges) for tree in self.trees}

    @property
    def ranges(self) -> int:
        return max(self.trees) + 1

    @property
    def memory_bytes(self) -> int:
        """The most bytes of open windows that any owner has."""
        return max(owner.core.memory_bytes for owner in self._owners.values())

    def take(self, at: int, state: pl.DataFrame) -> PaneCosts:
        """Takes the next pane, whose state is the same each time, and shows the windows that end with it."""
        pieces = self._cut(at, state)
        for tree, owner in self._owners.items():
            owner.hold(at, pieces[tree].with_columns(pane=pl.lit(at, dtype=pl.Int64)))
        gives: dict[tuple[int, int], tuple[float, float]] = {}
        restores: dict[int, list[tuple[int, Id]]] = defaultdict(list)
        for (giver, taker), groups in self._handed_over(at).items():
            decision = self._owners[giver].decision(at, self.moves)
            given, gives_s = timed(lambda: self._owners[giver].give(decision, groups))  # noqa: B023
            _, takes_s = timed(lambda: self._owners[taker].restore(given, giver, at))  # noqa: B023
            gives[giver, taker] = gives_s, takes_s
            restores[taker].append((giver, Id(giver)))
        answers = {
            tree: timed(lambda: owner.answer(owner.decision(at, self.moves, restores=restores[tree])))  # noqa: B023
            for tree, owner in self._owners.items()
        }
        encoded = [answer for answer, _ in answers.values()]
        shown, shown_s = timed(lambda: _show(encoded, self.version.function))
        return PaneCosts(gives, {tree: seconds for tree, (_, seconds) in answers.items()}, shown_s, shown)

    def _cut(self, at: int, state: pl.DataFrame) -> list[pl.DataFrame]:
        """A pane by trees; what agents do is not measured, so it is done once for all panes that are cut alike."""
        holds = tuple(sum((move.pane <= at, move.until <= at)) for move in self.moves.moves)
        if holds not in self._pieces:
            placement = TreePlacement(self.ranges, self.moves)
            self._pieces[holds] = placement.cut(
                self.version.function, state.with_columns(pane=pl.lit(at, dtype=pl.Int64))
            )
        return self._pieces[holds]

    def _handed_over(self, at: int) -> dict[tuple[int, int], list[int]]:
        """The groups whose state goes from one owner to another before a pane."""
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        placement = TreePlacement(self.ranges, self.moves)
        for move in self.moves.moves:
            if move.mode == "disruptive" and move.pane == at:
                (giver,) = placement.trees_before(move)
                found[giver, move.tree].append(move.group)
        return found


class _Owner:
    """One owner, and the tree that it owns."""

    def __init__(self, tree: int, version: InForce, trees: int) -> None:
        self._tree, self._version = tree, version
        self.core = TreeOwner(trees, BYTES, 1 << 40)

    def hold(self, pane: int, state: pl.DataFrame) -> None:
        self.core.hold(Run(pane - PANE_MS, pane, 1, state, tree=self._tree))

    def decision(self, pane: int, moves: KeyMoves, *, restores: Sequence[tuple[int, Id]] = ()) -> Decision:
        """The master's word that the owner's windows with a pane are due."""
        return Decision(
            _KEY,
            _EPOCH,
            1,
            self._tree,
            pane - PANE_MS,
            pane,
            contributors=b"\1",
            begins=pane == FIRST,
            ends=False,
            whole_from=FIRST_PANE,
            published=FIRST_PANE,
            moved=moves,
            restores=list(restores),
        )

    def answer(self, decision: Decision) -> bytes:
        """The encoded windows that end with the panes of a decision."""
        spans = self.core.decide(decision, self._version)
        assert spans is not None
        (span,) = spans
        return _encoded(decision, span.after, span.upto, span.windows, "windows")

    def give(self, decision: Decision, groups: Sequence[int]) -> bytes:
        """What open windows have of groups, encoded for their new owner."""
        windows = self.core.given(decision, groups)
        return _encoded(decision, decision.after, decision.after + 1, windows, "given")

    def restore(self, encoded: bytes, giver: int, at: int) -> None:
        """Takes what another owner gives before a pane."""
        assert self.core.take_given((giver, Id(giver), at - PANE_MS), _decoded(encoded, self._version.function))


def _encoded(decision: Decision, after: int, upto: int, windows: Sequence[OwnedWindow], stage: str) -> bytes:
    snapshot = Snapshot(_KEY, _EPOCH, 1, after, upto, b"", b"", [], tree=decision.tree, of_root=True)
    return CODEC.encode(msgspec.structs.replace(snapshot, stage=stage, windows=encoded_windows(windows)))


def _decoded(encoded: bytes, function: JobFunction) -> list[OwnedWindow]:
    """The windows in a message of an owner."""
    message = CODEC.decode(encoded, 1 << 40)
    assert isinstance(message, Snapshot)
    windows = decoded_windows(message, function)
    assert windows is not None
    return windows


def _show(answers: Sequence[bytes], function: JobFunction) -> list[tuple[object, object]]:
    """Merges and shows what owners have of a window, as the master does."""
    parts = [window for answer in answers for window in _decoded(answer, function)]
    if not parts:
        return []
    state = parts[0].state if len(parts) == 1 else function.put_together([part.state for part in parts])
    (found,) = function.finish_windows(state, [parts[0].start_ms], parts[0].size_ms).values()
    return list(zip(found.rows.column("key"), found.rows.column("n"), strict=True))


def of_groups(state: pl.DataFrame, groups: int) -> pl.DataFrame:
    """The rows of the first groups."""
    return state if groups == GROUPS else state.filter(are_of(state, np.arange(groups).tolist()))
