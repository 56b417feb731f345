"""Has a job's program fold the states of its own aggregates (`cbt.aggregates.program_states`), one block after another.

Theory of operation. A fold goes over the bags of one frame, in blocks of a bounded number of rows and bytes, each one
call of the program. A block ends between two groups if it can. A group with more than a block can take becomes several
states first, and these are folded in a further round: that is what associativity is for. Rigid aggregates make no
states, so all values of one group are in one block. Folds are made in the order in
which they are asked for, and what comes after one waits for it, so runs of panes leave in their order.

Whoever can do without passes a frame on as it is where the program is not there: whoever gets it folds more.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from agent.programs.calls import FoldStates, ProgramPosition, StatesFolded
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import Versions
from agent.runtime.model.panes import Run
from agent.runtime.model.work_budget import OverBudgetError
from cbt.aggregates.program_states import OCCURRENCES, RESULT, STATE, TEXT

BLOCK_ROWS_MAX = 10_000
"""Upper bound on the rows in one call of the program."""
BLOCK_BYTES_MAX = 2 << 20
"""Upper bound on the bytes of the texts in one call of the program, unless a single text has more."""
BAG_BYTES_MAX = 128 << 20
"""Upper bound on the bytes of values and states of one aggregate in a pane or window; past it the job ends."""
RIGID_ROWS_MAX = 100_000
"""Upper bound on the rows of one group in a window of which a rigid aggregate is made; past it the job ends."""
RIGID_BYTES_MAX = 4 << 20
"""Upper bound on the bytes of their texts."""
TEXT_BYTES_MAX = 96 << 10
"""Upper bound on the bytes of a text that a program makes."""
_GROUP = ":group"

Call = Callable[[bytes, Callable[[ProgramPosition], FoldStates]], bool]
"""Calls the code of this digest; returns whether there is such a program, and it is ready."""
Done = Callable[[pl.DataFrame], None]


class FoldBlock(NamedTuple):
    """Rows of one bag that go to the program together. `is_whole`: they have all of the rows of their groups."""

    aggregate: str
    rows: pl.DataFrame
    is_whole: bool


def blocks_of(aggregate: str, bag: pl.DataFrame, *, rows_max: int, bytes_max: int) -> Iterator[FoldBlock]:
    """A bag, ordered by its groups, in blocks. O(n)."""
    groups = bag[_GROUP].to_numpy()
    ends = np.cumsum(bag[f"{aggregate}.{TEXT}"].str.len_bytes().fill_null(0).to_numpy().astype(np.int64))
    start = 0
    while start < len(groups):
        before = ends[start - 1] if start else 0
        fitting = int(np.searchsorted(ends, before + bytes_max, side="right"))
        end = min(len(groups), start + rows_max, max(fitting, start + 1))
        if end < len(groups) and groups[end - 1] == groups[end]:
            first = int(np.searchsorted(groups, groups[end]))
            end = first if first > start else end
        begins = start == 0 or groups[start - 1] != groups[start]
        closes = end == len(groups) or groups[end - 1] != groups[end]
        yield FoldBlock(aggregate, bag[start:end], bool(begins and closes))
        start = end


@dataclass(eq=False, slots=True)
class _Fold:
    """One frame on its way through the program. `bags` are what is known of it now, `made` what this round makes."""

    function: JobFunction
    frame: pl.DataFrame
    done: Done
    finishes: bool
    owner: object
    bags: dict[str, pl.DataFrame]
    blocks: deque[FoldBlock] = field(default_factory=deque)
    made: dict[str, list[pl.DataFrame]] = field(default_factory=dict)

    def begin_round(self, rows_max: int, bytes_max: int) -> bool:
        """Cuts what is to be folded; returns whether there is anything. Raises OverBudgetError."""
        self.made = {}
        for name, bag in self.bags.items():
            left = bag.filter(~self._is_done(name, bag))
            if self._is_rigid(name):
                self._check_groups(name, left)
                self.blocks += blocks_of(name, left, rows_max=RIGID_ROWS_MAX, bytes_max=RIGID_BYTES_MAX)
            else:
                self.blocks += blocks_of(name, left, rows_max=rows_max, bytes_max=bytes_max)
        return bool(self.blocks)

    def _is_rigid(self, name: str) -> bool:
        return self.function.plan.called(name).is_rigid

    def _check_groups(self, name: str, bag: pl.DataFrame) -> None:
        """Raises OverBudgetError for a group with more rows than a rigid aggregate takes."""
        sums = pl.col(f"{name}.{OCCURRENCES}").sum(), pl.col(f"{name}.{TEXT}").str.len_bytes().sum()
        most = bag.group_by(_GROUP).agg(*sums).select(pl.all().exclude(_GROUP).max()).row(0)
        rows, size = (one or 0 for one in most)
        if rows > RIGID_ROWS_MAX or size > RIGID_BYTES_MAX:
            raise OverBudgetError(
                f"{self.function.texts[name]} has no combine, and a group of a window has {rows:,} rows of {size:,}"
                f" bytes; at most {RIGID_ROWS_MAX:,} of {RIGID_BYTES_MAX:,} are taken: choose shorter windows, group by"
                " more columns, or give it a combine"
            )

    def take(self, block: FoldBlock, answer: StatesFolded) -> str | None:
        """Takes the answer for a block; returns the fault in it, if there is one."""
        name, groups = block.aggregate, np.frombuffer(answer.groups, dtype=np.uint32)
        asked = block.rows[_GROUP].unique(maintain_order=True).to_numpy()
        kind = RESULT if self._ends_with(block) else STATE
        if not np.array_equal(groups, asked) or len(groups) != len(answer.texts):
            return "folded other groups than those that it was asked for"
        if any(text is not None and not text.startswith(kind) for text in answer.texts):
            return "answered with states of another kind"
        if any(text is not None and len(text) > TEXT_BYTES_MAX for text in answer.texts):
            return f"answered with a state of more than {TEXT_BYTES_MAX:,} bytes"
        columns = {_GROUP: pl.Series(groups), f"{name}.{TEXT}": pl.Series(answer.texts, dtype=pl.String)}
        made = pl.DataFrame(columns).with_columns(pl.lit(1, dtype=pl.Int64).alias(f"{name}.{OCCURRENCES}"))
        self.made.setdefault(name, []).append(made)
        return None

    def _ends_with(self, block: FoldBlock) -> bool:
        return self.finishes and block.is_whole

    def call(self, block: FoldBlock, ticket: int, place: ProgramPosition) -> FoldStates:
        name, rows = block.aggregate, block.rows
        times = rows[f"{name}.{OCCURRENCES}"].to_numpy().astype(np.int64).tobytes()
        numbers, texts = rows[_GROUP].to_numpy().astype(np.uint32).tobytes(), rows[f"{name}.{TEXT}"].to_list()
        called = self.function.plan.called(name).name
        return FoldStates(place, ticket, called, numbers, texts, times, self._ends_with(block))

    def end_round(self) -> None:
        """Puts what the round has made in the place of what it was made of."""
        for name, frames in self.made.items():
            bag = self.bags[name]
            kept = bag.filter(self._is_done(name, bag))
            self.bags[name] = pl.concat([kept, *(one.select(bag.columns) for one in frames)]).sort(_GROUP)

    def _is_done(self, name: str, bag: pl.DataFrame) -> pl.Series:
        """Which rows are all that is left of their group, in the form that is wanted; all where no states are made."""
        if not self.finishes and self._is_rigid(name):
            return pl.repeat(value=True, n=bag.height, dtype=pl.Boolean, eager=True)
        wanted = bag[f"{name}.{TEXT}"].str.starts_with(RESULT if self.finishes else STATE).fill_null(value=True)
        return wanted & (bag[f"{name}.{OCCURRENCES}"] == 1) & bag[_GROUP].is_unique()

    @property
    def is_over(self) -> bool:
        """Whether no further round is needed: groups are results or, where states will do, after one round."""
        return not self.finishes or all(self._is_done(name, bag).all() for name, bag in self.bags.items())


class StateFolds:
    """The folds of one job on one agent."""

    def __init__(
        self,
        *,
        rows_max: int = BLOCK_ROWS_MAX,
        bytes_max: int = BLOCK_BYTES_MAX,
        bag_bytes_max: int = BAG_BYTES_MAX,
    ) -> None:
        self.call: Call = lambda _code, _made: False
        self._rows_max, self._bytes_max, self._bag_bytes_max = rows_max, bytes_max, bag_bytes_max
        self._folds: deque[_Fold | tuple[object, Callable[[], None]]] = deque()
        self._asked: tuple[int, _Fold, FoldBlock] | None = None
        self._tickets = itertools.count(1)

    def __len__(self) -> int:
        return len(self._folds)

    def fold_run(self, owner: object, versions: Versions, run: Run, done: Callable[[Run], None]) -> None:
        """Gives `done` a run after all that was asked for before, with one state in place of each group's where the
        program is there; at once if there is nothing to fold, and nothing before it. Where another version begins
        meanwhile, the run is cut to the panes of its own."""
        function = versions.at(run.upto).function
        if function.folds and run.state.height:

            def folded(state: pl.DataFrame) -> None:
                _give(replace(run, state=state), function, versions, done)

            self.fold(owner, function, run.state, folded, finishes=False)
        elif self._folds:
            self._folds.append((owner, partial(_give, run, function, versions, done)))
        else:
            done(run)

    def fold(self, owner: object, function: JobFunction, frame: pl.DataFrame, done: Done, *, finishes: bool) -> None:
        """Has the program fold a frame of a function's states, and gives the frame it becomes to `done`: with one state
        in place of each group's, as far as possible, or with results.

        It waits for the program where results are needed, else the frame goes on as it is without one.
        """
        layout = function.store_layout
        bags = {} if layout is None else layout.bags(frame)
        self._folds.append(_Fold(function, frame, done, finishes, owner, bags))

    def drop(self, owner: object | None = None) -> None:
        """Forgets what an owner has asked for; None: everything."""
        kept = [one for one in self._folds if owner is not None and _owner_of(one) is not owner]
        self._folds = deque(kept)

    def pump(self) -> None:
        """Goes on as far as the program lets it. Raises OverBudgetError for more than may be folded."""
        while self._folds and self._asked is None:
            first = self._folds[0]
            if isinstance(first, tuple):
                self._folds.popleft()
                first[1]()
            elif not self._go_on(first):
                return

    def _go_on(self, fold: _Fold) -> bool:
        """Asks for the next block, or ends a fold; returns whether the next one may follow at once."""
        if not fold.blocks and not fold.made:
            self._check_size(fold)
            if not fold.begin_round(self._rows_max, self._bytes_max):
                return self._end(fold)
        if not fold.blocks:
            fold.end_round()
            fold.made = {}
            if fold.is_over:
                return self._end(fold)
            return True
        block, ticket, code = fold.blocks[0], next(self._tickets), fold.function.code
        if code is not None and self.call(code, lambda place: fold.call(block, ticket, place)):
            fold.blocks.popleft()
            self._asked = ticket, fold, block
            return False
        return False if fold.finishes else self._give_up(fold)

    def _check_size(self, fold: _Fold) -> None:
        for name, bag in fold.bags.items():
            size = int(bag[f"{name}.{TEXT}"].str.len_bytes().sum() or 0)
            if size > self._bag_bytes_max:
                raise OverBudgetError(
                    f"{fold.function.texts[name]} keeps {size:,} bytes of values and states in a pane or window; at"
                    f" most {self._bag_bytes_max:,} are folded: choose shorter panes, or group by fewer columns"
                )

    def _end(self, fold: _Fold) -> bool:
        self._folds.popleft()
        layout = fold.function.store_layout
        fold.done(fold.frame if layout is None or not fold.bags else layout.folded(fold.frame, fold.bags))
        return True

    def _give_up(self, fold: _Fold) -> bool:
        """Passes a frame on as it is."""
        self._folds.popleft()
        fold.done(fold.frame)
        return True

    def answered(self, answer: StatesFolded) -> str | None:
        """Takes a program's answer; returns the fault in it, if there is one."""
        if self._asked is None or self._asked[0] != answer.ticket:
            return "folded states that it was not asked for"
        _, fold, block = self._asked
        self._asked = None
        fault = fold.take(block, answer) if fold in self._folds else None
        if fault is None:
            self.pump()
        return fault

    def code_ended(self, code: bytes) -> None:
        """Asks again for what a program has not answered that is no more, once there is another."""
        if self._asked is not None and self._asked[1].function.code == code:
            _, fold, block = self._asked
            self._asked = None
            fold.blocks.appendleft(block)
            self.pump()


def _give(run: Run, function: JobFunction, versions: Versions, done: Callable[[Run], None]) -> None:
    """Gives a run of a function away, without the panes that are another one's by now."""
    last = next((one.upto for one in versions if one.function is function), run.after)
    if (own := run.within(run.after, last)).after < own.upto:
        done(own)


def _owner_of(one: _Fold | tuple[object, Callable[[], None]]) -> object:
    return one[0] if isinstance(one, tuple) else one.owner
