"""Computes one version of a job, with the plan's stages and a CBT.

Two kinds share one shape: with aggregates a job keeps PAOs in a compressed buffer tree; without, it keeps the first
rows of each pane. Workers, combiners and masters see only this shape.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec
import polars as pl

import cbt
import query
from agent.parsing import SourceColumn, parsed_rows
from agent.runtime.function.grace import Grace
from agent.runtime.function.join import JoinTable
from agent.runtime.function.nested_states import NestedStates
from agent.runtime.function.result import OtherGroups, WindowRows
from agent.runtime.function.spill import SpillArea
from agent.runtime.function.state_rows import StateRows
from agent.runtime.model.bundle import Bundle
from agent.runtime.model.meters import Work, WorkMeter
from agent.runtime.model.panes import END, FIRST_PANE, closed_ms
from cbt.layout.group_limit import GroupLimit
from cbt.layout.group_limit import is_other as is_other_group
from cbt.windows import Difference

NO_GRACE = Grace()
MERGED_ROWS = 1 << 15
"""Rows that are merged at once, unless those of one pane are more."""
TreeOrRows = cbt.CompressedBufferTree | cbt.RowBuffer
Range = tuple[int | None, int | None, int | None]
"""The length of panes, and the times from and until which events are taken, all in ms."""


class JobFunction:
    """A plan made runnable.

    `state_schema` is the shape of the frames that travel. `lookup`: the rows that events are joined with, if they are.
    `code` is the digest of the code that goes with it, None for none. The code of a `self_paced` function cuts its
    panes, wherever it wants.
    """

    def __init__(
        self,
        plan: query.Plan,
        since_ms: int | None = None,
        until_ms: int | None = None,
        *,
        code: bytes | None = None,
        self_paced: bool = False,
        grace: Grace = NO_GRACE,
    ) -> None:
        self.plan = plan
        self.grace = grace
        self.code = code
        self.self_paced = self_paced
        self.pane_ms = 1 if self_paced else plan.pane_ms
        """Milliseconds that panes are multiples of; None: there is only one."""
        self.lookup = None if plan.join is None else JoinTable(plan, plan.join)
        self.range: Range = (plan.pane_ms, since_ms, until_ms)
        self.is_of_panes = plan.windowing is None or plan.windowing.is_of_panes
        """Whether each of its windows is one pane."""
        self._events = query.EventStage(plan)
        self._branches = query.BranchesStage(plan) if plan.branches else None
        self._outer = None if plan.outer is None else JobFunction(plan.outer)
        self._stages: dict[int | None, tuple[query.ResultStage, query.OtherStage]] = {}
        # Also where too many groups are an error: agents stay small until the master has said so.
        self._limit = GroupLimit(plan.max_groups, "other")
        self._empty_store = self.new_store()

    @classmethod
    def of(
        cls,
        plan: query.Plan,
        since_ms: int | None,
        until_ms: int | None,
        bundle: Bundle | None = None,
        grace: Grace = NO_GRACE,
    ) -> JobFunction:
        """The function of a plan with the code in a bundle. Raises `query.PlanError` where they do not go together."""
        if plan.types is not None and (bundle is None or not bundle.contents.part_of):
            raise query.PlanError("it reads types of events of the job that it is a stage of, and is a stage of none")
        if plan.aggregates_of_job and (bundle is None or not bundle.contents.source or bundle.contents.drives):
            raise query.PlanError(f"{plan.aggregates_of_job[0]} is of a job's own code, which cuts no batches itself")
        if bundle is None:
            return cls(plan, since_ms, until_ms, grace=grace)
        contents = bundle.contents
        if contents.source and plan.branches:
            raise query.PlanError("a job with code of its own has no UNION ALL: its code may unite what it reads")
        if contents.source and query.keyed_stream(plan) is not None:
            raise query.PlanError("a job with code of its own has no KEYED BY: its code takes events where they lie")
        if contents.drives and plan.window_ms is not None:
            raise query.PlanError("a job that drives itself has no WINDOWING: it cuts its batches by cbt.flush")
        if contents.drives and plan.apps:
            raise query.PlanError("a job that drives itself reads streams, not other jobs: ask them by route or ask")
        code = contents.digest() if contents.source else None
        return cls(plan, since_ms, until_ms, code=code, self_paced=contents.drives, grace=grace)

    @property
    def aggregates(self) -> bool:
        return self.plan.kind == "aggregate"

    @cached_property
    def folds(self) -> bool:
        """Whether the job's own code computes some of its aggregates."""
        return bool(self.plan.aggregates_of_job)

    @cached_property
    def operator(self) -> bytes:
        """Identity of its computation, without the feeds: equal in functions that differ only in what they show."""
        return msgspec.msgpack.encode((self.plan.shared_part().to_wire(), self.range))

    @cached_property
    def is_consolidated(self) -> bool:
        """Whether each of its windows is made of several panes once, at its end, and has groups."""
        return self.can_finish and self.layout is not None

    @property
    def can_finish(self) -> bool:
        """Whether its open windows can go on beside another version: they are made of several panes, once at their
        ends, which are known."""
        windowing = self.plan.windowing
        if windowing is None or self.is_of_panes or self.self_paced or self.folds:
            return False
        return windowing.session is None and not windowing.changes

    @property
    def merges_kept(self) -> bool:
        """Whether panes that are kept for open windows may be one, where all of these windows have all or none."""
        return self.can_finish and self.aggregates and not self.grace.amends_ms

    def windows_begin_in(self, after: int, upto: int, open_ms: int) -> bool:
        """Whether a window begins between two of the panes in (after, upto] that ends after a time (epoch ms)."""
        assert self.plan.windowing is not None
        pane_ms = self.plan.windowing.pane_ms
        first, last = (after // pane_ms + 1) * pane_ms, upto // pane_ms * pane_ms
        earliest = ((max(first, open_ms - one.size_ms), one.slide_ms) for one in self.plan.windowing.sizes)
        return any((over // slide_ms + 1) * slide_ms <= last for over, slide_ms in earliest)

    def retention_pane(self, frontier: int) -> int:
        """The newest pane no unpublished window needs once everything up to `frontier` is published."""
        windowing = self.plan.windowing
        if windowing is None or windowing.is_of_panes or frontier in (FIRST_PANE, END):
            return frontier
        ended = closed_ms(frontier, windowing.pane_ms) + 1 - self.grace.amends_ms
        if (session := windowing.session) is not None:
            return min(frontier, ended - session.max_ms - session.gap_ms - 1)
        starts = ((ended - one.size_ms) // one.slide_ms * one.slide_ms + one.slide_ms for one in windowing.sizes)
        return min(frontier, *(start - 1 for start in starts))

    @property
    def window_ms(self) -> int:
        """The length of its longest windows (ms); 0 where they have none."""
        return 0 if self.plan.windowing is None else self.plan.windowing.size_ms

    @property
    def open_windows(self) -> int:
        """The number of windows that a pane is in at most."""
        sizes = () if self.plan.windowing is None else self.plan.windowing.sizes
        return sum(-(-one.size_ms // one.slide_ms) for one in sizes)

    def windows_from(self, pane: int) -> int:
        """The start of the earliest window that holds a pane."""
        assert self.plan.windowing is not None
        sizes = self.plan.windowing.sizes
        return min((pane - one.size_ms) // one.slide_ms * one.slide_ms + one.slide_ms for one in sizes)

    def windows_upto(self, pane: int) -> int:
        """The last pane of the windows that begin with a pane, or before it."""
        assert self.plan.windowing is not None
        windowing = self.plan.windowing
        return max(pane // one.slide_ms * one.slide_ms + one.size_ms for one in windowing.sizes) - windowing.pane_ms

    def settled_pane(self, time_ms: int) -> int:
        """The newest pane whose late events cannot be put into all of their windows any more at a time (epoch ms)."""
        assert self.plan.windowing is not None
        latest_ms, windowing = time_ms - self.grace.amends_ms, self.plan.windowing
        ends = ((latest_ms - one.size_ms) // one.slide_ms * one.slide_ms + one.size_ms for one in windowing.sizes)
        return max(ends) - windowing.pane_ms

    def _stage(self, size_ms: int | None) -> tuple[query.ResultStage, query.OtherStage]:
        """The stages that show windows of a size."""
        if size_ms not in self._stages:
            plan = self.plan if size_ms is None else replace(self.plan, windowing=query.tumbling(size_ms))
            self._stages[size_ms] = (query.ResultStage(plan), query.OtherStage(plan))
        return self._stages[size_ms]

    @cached_property
    def regex_size(self) -> int:
        """The size of its regular expressions, compiled."""
        return query.regex_size(self.plan.to_wire())

    @cached_property
    def texts(self) -> dict[str, str]:
        """The aggregates as people write them, by their names in the plan."""
        return query.aggregate_texts(self.plan)

    @property
    def is_shareable(self) -> bool:
        """Whether its state depends on nothing but the events of its feeds, and all of it is in its runs in time."""
        return self.code is None and not self.plan.reads_rows and not self.grace.amends_ms

    @property
    def layout(self) -> cbt.Layout | None:
        """The layout of its groups, if it groups by anything."""
        layout = self.store_layout
        return layout if layout is not None and layout.keys else None

    @property
    def store_layout(self) -> cbt.Layout | None:
        """The layout of its states, if it aggregates."""
        store = self._empty_store
        return store.layout if isinstance(store, cbt.CompressedBufferTree) else None

    @property
    def difference(self) -> Difference | None:
        """The way in which states of panes are taken off windows again, if that leaves no trace."""
        layout = self.store_layout
        return None if layout is None else Difference.of(layout, self.plan.max_groups)

    @cached_property
    def is_other(self) -> pl.Expr:
        layout = self.layout
        return pl.lit(False) if layout is None else is_other_group(layout)

    @property
    def state_schema(self) -> pl.Schema:
        store = self._empty_store
        return store.layout.schema if isinstance(store, cbt.CompressedBufferTree) else store.schema

    @cached_property
    def sessions(self) -> cbt.SessionLayout | None:
        """The layout of its sessions, if it has any."""
        windowing = self.plan.windowing
        if windowing is None or windowing.session is None:
            return None
        session = windowing.session
        return cbt.SessionLayout(
            [cbt.Key(*key) for key in self._events.keys()],  # noqa: SIM118 - not a dict
            [cbt.Aggregate(*aggregate) for aggregate in self._events.aggregates()],
            gap_ms=session.gap_ms,
            max_ms=session.max_ms,
            pane_ms=windowing.pane_ms,
        )

    def session_rows(self, sessions: pl.DataFrame) -> query.ResultRows:
        """The finished rows of sessions that come together, in order."""
        assert self.sessions is not None
        results, _ = self._stage(None)
        return results.windows(self.sessions.lower(sessions).with_columns(pane=pl.lit(0, dtype=pl.Int64)), [0])[0]

    @property
    def refuses_others(self) -> bool:
        """Whether more groups than it keeps are an error: of all others together there is no session."""
        return self.plan.beyond_groups == "error" or self.sessions is not None

    def new_store(self, room: SpillArea | None = None) -> TreeOrRows:
        """An empty store for the job's open panes, which goes to disk where there is no room for groups in memory.

        Without a room it stays in memory. Raises `cbt.SpillError` where nothing may be written.
        """
        keys = [cbt.Key(*key) for key in self._events.keys()]  # noqa: SIM118 - not a dict
        if self.aggregates:
            aggregates = [cbt.Aggregate(*a) for a in self._events.aggregates()]
            aggregates += [] if self.sessions is None else cbt.SESSION_TIMES
            if room is None:
                return cbt.CompressedBufferTree(keys, aggregates)
            return cbt.CompressedBufferTree(
                keys,
                aggregates,
                memory_limit_bytes=room.memory_bytes,
                spill_directory=room.directory,
                spill_quota=room.quota,
                root_bytes_max=room.root_bytes,
            )
        order = [cbt.Order(*order) for order in self._events.order()]
        assert self.plan.limit is not None
        return cbt.RowBuffer(keys, order, self.plan.limit)

    def in_range(self, events: pl.DataFrame) -> pl.DataFrame:
        """Only events from `since` on and before `until`, with their pane."""
        conditions = []
        _, since_ms, until_ms = self.range
        if since_ms is not None:
            conditions.append(pl.col("@time") >= since_ms)
        if until_ms is not None:
            conditions.append(pl.col("@time") < until_ms)
        events = events.filter(*conditions) if conditions else events
        return events.hstack([cbt.pane_of(events["@time"], self.plan.pane_ms).alias("pane")])

    def columns_of(self, stream: str) -> list[SourceColumn]:
        """The columns to read of the events of a stream, or of the app it reads."""
        columns = self.plan.columns if self._branches is None else self._branches.columns(stream)
        return [SourceColumn(column.name, column.path, column.type) for column in columns]

    def read(self, stream: str, events: pl.DataFrame) -> Iterable[pl.DataFrame]:
        """The events of a stream, with those columns, in the form that the plan takes."""
        return (events,) if self._branches is None else self._branches.apply(stream, events)

    @property
    def is_ready(self) -> bool:
        """Whether it has everything it needs besides events."""
        return self.lookup is None or self.lookup.is_settled

    @property
    def lacks_rows(self) -> bool:
        """Whether the rows it joins events with are not the latest, or not complete."""
        return self.lookup is not None and self.lookup.lacks

    def joined(self, events: pl.DataFrame) -> Iterable[pl.DataFrame]:
        """The events with the rows they are joined with, in one frame or several, which may have `@dropped` then."""
        return (events,) if self.lookup is None else self.lookup.joined(events)

    def can_select(self, events: pl.DataFrame) -> bool:
        """Whether events have the columns it reads; those that are known by their times alone have none."""
        return all(column.name in events.columns for column in self.plan.columns)

    def select(self, events: pl.DataFrame) -> pl.DataFrame:
        """Matching events of `in_range` as keys and arguments (or rows), with their pane, as a store takes them."""
        return self._events.apply(events)

    def combine(self, states: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Merges the states of disjoint contributors, within the limit of groups: some panes after others, where there
        are many rows, as merging takes three times their memory."""
        store = self._empty_store
        if not any(state.height for state in states):
            return self.empty_state
        if isinstance(store, cbt.RowBuffer):
            return store.combine(list(states))
        merged = [self._limited(store.layout.combine(part)) for part in _parts(states)]
        return pl.concat(merged)

    def put_together(self, states: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The states of one window of several owners, which are merged only where one has keys of another. O(n)."""
        layout = self.layout
        whole = pl.concat(states)
        is_apart = layout is not None and not layout.has_items and whole.height <= self.plan.max_groups
        return whole if is_apart and whole["hash"].n_unique() == whole.height else self.combine(states)

    @cached_property
    def empty_state(self) -> pl.DataFrame:
        """The state of no events."""
        return pl.DataFrame(schema=self.state_schema)

    @cached_property
    def empty_state_encoded(self) -> bytes:
        """The encoded state of no events: idle jobs send it often."""
        return cbt.encode_frame(self.empty_state)

    def gather(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Puts the frames of one flush into one state, within the limit of groups."""
        return self._limited(pl.concat(frames)) if frames else self.empty_state

    def _limited(self, state: pl.DataFrame) -> pl.DataFrame:
        layout = self.layout
        return state if layout is None else self._limit.apply(layout, state)

    def is_within_limit(self, state: pl.DataFrame) -> bool:
        """Whether no pane has more groups than may be kept, and OTHER."""
        groups_max = self.plan.max_groups + 1
        layout = self.layout
        if layout is None or state.height <= groups_max:
            return True
        most = layout.main_rows(state)["pane"].value_counts(name="groups")["groups"].max()
        return isinstance(most, int) and most <= groups_max

    def overflow_groups(self, state: pl.DataFrame, size_ms: int | None = None) -> dict[int, OtherGroups]:
        """The groups beyond the limit, by window, where there are any. O(n). `size_ms`: as of `windows`."""
        layout = self.layout
        if layout is None or state.is_empty():
            return {}
        others = state.filter(self.is_other)
        if others.is_empty():
            return {}
        others = layout.combine([others])
        values: dict[int, dict[str, Any]] = {}
        for part in layout.alike(others):
            values |= self._stage(size_ms or self.plan.pane_ms)[1].values(layout.lower(part))
        crowded = state.filter(pl.col("pane").is_in(others["pane"].implode())).partition_by("pane")
        return {frame["pane"][0]: self._described(layout, frame, values[frame["pane"][0]]) for frame in crowded}

    def limited(self, state: pl.DataFrame) -> dict[int, dict[str, int]]:
        """The number of groups where an aggregate of limited size has left something out, by window and by the
        aggregate's name in the plan. O(n).
        """
        store = self._empty_store
        if isinstance(store, cbt.RowBuffer) or state.is_empty():
            return {}
        met: dict[int, dict[str, int]] = {}
        for pane, aggregate, groups in store.layout.limited(state).iter_rows():
            met.setdefault(pane, {})[aggregate] = groups
        return met

    def _described(self, layout: cbt.Layout, frame: pl.DataFrame, values: dict[str, Any]) -> OtherGroups:
        folded = self._limit.folded(layout, frame)
        kept = layout.main_rows(frame).select((~is_other_group(layout)).sum()).item()
        return OtherGroups(kept, folded.groups, folded.error, values)

    def rows(self, state: pl.DataFrame) -> list[dict[str, Any]]:
        """All groups of a state of one pane, as the query shows them."""
        every = JobFunction(replace(self.plan, having=None, order=(), limit=None)) if self.aggregates else self
        shown = every.windows(state, state["pane"].unique().to_list())
        return [dict(row) for rows in shown.values() for row in rows]

    def finish_windows(
        self, state: pl.DataFrame, panes: Collection[int], size_ms: int | None = None, work: WorkMeter | None = None
    ) -> dict[int, WindowRows]:
        """The rows of each of the windows, and of the query over them, if there is one; `state` is of no other windows.

        `size_ms`: their length, None: a pane. `work`: notes the time of rows that are made later, once they are read.
        """
        limited, found = self.limited(state), dict[int, WindowRows]()
        late = self._late_rows(state, panes, size_ms, work) if self.shows_all and state.height and not limited else {}
        for pane, rows in (late or self.windows(state, panes, size_ms)).items():
            met = limited.get(pane, {})
            taken = 0 if self.aggregates else len(rows)
            error = query.relative_error(self.plan, met)
            own = WindowRows(rows, {self.texts[name]: groups for name, groups in met.items()}, error, taken)
            found[pane] = own if self._outer is None else self._outer._over(own, pane, size_ms, self._nested)
        return found

    @property
    def shows_all(self) -> bool:
        """Whether its rows are all groups of a window, and none is left out."""
        is_plain = self.aggregates and self.sessions is None and not self.folds
        return is_plain and self.plan.having is None and self.plan.limit is None

    @cached_property
    def _nested(self) -> NestedStates | None:
        """The way from its states to those of the query over its rows, if there is one."""
        return None if self._outer is None else NestedStates.between(self._outer, self)

    def _late_rows(
        self, state: pl.DataFrame, panes: Collection[int], size_ms: int | None, work: WorkMeter | None
    ) -> dict[int, query.ResultRows]:
        """The rows of windows, to be made all at once when some are read; of no window where they are not those of the
        state alone: there is OTHER, a row of no events, or an aggregate whose results depend on those beside it."""
        layout = self.layout
        if layout is None or not layout.is_whole(state) or state.select(self.is_other.any()).item():
            return {}
        results, _ = self._stage(size_ms or self.plan.pane_ms)

        def shown() -> pl.DataFrame:
            begun_s = 0.0 if work is None else work.clock()
            frame = results.shown(layout.lower(state))
            if work is not None:
                work.note(Work.SHOW, 0, 0, work.clock() - begun_s)
            return frame

        table, start = results.table(shown), 0
        windows: dict[int, query.ResultRows] = {pane: query.ResultRows(table, 0, 0) for pane in panes}
        counted = layout.main_rows(state)["pane"].value_counts(name="rows").sort("pane")
        for pane, length in counted.iter_rows():
            windows[pane] = StateRows(table, start, length, self, state, None if counted.height == 1 else pane)
            start += length
        return windows

    def pruned(self, state: pl.DataFrame, size_ms: int, owners: int, shared: pl.Series | None = None) -> pl.DataFrame:
        """A window's state with the groups alone that may be shown; all of it where more depends on them: OTHER, limits
        of aggregates, a job's own code, and the rounding of numbers. `owners`: the number of those who have groups of
        the window. `shared`: the rows of groups of which others have rows as well, which stay. O(n log n)."""
        layout = self.layout
        results, _ = self._stage(size_ms)
        if layout is None or self.folds or not results.chooses or state.height * owners > self.plan.max_groups:
            return state
        if state.select(self.is_other.any()).item() or self.limited(state) or not layout.is_whole(state):
            return state
        alone = state if shared is None else state.filter(~shared)
        lowered = layout.lower(alone)
        if any(_is_beyond_doubles(lowered[one.name]) for one in self.plan.aggregates):
            return state
        chosen = alone.filter(layout.rows_of_groups(alone, results.chosen(lowered)))
        return chosen if shared is None else pl.concat([chosen, state.filter(shared)])

    def finish_sessions(self, sessions: pl.DataFrame) -> WindowRows:
        """The rows of sessions that come together."""
        return WindowRows(self.session_rows(sessions), {}, query.relative_error(self.plan, {}), 0)

    def _over(self, below: WindowRows, pane: int, size_ms: int | None, nested: NestedStates | None) -> WindowRows:
        """Computes a query over the rows of its sub-query, as events, or over their state if that will do
        (Enorm, figure 5.3). O(rows · columns)."""
        if nested is not None and isinstance(below.rows, StateRows):
            taken = nested.taken(below.rows, pane)
            if taken is not None:
                return self.finish_windows(self.gather([taken.frame]), [pane], size_ms)[pane].below(below)
        columns = self.columns_of(self.plan.stream)
        values = {column.field: list(below.rows.column(column.field)) for column in columns}
        store = self.new_store()
        for events in parsed_rows([pane] * len(below.rows), columns, values).frames:
            store.insert(self._events.apply(events).with_columns(pane=pl.lit(pane, dtype=pl.Int64)))
        return self.finish_windows(self.gather(list(store.flush())), [pane], size_ms)[pane].below(below)

    def windows(
        self, state: pl.DataFrame, panes: Collection[int], size_ms: int | None = None
    ) -> dict[int, query.ResultRows]:
        """The finished rows of each of the windows, in order, without OTHER; `state` holds rows of no others."""
        store = self._empty_store
        if not panes:
            return {}
        results, _ = self._stage(size_ms or self.plan.pane_ms)
        if isinstance(store, cbt.RowBuffer):
            return results.windows(state, panes)
        layout = store.layout
        others = state.select(self.is_other).to_series()
        state = state.filter(~others) if others.any() else state
        windows: dict[int, query.ResultRows] = {}
        for part in layout.alike(state):
            windows |= results.windows(layout.lower(part), part["pane"].unique())
        absent = [pane for pane in panes if pane not in windows]
        return windows | results.windows(layout.lower(layout.empty()), absent) if absent else windows


EXACT_MAX = 1 << 53
"""Upper bound on whole numbers that doubles tell apart."""


def _is_beyond_doubles(numbers: pl.Series) -> bool:
    """Whether some of them would be rounded beside fractions."""
    if not numbers.dtype.is_integer():
        return False
    least, most = numbers.min(), numbers.max()
    return any(isinstance(one, int) and abs(one) > EXACT_MAX for one in (least, most))


def _parts(states: Sequence[pl.DataFrame]) -> Iterator[list[pl.DataFrame]]:
    """The states cut into stretches of panes, in order, with about `MERGED_ROWS` rows in each. O(rows · stretches)."""
    if sum(state.height for state in states) <= MERGED_ROWS:
        yield list(states)
        return
    counted = pl.concat([state["pane"] for state in states]).value_counts(name="rows").sort("pane")
    stretches = counted.group_by(counted["rows"].cum_sum() // MERGED_ROWS, maintain_order=True)
    for _, stretch in stretches:
        within = pl.col("pane").is_between(stretch["pane"][0], stretch["pane"][-1])
        yield [state.filter(within) for state in states]
