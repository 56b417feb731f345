"""Aggregates over windows: groups are counted by pane in a compressed buffer tree, and windows put together from panes
when the watermark passes their end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

import cbt
import query
from agent.programs.element_graph import Element, EventType
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.spill import SpillArea
from agent.runtime.keyed.elements.outputs import output_fields, plan_of, with_text_keys
from agent.runtime.keyed.elements.read_columns import ReadColumns
from agent.runtime.keyed.elements.running import fields_of
from agent.runtime.keyed.elements.runtime import DTYPES, EVENT_TIME, NODE, Compact, Emitted, Tables
from agent.runtime.keyed.elements.slots import GONE
from agent.runtime.keyed.logical_nodes import NODES, nodes_of

STATES, ENDS = "states", "ends"
"""The tables: states by pane and key, and up to where the windows of each logical node have been emitted."""
COMPLETE, PANE = "@complete", "@pane"
_NEVER, _ALWAYS = -(2**62), 2**62
_PENDING_ROWS = 1 << 19
_INSERTED_ROWS = 1 << 15
_DROPPED_MAX = 128
"""Logical nodes whose groups are left in the tree after they were dropped: it is written anew for many at once."""


class Windows:
    """The shape of an aggregate's windows, and of the states of its groups."""

    def __init__(self, element: Element) -> None:
        # All groups of a host are kept: they go to disk where memory is short.
        self.function = JobFunction(replace(with_text_keys(plan_of(element)), max_groups=query.GROUPS_MAX))
        windowing = self.function.plan.windowing
        assert windowing is not None
        self.pane_ms, (self.size,) = windowing.pane_ms, windowing.sizes
        self._tree = self.function.new_store()
        assert isinstance(self._tree, cbt.CompressedBufferTree)
        self.layout = self._tree.layout
        self._keys = [(key.name, DTYPES[key.type]) for key in self.function.plan.keys]
        self.schema = pl.Schema({NODE: pl.UInt16(), GONE: pl.Boolean(), **self.layout.schema})

    def ends(self, panes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The end of the last window that each pane is in."""
        return panes // self.size.slide_ms * self.size.slide_ms + self.size.size_ms

    def first_needed(self, complete_ms: int) -> int:
        """The first pane that is in a window which ends after a time."""
        return ((complete_ms - self.size.size_ms) // self.size.slide_ms + 1) * self.size.slide_ms

    def nodes(self, states: pl.DataFrame, constant: int) -> pl.Series:
        """The logical node of each row of states."""
        if not self._keys:
            return pl.repeat(constant, states.height, dtype=pl.UInt16, eager=True).alias(NODE)
        return nodes_of([states[name].cast(dtype) for name, dtype in self._keys])

    def compact(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Adds up the states of a whole and of later changes, without panes that are out."""
        frame = pl.concat(frames)
        out = frame.filter(pl.col(GONE)).group_by(NODE).agg(pl.col("pane").max().alias("out"))
        kept = frame.filter(~pl.col(GONE)).join(out, on=NODE, how="left", maintain_order="left")
        kept = kept.filter(pl.col("out").is_null() | (pl.col("pane") >= pl.col("out")))
        constant = int(kept[NODE][0]) if kept.height else 0
        return self.tables(self.layout.combine([kept.select(self.layout.schema.names())]), constant)

    def tables(self, states: pl.DataFrame, constant: int) -> pl.DataFrame:
        """States as rows of the table."""
        return states.with_columns(self.nodes(states, constant), pl.lit(value=False).alias(GONE)).select(
            self.schema.names()
        )


def compact_windows(element: Element) -> Compact:
    """Puts the frames of a table of a windowed aggregate into one."""
    windows = Windows(element)

    def compact(table: str, frames: list[pl.DataFrame]) -> pl.DataFrame:
        if table == ENDS:
            return pl.concat(frames).unique(NODE, keep="last", maintain_order=True)
        return windows.compact(frames)

    return compact


def shown_panes(element: Element, tables: Tables) -> Tables:
    """The tables of a windowed aggregate as people read them: the results of each key by pane, under the names of the
    key's fields."""
    windows, states = Windows(element), tables[STATES].filter(~pl.col(GONE))
    results = windows.layout.lower(states.select(windows.layout.schema.names()))
    names = {"pane": PANE, **windows.function.texts}
    names |= {key.name: str(getattr(key.expression, "name", key.name)) for key in windows.function.plan.keys}
    keys = [pl.col(key.name).cast(DTYPES[key.type]) for key in windows.function.plan.keys]
    wide = [name for name, dtype in results.schema.items() if dtype == pl.Int128]
    results = (
        results.with_columns(*keys, pl.col(wide).cast(pl.Int64, strict=False)) if wide else results.with_columns(keys)
    )
    return {STATES: results.rename(names).with_columns(states[NODE])}


class WindowedAggregate:
    """Has the interface of `ElementRuntime`. Events whose windows are all over are `late`: counted, and left out.

    Each logical node has been emitted up to a time of its own, as it may come from a host that is ahead or behind.
    """

    def __init__(
        self, element: Element, types: Mapping[str, EventType], room: SpillArea | None, *, tracks: bool
    ) -> None:
        self._windows = Windows(element)
        self._output = element.output
        fields = output_fields(element, types)
        self._bounds = [name for name, _ in fields[-2:]]
        self._fields = [(name, DTYPES[type_]) for name, type_ in fields[:-2]]
        self._key = list(element.inputs[0].key or [])
        plan = self._windows.function.plan
        self._events = query.EventStage(plan)
        self._columns = ReadColumns(plan_of(element), plan, types[element.inputs[0].type])
        self._store = GroupStore(self._windows, room)
        self._tracks = tracks
        self._pending: list[pl.DataFrame] = []
        self._pending_rows = 0
        self._increments: list[pl.DataFrame] = []
        self._gone: dict[int, int] = {}
        self._complete = np.full(NODES, _NEVER, np.int64)
        self._known = np.zeros(NODES, np.bool_)
        self._moved = np.zeros(NODES, np.bool_)
        self._dropped = np.zeros(NODES, np.bool_)
        """The nodes that are elsewhere, and of which groups may be left in the tree."""
        self._constant = 0
        self._consolidator: cbt.Consolidator | None = None
        self._over = _NEVER
        """The end of the last window that was emitted here."""
        self._at = _NEVER
        """The panes before this time are in the consolidator, if there is one."""
        self.late = self.dropped = self.evicted = 0

    def process(self, type_: str, rows: pl.DataFrame, done: Callable[[list[Emitted]], None]) -> None:  # noqa: ARG002
        panes = rows[EVENT_TIME].to_numpy() // self._windows.pane_ms * self._windows.pane_ms
        nodes = rows[NODE].to_numpy()
        late = self._windows.ends(panes) <= self._complete[nodes]
        events = rows.hstack([pl.Series("pane", panes)])
        if late.any():
            self.late += int(late.sum())
            events = events.filter(pl.Series(~late))
        if events.height:
            self._meet(events[NODE].to_numpy())
            for frame in self._columns.frames(events):
                selected = self._events.apply(frame)
                self._store.insert(selected)
                self._note(selected)
                self._spoil(self._store.add_panes(selected["pane"]))
        done([])

    def advance(self, watermark_ms: int, done: Callable[[list[Emitted]], None]) -> None:
        size = self._windows.size
        newest = min(max(watermark_ms, _NEVER), _ALWAYS) // self._windows.pane_ms * self._windows.pane_ms
        # The end of the last window that is over.
        over = (newest - size.size_ms) // size.slide_ms * size.slide_ms + size.size_ms
        lowest = int(self._complete.min())
        emitted = []
        if over > lowest:
            if self._consolidator is None or lowest < self._over:
                sizes = [cbt.WindowSize(size.size_ms, size.slide_ms)]
                self._consolidator, self._at = cbt.Consolidator(self._windows.layout, sizes), _NEVER
            for window in self._finished(self._consolidator, newest):
                if window.end_ms > lowest:
                    emitted += self._emission(window)
            self._moved |= self._known & (self._complete < over)
            np.maximum(self._complete, over, out=self._complete)
            self._over = over
            self._forget(self._windows.first_needed(int(self._complete.min())))
        done(emitted)

    def take_changes(self, done: Callable[[Tables], None]) -> None:
        if not self._tracks:
            done({})
            return
        self._lift()
        windows, increments = self._windows, self._increments
        states = windows.layout.combine(increments) if increments else windows.layout.empty()
        gone = pl.DataFrame(
            {NODE: list(self._gone), "pane": list(self._gone.values())}, {NODE: pl.UInt16, "pane": pl.Int64}
        ).with_columns(pl.lit(value=True).alias(GONE))
        empty = pl.DataFrame(schema=windows.schema)
        frame = pl.concat([empty, gone, self._here(windows.tables(states, self._constant))], how="diagonal")
        moved = np.flatnonzero(self._moved)
        self._increments, self._gone = [], {}
        self._moved[:] = False
        done({STATES: frame, ENDS: self._ends(moved)})

    def states(self, nodes: Collection[int], done: Callable[[Tables], None]) -> None:
        wanted = [node for node in nodes if not self._dropped[node]]
        is_wanted = np.zeros(NODES, np.bool_)
        is_wanted[wanted] = True
        chosen = []
        for frame in self._store.flush():
            own = is_wanted[self._windows.nodes(frame, self._constant).to_numpy()]
            if own.any():
                chosen.append(self._windows.tables(frame.filter(pl.Series(own)), self._constant))
        known = np.flatnonzero(self._known & is_wanted)
        done({STATES: pl.concat([pl.DataFrame(schema=self._windows.schema), *chosen]), ENDS: self._ends(known)})

    def put(self, tables: Tables) -> None:
        if STATES in tables:
            states = tables[STATES].filter(~pl.col(GONE))
            if states.height:
                self._return(states[NODE].to_numpy())
                self._known[states[NODE].to_numpy()] = True
                self._constant = int(states[NODE][0])
                self._store.merge(states.select(self._windows.layout.schema.names()))
                self._spoil(self._store.add_panes(states["pane"]))
        if ENDS in tables:
            nodes = tables[ENDS][NODE].to_numpy()
            self._return(nodes)
            self._known[nodes] = True
            self._complete[nodes] = tables[ENDS][COMPLETE].to_numpy()
        if STATES in tables:
            self._cut(tables[STATES].filter(pl.col(GONE)))

    def drop(self, nodes: Collection[int]) -> None:
        dropped = list(nodes)
        self._dropped[dropped] |= self._known[dropped]
        if self._dropped.sum() > _DROPPED_MAX:
            self._purge()
        self._known[dropped] = self._moved[dropped] = False
        self._complete[dropped] = self._over
        self._gone = {node: pane for node, pane in self._gone.items() if node not in set(dropped)}

    def evict(self, bytes_max: int, watermark_ms: int) -> int:  # noqa: ARG002 - panes go when no window needs them
        before = self.evicted
        if self.memory_bytes > bytes_max and self._dropped.any():
            self._purge()
        while self.memory_bytes > bytes_max and self._store.panes:
            oldest = min(self._store.panes)
            self.evicted += sum(frame.height for frame in self._store.flush(oldest))
            self._forget(oldest + self._windows.pane_ms)
            self._consolidator = None
        return self.evicted - before

    @property
    def coerced(self) -> int:
        """Number of values that were not of the type that the aggregate reads."""
        return self._columns.coerced

    @property
    def memory_bytes(self) -> int:
        """Bytes of the states in memory: of panes, of open windows, and of what has changed."""
        changed = sum(int(frame.estimated_size()) for frame in (*self._pending, *self._increments))
        return (
            self._store.memory_bytes + changed + (0 if self._consolidator is None else self._consolidator.memory_bytes)
        )

    @property
    def elements(self) -> int:
        """Number of groups of all panes."""
        return self._store.groups

    def _finished(self, consolidator: cbt.Consolidator, newest: int) -> Iterator[cbt.CompleteWindow]:
        """The windows that panes before a time complete."""
        for pane in sorted(self._store.panes):
            if self._at <= pane < newest:
                frames = list(self._store.flush(pane))
                if frames:
                    yield from consolidator.add(pane, pl.concat(frames))
        yield from consolidator.advance(newest)
        self._at = newest

    def _emission(self, window: cbt.CompleteWindow) -> list[Emitted]:
        """The rows of a window, of the logical nodes that have not emitted it."""
        shown = self._windows.function.windows(window.frame, [window.start_ms], window.size.size_ms)
        fields = pl.DataFrame(fields_of(shown[window.start_ms].frame, self._fields))
        keys = fields.get_columns()[: len(self._key)]
        constant = pl.repeat(self._constant, fields.height, dtype=pl.UInt16, eager=True).alias(NODE)
        nodes = nodes_of(keys) if keys else constant
        bounds = zip(self._bounds, (window.start_ms, window.end_ms), strict=True)
        rows = fields.select(
            pl.lit(window.end_ms - 1, dtype=pl.Int64).alias(EVENT_TIME),
            nodes,
            *(name for name, _ in self._fields),
            *(pl.lit(time, dtype=pl.Int64).alias(name) for name, time in bounds),
        )
        due = (self._complete[nodes.to_numpy()] < window.end_ms) & ~self._dropped[nodes.to_numpy()]
        rows = rows if due.all() else rows.filter(pl.Series(due))
        return [Emitted(self._output, rows)] if rows.height else []

    def _here(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of nodes that have not been dropped."""
        return rows.filter(pl.Series(~self._dropped[rows[NODE].to_numpy()])) if self._dropped.any() else rows

    def _return(self, nodes: npt.NDArray[np.uint16]) -> None:
        """Removes what is left of nodes that come back."""
        if self._dropped[nodes].any():
            self._purge()

    def _purge(self) -> None:
        """Removes what is left of nodes that were dropped. O(groups)."""
        self._keep(lambda _, nodes: ~self._dropped[nodes])
        self._dropped[:] = False

    def _meet(self, nodes: npt.NDArray[np.uint16]) -> None:
        """Notes that logical nodes have groups here."""
        self._return(nodes)
        self._constant = int(nodes[0])
        met = np.zeros(NODES, np.bool_)
        met[nodes] = True
        self._moved |= met & ~self._known
        self._known |= met

    def _spoil(self, oldest: int) -> None:
        """Puts windows together anew where a pane has changed that is in them."""
        if oldest < self._at:
            self._consolidator = None

    def _note(self, selected: pl.DataFrame) -> None:
        if self._tracks:
            self._pending.append(selected)
            self._pending_rows += selected.height
            if self._pending_rows >= _PENDING_ROWS:
                self._lift()

    def _lift(self) -> None:
        """Makes states of the events that are in no increment yet."""
        if self._pending:
            self._increments.append(self._windows.layout.lift(pl.concat(self._pending, how="vertical_relaxed")))
            self._pending, self._pending_rows = [], 0

    def _forget(self, first: int) -> None:
        """Drops the panes before one."""
        if self._store.forget(first) and self._tracks:
            self._gone |= dict.fromkeys(np.flatnonzero(self._known).tolist(), first)

    def _cut(self, gone: pl.DataFrame) -> None:
        """Drops panes of logical nodes that were dropped elsewhere although windows need them."""
        needed = np.array([self._windows.first_needed(int(self._complete[node])) for node in gone[NODE]], np.int64)
        gone = gone.filter(pl.Series(gone["pane"].to_numpy() > needed)) if gone.height else gone
        if gone.height:
            out = np.full(NODES, _NEVER, np.int64)
            out[gone[NODE].to_numpy()] = gone["pane"].to_numpy()
            self._keep(lambda states, nodes: states["pane"].to_numpy() >= out[nodes])

    def _keep(self, chosen: Callable[[pl.DataFrame, npt.NDArray[np.uint16]], npt.NDArray[np.bool_]]) -> None:
        """Keeps the chosen groups. O(groups)."""

        def kept(frame: pl.DataFrame) -> pl.DataFrame:
            nodes = self._windows.nodes(frame, self._constant).to_numpy()
            return frame.filter(pl.Series(chosen(frame, nodes)))

        self._lift()
        self._store.replace([kept(frame) for frame in self._store.flush()])
        self._increments = [kept(frame) for frame in self._increments]
        self._consolidator = None

    def _ends(self, nodes: npt.NDArray[np.intp]) -> pl.DataFrame:
        return pl.DataFrame([pl.Series(NODE, nodes.astype(np.uint16)), pl.Series(COMPLETE, self._complete[nodes])])


class GroupStore:
    """The groups of all panes that windows need, in a tree that goes to disk where memory is short."""

    def __init__(self, windows: Windows, room: SpillArea | None) -> None:
        self.panes: set[int] = set()
        self._function = windows.function
        self._room = room
        self._tree = self._made()
        self._batches: list[pl.DataFrame] = []
        self._rows = 0

    def _made(self) -> cbt.CompressedBufferTree:
        store = None
        if self._room is not None:
            try:
                store = self._function.new_store(self._room)
            except cbt.SpillError as error:
                self._room.could_not_write(error)
        store = store or self._function.new_store()
        assert isinstance(store, cbt.CompressedBufferTree)
        return store

    def add_panes(self, panes: pl.Series) -> int:
        """Notes panes that have groups; returns the oldest."""
        found = np.unique(panes.to_numpy())
        self.panes.update(found.tolist())
        return int(found[0]) if len(found) else _ALWAYS

    def insert(self, selected: pl.DataFrame) -> None:
        """Takes selected events, whether the disk takes its part or not; a few batches go to the tree together."""
        self._batches.append(selected)
        self._rows += selected.height
        if self._rows >= _INSERTED_ROWS:
            self._drain()

    def _drain(self) -> None:
        if not self._batches:
            return
        selected = pl.concat(self._batches, how="vertical_relaxed")
        self._batches, self._rows = [], 0
        try:
            self._tree.insert(selected)
        except cbt.SpillError as error:
            assert self._room is not None
            self._room.could_not_write(error)

    def merge(self, states: pl.DataFrame) -> None:
        """Takes states of groups, as `insert` does."""
        try:
            self._tree.merge(states)
        except cbt.SpillError as error:
            assert self._room is not None
            self._room.could_not_write(error)

    def flush(self, pane: int | None = None) -> Iterator[pl.DataFrame]:
        """Yields the states of all panes, or of one; what cannot be read is missing."""
        self._drain()
        try:
            yield from self._tree.flush(pane)
        except cbt.SpillError as error:
            assert self._room is not None
            self._room.could_not_read(error)

    def replace(self, frames: Sequence[pl.DataFrame]) -> None:
        """Takes states in place of all that are here."""
        self._batches, self._rows = [], 0
        self._tree.close()
        self._tree, self.panes = self._made(), set()
        for frame in frames:
            self.merge(frame)
            self.add_panes(frame["pane"])

    def forget(self, first: int) -> bool:
        """Drops the panes before one; returns whether there were any."""
        old = {pane for pane in self.panes if pane < first}
        if old:
            self._drain()
            self._tree.empty(upto=max(old))
            self.panes -= old
        return bool(old)

    @property
    def memory_bytes(self) -> int:
        return self._tree.memory_bytes + sum(int(batch.estimated_size()) for batch in self._batches)

    @property
    def groups(self) -> int:
        """Number of groups, of which some may be in it several times."""
        statistics = self._tree.statistics()
        return statistics.buffered_rows + statistics.stored_rows + self._rows
