"""Joins two types of events by key, where their times are close: a row for each left event, or one for each pair.

An event's order among others is that of its arrival. What a batch brings is told in the order of the batch, so that it
does not matter how events are cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

import numpy as np
import polars as pl

from agent.programs.element_graph import Element, EventType
from agent.runtime.keyed.elements.event_store import EventStore, Firsts, Keys
from agent.runtime.keyed.elements.outputs import join_keys, output_fields
from agent.runtime.keyed.elements.runtime import DTYPES, EVENT_TIME, NODE, Emitted, Tables
from agent.runtime.keyed.elements.slots import GONE, Rows, Values
from agent.runtime.keyed.logical_nodes import NODES

LEFT, RIGHT, MATCHED = "left", "right", "matched"
"""The tables: the events of both sides, and the left ones that have been matched."""
ID = "@id"
PAIRS_MAX, PART_ROWS = 1 << 24, 1 << 14
"""Upper bound on the pairs that so many events of a batch make; what is beyond it is dropped, and counted."""
_NEVER, _ALWAYS = -(2**62), 2**62


def compact_join(_table: str, frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Puts the frames of a table of a join into one, without events that are gone: by number, or all before a time."""
    frame = pl.concat(frames)
    gone = frame.filter(pl.col(GONE))
    before = gone.filter(pl.col(ID).is_null()).group_by(NODE).agg(pl.col(EVENT_TIME).max().alias("before"))
    kept = frame.filter(~pl.col(GONE)).join(before, on=NODE, how="left", maintain_order="left")
    kept = kept.filter(pl.col("before").is_null() | (pl.col(EVENT_TIME) >= pl.col("before"))).drop("before")
    return kept.join(gone.filter(pl.col(ID).is_not_null()), on=[NODE, ID], how="anti", maintain_order="left")


class JoinRuntime:
    """Has the interface of `ElementRuntime`.

    In mode `first` a left event is emitted with 1 at its first match, or with 0 when the watermark has passed all that
    could match it. In mode `all` each pair is emitted, and where the join is `outer` a left event without any then.
    Events that nothing can wait for any more are `late`: counted, and left out.

    `ordered`: all is emitted when the watermark has passed what could match a left event, in the order of time, logical
    node and arrival. Then it does not matter either which type comes first.
    """

    def __init__(self, element: Element, types: Mapping[str, EventType], *, tracks: bool, ordered: bool) -> None:
        options = element.options
        self._output = element.output
        self._left, self._right = types[options["left"]], types[options["right"]]
        self._within_ms = int(options["within_ms"])
        self._is_first = options.get("mode", "first") == "first"
        self._is_outer = bool(options.get("outer"))
        self._fields = output_fields(element, types)
        self._names = dict(zip((LEFT, RIGHT), join_keys(element), strict=True))
        self._schemas = {LEFT: schema_of(self._left), RIGHT: schema_of(self._right)}
        self._stores = {side: EventStore(self._schemas[side], self._names[side]) for side in (LEFT, RIGHT)}
        self._tracks, self._ordered = tracks, ordered
        self._new: dict[str, list[pl.DataFrame]] = {LEFT: [], RIGHT: [], MATCHED: []}
        self._matches: list[tuple[Values, ...]] = []
        self._expired: dict[str, set[int]] = {LEFT: set(), RIGHT: set()}
        self._before = _NEVER
        """Left events before this time are gone, and late if they come."""
        self._is_behind = False
        self.late = self.dropped = self.evicted = 0

    def process(self, type_: str, rows: pl.DataFrame, done: Callable[[list[Emitted]], None]) -> None:
        side = LEFT if type_ == self._left.name else RIGHT
        times = rows[EVENT_TIME].to_numpy()
        if rows.height and times.min() < self._bound(side):
            late = times < self._bound(side)
            self.late += int(late.sum())
            rows = rows.filter(pl.Series(~late))
        if not rows.height:
            done([])
            return
        times = np.clip(rows[EVENT_TIME].to_numpy(), _NEVER, _ALWAYS)
        keys = Keys.of(rows, self._names[side])
        if self._ordered:
            self._append(side, rows, keys)
            done([])
            return
        # Whether events that are gone are still in the store does not matter.
        reach = keys, np.maximum(times - self._within_ms, self._before), times + self._within_ms
        emitted = self._flag(side, rows, times, *reach) if self._is_first else self._pair(side, rows, *reach)
        done([Emitted(self._output, emitted)] if emitted.height else [])

    def advance(self, watermark_ms: int, done: Callable[[list[Emitted]], None]) -> None:
        before = min(max(watermark_ms, _NEVER), _ALWAYS) - self._within_ms
        if before <= self._before and not self._is_behind:
            done([])
            return
        self._before, self._is_behind = max(before, self._before), False
        emitted = self._expire(LEFT)
        self._expire(RIGHT)
        done([Emitted(self._output, emitted)] if emitted.height else [])

    def take_changes(self, done: Callable[[Tables], None]) -> None:
        if not self._tracks:
            done({})
            return
        self._tell_matches()
        tables = {}
        for table, new in self._new.items():
            side = RIGHT if table == RIGHT else LEFT
            nodes = sorted(self._expired[side])
            gone = pl.DataFrame({NODE: nodes}, {NODE: pl.UInt16}).with_columns(
                pl.lit(value=True).alias(GONE), pl.lit(self._bound(side), dtype=pl.Int64).alias(EVENT_TIME)
            )
            tables[table] = pl.concat([self._empty(table), *new, gone], how="diagonal")
        self._new = {table: [] for table in self._new}
        self._expired = {LEFT: set(), RIGHT: set()}
        done(tables)

    def states(self, nodes: Collection[int], done: Callable[[Tables], None]) -> None:
        tables = {}
        for side, store in self._stores.items():
            chosen = np.isin(store.array("node"), list(nodes)) & store.array("is live")
            tables[side] = self._table(side, np.flatnonzero(chosen))
            if side == LEFT:
                tables[MATCHED] = self._marks(np.flatnonzero(chosen & store.array("is matched")))
        done(tables)

    def put(self, tables: Tables) -> None:
        for side, store in self._stores.items():
            if side not in tables:
                continue
            frame = tables[side].filter(~pl.col(GONE))
            rows = frame.select(self._schemas[side].names())
            store.append(rows, Keys.of(rows, self._names[side]), frame[ID].to_numpy())
            self._take_out(store, tables[side].filter(pl.col(GONE)))
        if MATCHED in tables:
            marks = tables[MATCHED].filter(~pl.col(GONE))
            places = places_of(self._stores[LEFT], marks)
            if self._is_first:
                self._stores[LEFT].remove(places)
            else:
                self._stores[LEFT].match(places)
        self._is_behind = True

    def drop(self, nodes: Collection[int]) -> None:
        self._tell_matches()
        dropped = list(nodes)
        for store in self._stores.values():
            store.keep(np.isin(store.array("node"), dropped, invert=True))
        for table, new in self._new.items():
            self._new[table] = [frame.filter(~pl.col(NODE).is_in(dropped)) for frame in new]
        for expired in self._expired.values():
            expired.difference_update(dropped)

    def evict(self, bytes_max: int, watermark_ms: int) -> int:  # noqa: ARG002 - events live for a time of their own
        evicted = 0
        while self.memory_bytes > bytes_max and (held := self.elements):
            share = min(1.0, 1.1 - bytes_max / max(self.memory_bytes, 1))
            for side, store in self._stores.items():
                places = store.oldest(min(store.live, max(1, int(store.live * share))))
                if self._tracks:
                    gone = self._table(side, places).with_columns(pl.lit(value=True).alias(GONE))
                    self._new[side].append(gone.select(NODE, ID, GONE))
                store.remove(places)
                store.keep(store.array("is live").copy())
            evicted += held - self.elements
        self.evicted += evicted
        return evicted

    @property
    def memory_bytes(self) -> int:
        return sum(store.memory_bytes for store in self._stores.values())

    @property
    def elements(self) -> int:
        """Number of events that wait."""
        return sum(store.live for store in self._stores.values())

    def _bound(self, side: str) -> int:
        """The time before which events of a side are gone."""
        return self._before - self._within_ms if self._ordered and side == RIGHT else self._before

    def _flag(
        self, side: str, rows: pl.DataFrame, times: Values, keys: Keys, earliest: Values, latest: Values
    ) -> pl.DataFrame:
        left = self._stores[LEFT]
        if side == LEFT:
            matched = self._stores[RIGHT].has_any(keys, earliest, latest)
            alone, met = np.flatnonzero(~matched), np.flatnonzero(matched)
            self._append(LEFT, rows[alone.astype(np.uint32)], keys.at(alone))
            return self._flagged(rows[met.astype(np.uint32)], 1)
        self._append(RIGHT, rows, keys)
        places = left.reached(keys, earliest, latest)
        if not len(places):
            return pl.DataFrame()
        theirs, own_times = left.keys_at(places), left.array("time")[places]
        first = Firsts(keys, times).of(theirs, own_times - self._within_ms, own_times + self._within_ms)
        places = places[np.lexsort((places, first))]
        flagged = self._flagged(left.rows(places), 1)
        self._mark(places)
        left.remove(places)
        return flagged

    def _pair(self, side: str, rows: pl.DataFrame, keys: Keys, earliest: Values, latest: Values) -> pl.DataFrame:
        own, others = self._append(side, rows, keys), self._stores[RIGHT if side == LEFT else LEFT]
        row, place = self._pairs(others, keys, earliest, latest)
        if not len(row):
            return pl.DataFrame()
        if self._is_outer:
            matched = own[row] if side == LEFT else place
            self._mark(self._stores[LEFT].match(matched))
        ours, theirs = rows[row.astype(np.uint32)], others.rows(place)
        return self._paired(ours, theirs) if side == LEFT else self._paired(theirs, ours)

    def _pairs(self, others: EventStore, keys: Keys, earliest: Values, latest: Values) -> tuple[Rows, Rows]:
        """The rows and places that go together. A batch with too many of them is taken in parts."""
        row, place, more = others.pairs(keys, earliest, latest, PAIRS_MAX)
        if not more or len(earliest) <= PART_ROWS:
            self.dropped += more
            return row, place
        rows, places = [], []
        for start in range(0, len(earliest), PART_ROWS):
            part = np.arange(start, min(start + PART_ROWS, len(earliest)))
            row, place, more = others.pairs(keys.at(part), earliest[part], latest[part], PAIRS_MAX)
            self.dropped += more
            rows.append(row + start)
            places.append(place)
        return np.concatenate(rows), np.concatenate(places)

    def _append(self, side: str, rows: pl.DataFrame, keys: Keys) -> Rows:
        events = rows[:, self._schemas[side].names()]
        places = self._stores[side].append(events, keys)
        if self._tracks and rows.height:
            self._new[side].append(self._numbered(side, events, places))
        return places

    def _mark(self, places: Rows) -> None:
        if self._tracks and len(places):
            self._matches.append(self._match_of(places))

    def _expire(self, side: str) -> pl.DataFrame:
        """Removes the events that nothing can match any more; returns what is emitted for them."""
        store = self._stores[side]
        places = store.earliest_live(self._bound(side))
        if not len(places):
            return pl.DataFrame()
        if self._tracks:
            self._expired[side].update(np.unique(store.array("node")[places]).tolist())
        emitted = pl.DataFrame()
        if side == LEFT and self._ordered:
            emitted = self._met(places)
        elif side == LEFT and self._is_first:
            emitted = self._flagged(store.rows(places), 0)
        elif side == LEFT and self._is_outer:
            rows = store.rows(places[~store.array("is matched")[places]])
            emitted = self._paired(rows, pl.DataFrame(schema=self._schemas[RIGHT]).clear(rows.height))
        store.remove(places)
        return emitted

    def _met(self, places: Rows) -> pl.DataFrame:
        """Left events with what has matched them, in their order."""
        left, right = self._stores[LEFT], self._stores[RIGHT]
        rows, times = left.rows(places), np.clip(left.array("time")[places], _NEVER, _ALWAYS)
        reach = left.keys_at(places), times - self._within_ms, times + self._within_ms
        if self._is_first:
            return self._flagged(rows, pl.Series(right.has_any(*reach)).cast(pl.Int64))
        row, place, more = right.pairs(*reach, PAIRS_MAX)
        self.dropped += more
        alone = np.setdiff1d(np.arange(len(places)), row) if self._is_outer else row[:0]
        order = np.argsort(np.concatenate([row, alone]), kind="stable").astype(np.uint32)
        nothing = pl.DataFrame(schema=self._schemas[RIGHT]).clear(len(alone))
        ours, theirs = rows[np.concatenate([row, alone]).astype(np.uint32)], pl.concat([right.rows(place), nothing])
        return self._paired(ours[order], theirs[order])

    def _flagged(self, rows: pl.DataFrame, flag: int | pl.Series) -> pl.DataFrame:
        (name, _), own = self._fields[-1], [field for field, _ in self._left.fields]
        flags = pl.Series(name, np.full(rows.height, flag) if isinstance(flag, int) else flag)
        return rows[:, [EVENT_TIME, NODE, *own]].hstack([flags])

    def _paired(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        theirs = right[:, [name for name, _ in self._right.fields]]
        theirs.columns = [name for name, _ in self._fields[len(self._left.fields) :]]
        return left[:, [EVENT_TIME, NODE, *(name for name, _ in self._left.fields)]].hstack(theirs)

    def _table(self, side: str, places: Rows) -> pl.DataFrame:
        return self._numbered(side, self._stores[side].rows(places), places)[self._empty(side).columns]

    def _numbered(self, side: str, rows: pl.DataFrame, places: Rows) -> pl.DataFrame:
        """The events at some places as rows of their side's table."""
        store = self._stores[side]
        gone = pl.Series(GONE, np.zeros(len(places), np.bool_))
        return rows.hstack([pl.Series(ID, store.array("id")[places]), gone])

    def _marks(self, places: Rows) -> pl.DataFrame:
        return _marks_of([self._match_of(places)])

    def _match_of(self, places: Rows) -> tuple[Values, ...]:
        left = self._stores[LEFT]
        return left.array("node")[places], left.array("id")[places], left.array("time")[places]

    def _tell_matches(self) -> None:
        """Makes rows of a table of the matches since changes were taken."""
        if self._matches:
            self._new[MATCHED].append(_marks_of(self._matches))
            self._matches = []

    def _empty(self, table: str) -> pl.DataFrame:
        return self._empties[table]

    @cached_property
    def _empties(self) -> dict[str, pl.DataFrame]:
        heads = {NODE: pl.UInt16(), ID: pl.Int64(), EVENT_TIME: pl.Int64(), GONE: pl.Boolean()}
        sides = {side: pl.DataFrame(schema=heads | dict(schema)) for side, schema in self._schemas.items()}
        return sides | {MATCHED: pl.DataFrame(schema=heads)}

    def _take_out(self, store: EventStore, gone: pl.DataFrame) -> None:
        """Removes the events that are gone elsewhere: by number, or all of a logical node before a time."""
        if not gone.height:
            return
        store.remove(places_of(store, gone.filter(pl.col(ID).is_not_null())))
        bounds = gone.filter(pl.col(ID).is_null())
        if bounds.height:
            before = np.full(NODES, _NEVER, np.int64)
            before[bounds[NODE].to_numpy()] = bounds[EVENT_TIME].to_numpy()
            store.remove(np.flatnonzero(store.array("time") < before[store.array("node")]))
        store.keep(store.array("is live").copy())


def _marks_of(matches: list[tuple[Values, ...]]) -> pl.DataFrame:
    nodes, ids, times = (np.concatenate(column) for column in zip(*matches, strict=True))
    return pl.DataFrame({NODE: nodes, ID: ids, EVENT_TIME: times, GONE: np.zeros(len(nodes), np.bool_)})


def schema_of(of: EventType) -> pl.Schema:
    """The columns in which events of a type wait."""
    return pl.Schema({EVENT_TIME: pl.Int64(), NODE: pl.UInt16(), **{name: DTYPES[type_] for name, type_ in of.fields}})


def places_of(store: EventStore, numbered: pl.DataFrame) -> Rows:
    """The places of events by logical node and number, of those that are there."""
    if not numbered.height:
        return np.empty(0, np.intp)
    live = np.flatnonzero(store.array("is live"))
    held = pl.DataFrame({NODE: store.array("node")[live], ID: store.array("id")[live], "place": live})
    return held.join(numbered.select(NODE, ID), on=[NODE, ID], how="semi")["place"].to_numpy()
