"""Owners of key groups, and the master that merges what they make, as agents run them, with their messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import TypeVar

import msgspec
import polars as pl

import query
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import FunctionCache, InForce, Versions, first_version
from agent.runtime.messages.jobs import CODEC, Decision, Snapshot, Submit
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import FIRST_PANE, Run
from agent.runtime.model.placement import KeyMoves
from agent.runtime.reduce.owned_states import decoded_windows, encoded_windows
from agent.runtime.reduce.owner import OwnedWindow, TreeOwner
from overlay import Id, app_id

PANE_MS = 1000
WINDOW_PANES = 10
TEXT = (
    "SELECT key, COUNT(*) AS n, SUM(size) AS bytes FROM web GROUP BY key ORDER BY n DESC, key LIMIT 10 "
    "WINDOWING 10 SECONDS EVERY 1 SECOND TREES {trees}"
)
GROUPS_MAX = 20_000_000
BYTES = 64 << 20
_KEY = app_id("benchmark", b"")
_EPOCH = JobEpoch(1, 1, Id(1))
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What some work yields, and the seconds of a processor that it takes."""
    began = process_time()
    return work(), process_time() - began


def function_of(trees: int) -> InForce:
    """The job's function, whose windows of ten panes come with each pane."""
    text = TEXT.format(trees=trees)
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


@dataclass(slots=True)
class Owner:
    """One owner, and the tree that it owns."""

    tree: int
    version: InForce
    core: TreeOwner

    @classmethod
    def of(cls, tree: int, version: InForce, trees: int) -> Owner:
        return cls(tree, version, TreeOwner(trees, BYTES, 1 << 40))

    def hold(self, pane: int, state: pl.DataFrame) -> None:
        self.core.hold(Run(pane - PANE_MS, pane, 1, state, tree=self.tree))

    def decision(
        self, pane: int, moved: KeyMoves, *, begins: bool = False, restores: Sequence[tuple[int, Id]] = ()
    ) -> Decision:
        """The master's word that the owner's windows with a pane are due, of which nobody else has groups."""
        span = (pane - PANE_MS, pane)
        given = {"moved": moved, "restores": list(restores)}
        return Decision(_KEY, _EPOCH, 1, self.tree, *span, b"\1", begins, False, FIRST_PANE, FIRST_PANE, **given)  # type: ignore[arg-type]

    def answer(self, decision: Decision) -> bytes:
        """The encoded windows that end with the panes of a decision."""
        spans = self.core.decide(decision, self.version)
        assert spans is not None
        (span,) = spans
        return _encoded(decision, span.after, span.upto, span.windows, "windows")

    def give(self, decision: Decision, groups: Sequence[int]) -> bytes:
        """What open windows have of groups, encoded for their new owner."""
        windows = self.core.given(decision, groups)
        return _encoded(decision, decision.after, decision.after + 1, windows, "given")

    def take(self, encoded: bytes, giver: tuple[int, int], after: int) -> None:
        """Takes what another owner gives."""
        assert self.core.take_given((*giver, after), decoded(encoded, self.version.function))


def _encoded(decision: Decision, after: int, upto: int, windows: Sequence[OwnedWindow], stage: str) -> bytes:
    snapshot = Snapshot(_KEY, _EPOCH, 1, after, upto, b"", b"", [], tree=decision.tree, of_root=True)
    return CODEC.encode(msgspec.structs.replace(snapshot, stage=stage, windows=encoded_windows(windows)))


def decoded(encoded: bytes, function: JobFunction) -> list[OwnedWindow]:
    """The windows in a message of an owner."""
    message = CODEC.decode(encoded, 1 << 40)
    assert isinstance(message, Snapshot)
    windows = decoded_windows(message, function)
    assert windows is not None
    return windows


def show(answers: Sequence[bytes], function: JobFunction) -> int:
    """Merges and shows what owners have of a window, as the master does; the number of its rows."""
    parts = [window for answer in answers for window in decoded(answer, function)]
    if not parts:
        return 0
    state = parts[0].state if len(parts) == 1 else function.put_together([part.state for part in parts])
    (rows,) = function.finish_windows(state, [parts[0].start_ms], parts[0].size_ms).values()
    return len(rows.rows)
