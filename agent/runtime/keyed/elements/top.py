"""Tops: of each key, the k greatest of what came last of each name, shown at the multiples of an interval."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.programs.element_graph import Element, EventType
from agent.runtime.keyed.elements.outputs import output_fields
from agent.runtime.keyed.elements.runtime import DTYPES, EVENT_TIME, NODE, Compact, Emitted, Tables
from agent.runtime.keyed.elements.slots import SEEN, SlotTable, latest_only
from agent.runtime.keyed.logical_nodes import NODES, mask_of

STATES, SHOWN = "states", "shown"
"""The tables: the last value of each name, and the time at which each logical node was shown last."""
_AT = "@at"
_NEVER, _ALWAYS = -(2**62), 2**62
_VALUE, _VALID, _DUE = "value", "valid", "due"


def compact_top(element: Element) -> Compact:
    """Puts the frames of a table of a top into one."""
    states = latest_only(names_of(element))

    def compact(table: str, frames: list[pl.DataFrame]) -> pl.DataFrame:
        if table == SHOWN:
            return pl.concat(frames).unique(NODE, keep="last", maintain_order=True)
        return states(frames)

    return compact


def names_of(element: Element) -> list[str]:
    """The fields that tell what a top has apart: its key's and the name's."""
    return [*(element.inputs[0].key or []), str(element.options["of"])]


class TopRuntime:
    """Has the interface of `ElementRuntime`. A value that is NULL or no number takes its name off the list.

    Each logical node was shown at a time of its own, as it may come from a host that is ahead or behind. A slot is
    `due` if that is after its node was shown.
    """

    def __init__(self, element: Element, types: Mapping[str, EventType], *, tracks: bool) -> None:
        fields = dict(types[element.inputs[0].type].fields)
        self._output, self._fields = element.output, [name for name, _ in output_fields(element, types)]
        self._key = list(element.inputs[0].key or [])
        self._of, self._by, self._k = (element.options[name] for name in ("of", "by", "k"))
        assert element.every_s is not None
        self._every_ms = max(1, round(element.every_s * 1000))
        self._ttl_ms = None if element.ttl_s is None else int(element.ttl_s * 1000)
        self._kind = DTYPES[fields[self._by]]
        value = np.float64 if self._kind == pl.Float64 else np.int64
        states = {_VALUE: value, _VALID: np.bool_, _DUE: np.int64}
        self._table = SlotTable({name: DTYPES[fields[name]] for name in names_of(element)}, states, tracks=tracks)
        self._tracks = tracks
        self._shown = np.full(NODES, _NEVER, np.int64)
        self._known = np.zeros(NODES, np.bool_)
        self._moved = np.zeros(NODES, np.bool_)
        self._expired_ms = _NEVER
        self.late = self.dropped = 0

    def process(self, type_: str, rows: pl.DataFrame, done: Callable[[list[Emitted]], None]) -> None:  # noqa: ARG002
        if rows[self._of].null_count():
            rows = rows.filter(pl.col(self._of).is_not_null())
        if rows.height:
            table, slots = self._table, self._table.find(rows)
            by = rows[self._by]
            valid = by.is_not_null().to_numpy() if by.null_count() else np.ones(rows.height, np.bool_)
            values = (by.fill_null(0) if by.null_count() else by).to_numpy()
            nodes = rows[NODE].to_numpy()
            table[_VALUE][slots] = values
            table[_VALID][slots] = valid & np.isfinite(values)
            table[_DUE][slots] = self._shown[nodes] + 1
            table.touch(slots, rows[EVENT_TIME].to_numpy())
            self._moved[nodes[~self._known[nodes]]] = True
            self._known[nodes] = True
        done([])

    def advance(self, watermark_ms: int, done: Callable[[list[Emitted]], None]) -> None:
        boundary = min(max(watermark_ms, _NEVER), _ALWAYS) // self._every_ms * self._every_ms
        if boundary <= int(self._shown.min()):
            done([])
            return
        rows = self._due_rows(boundary)
        self._moved |= self._known & (self._shown < boundary)
        np.maximum(self._shown, boundary, out=self._shown)
        if self._ttl_ms is not None and boundary - self._expired_ms > self._ttl_ms // 16:
            self._expired_ms = boundary
            self._table.expire(boundary - self._ttl_ms)
        done([Emitted(self._output, rows)] if rows.height else [])

    def take_changes(self, done: Callable[[Tables], None]) -> None:
        if not self._tracks:
            done({})
            return
        moved = np.flatnonzero(self._moved)
        self._moved[:] = False
        done({STATES: self._table.changes(), SHOWN: self._times(moved)})

    def states(self, nodes: Collection[int], done: Callable[[Tables], None]) -> None:
        known = np.flatnonzero(self._known & mask_of(list(nodes)))
        done({STATES: self._table.frame(self._table.on_nodes(nodes)), SHOWN: self._times(known)})

    def put(self, tables: Tables) -> None:
        if STATES in tables:
            self._table.put(tables[STATES])
            self._known[tables[STATES][NODE].to_numpy()] = True
        if SHOWN in tables:
            nodes = tables[SHOWN][NODE].to_numpy()
            self._known[nodes] = True
            self._shown[nodes] = tables[SHOWN][_AT].to_numpy()

    def drop(self, nodes: Collection[int]) -> None:
        dropped = list(nodes)
        self._table.drop(nodes)
        self._known[dropped] = self._moved[dropped] = False
        self._shown[dropped] = self._shown.max()

    def evict(self, bytes_max: int, watermark_ms: int) -> int:
        return self._table.make_room(bytes_max, None if self._ttl_ms is None else watermark_ms - self._ttl_ms)

    @property
    def evicted(self) -> int:
        """Names that were removed for their age or for room."""
        return self._table.evicted

    @property
    def memory_bytes(self) -> int:
        return self._table.memory_bytes

    @property
    def elements(self) -> int:
        """Number of names, of all keys."""
        return self._table.count

    def _all(self) -> pl.DataFrame:
        table, count = self._table, self._table.count
        value = pl.Series(self._by, table[_VALUE][:count]).cast(self._kind)
        states = [pl.Series(name, table[name][:count]) for name in (NODE, SEEN, _VALID, _DUE)]
        return pl.DataFrame([*table.keys().get_columns(), value, *states])

    def _due_rows(self, boundary: int) -> pl.DataFrame:
        """The lists of the keys that have changed since they were shown, each with its time."""
        count, empty = self._table.count, pl.DataFrame()
        shown = self._shown[self._table[NODE][:count]]
        due = (self._table[_DUE][:count] > shown) & (shown < boundary)
        if not due.any():
            return empty
        frame = self._all()
        # The list is as it was at the first boundary after its last event, however late it is shown.
        first = (pl.col(SEEN).max() // self._every_ms + 1) * self._every_ms
        at = pl.min_horizontal(pl.max_horizontal(first, pl.col("after").max()), pl.lit(boundary)) - 1
        after = pl.Series("after", np.where(shown[due] == _NEVER, _NEVER, shown[due] + self._every_ms))
        changed = frame.filter(pl.Series(due)).with_columns(after)
        if self._key:
            times = changed.group_by(self._key).agg(at.alias(EVENT_TIME))
            frame = frame.join(times, on=self._key, how="inner", nulls_equal=True)
        else:
            frame = frame.with_columns(changed.select(at.alias(EVENT_TIME)).to_series()[0:1].new_from_index(0, count))
        return self._greatest(frame).sort(EVENT_TIME, maintain_order=True).select(EVENT_TIME, NODE, *self._fields)

    def _greatest(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The k greatest of each key, those that are equal by their names."""
        frame = frame.filter(pl.col(_VALID))
        least = pl.col(self._by).top_k(self._k).min()
        frame = frame.filter(pl.col(self._by) >= (least.over(self._key) if self._key else least))
        frame = frame.sort([*self._key, self._by, self._of], descending=[*[False] * len(self._key), True, False])
        return frame.group_by(self._key, maintain_order=True).head(self._k) if self._key else frame.head(self._k)

    def _times(self, nodes: npt.NDArray[np.intp]) -> pl.DataFrame:
        return pl.DataFrame([pl.Series(NODE, nodes.astype(np.uint16)), pl.Series(_AT, self._shown[nodes])])
