"""Elements of simulated fleets, whose states and events tell what was lost or came twice, and a model of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import polars as pl

from agent.programs.element_graph import SPLITS, Element, ElementGraph, ElementInput, EventType
from agent.runtime.keyed.elements.runtime import EVENT_TIME, NODE, SEQ, SOURCE, Emitted
from agent.runtime.keyed.graph import CheckedGraph, CheckedSource

CELL_MS = 500
TICKING = "Ticks"
FIELDS = [("a", "string"), ("b", "string"), ("v", "integer")]


def type_(name: str, **options) -> EventType:
    return EventType(name, FIELDS, **options)


def element(name: str, *inputs: tuple, emits: Iterable[str] = (), **options) -> Element:
    """An element that reads (type, key, constant), and emits types."""
    reads = [ElementInput(one[0], one[1], one[2] if len(one) > 2 else None) for one in inputs]
    return Element(name, "code", reads, options={"emits": list(emits), SPLITS: True}, **options)


def graph_of(types: list[EventType], elements: list[Element], sources: Iterable[str]) -> CheckedGraph:
    found = [CheckedSource(name, None) for name in sources]  # the plans of sources are of no use here
    return CheckedGraph(ElementGraph([], types, elements), found)


class Counting:
    """Counts the events of each key and adds up their values; emits the key and its count for each event. Where keys
    are split, each logical node has a part of the counts, and the event's own value is emitted.

    Changes add to what was before, so that one that is lost, or is there twice, is seen.
    """

    def __init__(self, graph: CheckedGraph, one: Element) -> None:
        self._keys = {read.type: tuple(read.key or ()) for read in one.inputs}
        self._constant = one.inputs[0].constant
        self._emits = graph.emits(one)
        self._is_keyless = one.inputs[0].key is None
        self._is_split = bool(one.grouping)
        self.state: dict[str, tuple[int, int, int]] = {}
        self._changed: dict[str, tuple[int, int, int]] = {}
        self.waiting: list[Callable[[], None]] = []
        self.is_slow = self.stopped = False
        self.times = 1
        self.evicted = 0
        self.advanced: list[int] = []
        self.order: list[tuple[str, tuple]] = []

    def _later(self, call: Callable[[], None]) -> None:
        if self.is_slow:
            self.waiting.append(call)
        else:
            call()

    def process(self, type_, rows, done) -> None:
        self._later(lambda: done(self._process(type_, rows)))

    def _process(self, type_, rows) -> list[Emitted]:
        out = [self._keyless(row) for row in rows.iter_rows(named=True)] if self._is_keyless else []
        if self._is_keyless:
            return [Emitted(name, _frame([row for rows in out for row in rows])) for name in self._emits]
        made = []
        for row in rows.iter_rows(named=True):
            key = "|".join(row[name] for name in self._keys[type_]) or str(self._constant)
            part = f"{row[NODE]}/{key}" if self._is_split else key
            _, count, total = self.state.get(part, (0, 0, 0))
            self.state[part] = (row[NODE], count + 1, total + row["v"])
            _, more, added = self._changed.get(part, (0, 0, 0))
            self._changed[part] = (row[NODE], more + 1, added + row["v"])
            self.order.append((key, (row[EVENT_TIME], row["a"], row["b"], row["v"])))
            about = row["v"] if self._is_split else count
            out = {EVENT_TIME: row[EVENT_TIME], NODE: row[NODE], "a": key, "b": str(len(key) % 3), "v": about}
            made.extend([out] * self.times)
        return [Emitted(name, _frame(made)) for name in self._emits]

    @staticmethod
    def _keyless(row) -> list[dict]:
        base = {EVENT_TIME: row[EVENT_TIME], SOURCE: row[SOURCE], SEQ: row[SEQ]}
        first = base | {"a": row["b"], "b": row["a"], "v": row["v"] + 1}
        return [first] if row["v"] % 2 else [first, base | {"a": row["a"], "b": "odd", "v": 1}]

    def advance(self, watermark_ms, done) -> None:
        self._later(lambda: (self.advanced.append(watermark_ms), done([])))

    def take_changes(self, done) -> None:
        def call() -> None:
            changed, self._changed = self._changed, {}
            done(self._table({key: change for key, change in changed.items() if key in self.state}))

        self._later(call)

    def states(self, nodes, done) -> None:
        asked = set(nodes)
        self._later(lambda: done(self._table({k: s for k, s in self.state.items() if s[0] in asked})))

    @staticmethod
    def _table(states) -> dict[str, pl.DataFrame]:
        rows = [(key.encode(), *state) for key, state in states.items()]
        schema = {"key": pl.Binary, NODE: pl.UInt16, "n": pl.Int64, "total": pl.Int64}
        return {"counts": pl.DataFrame(rows, schema, orient="row")}

    def put(self, tables) -> None:
        def call() -> None:
            for key, node, count, total in tables["counts"].iter_rows():
                _, before, sum_ = self.state.get(key.decode(), (0, 0, 0))
                self.state[key.decode()] = (node, before + count, sum_ + total)

        self._later(call)

    def drop(self, nodes) -> None:
        def call() -> None:
            gone = set(nodes)
            self.state = {key: state for key, state in self.state.items() if state[0] not in gone}
            self._changed = {key: change for key, change in self._changed.items() if change[0] not in gone}

        self._later(call)

    def evict(self, bytes_max, watermark_ms) -> int:  # noqa: ARG002
        before = len(self.state)
        self.state = dict(list(self.state.items())[: bytes_max // 100])
        self.evicted += before - len(self.state)
        return before - len(self.state)

    @property
    def memory_bytes(self) -> int:
        return 100 * len(self.state)

    @property
    def elements(self) -> int:
        return len(self.state)


def compact(name: str, frames: list[pl.DataFrame]) -> pl.DataFrame:
    """The sum of each key's changes, or the last of them."""
    if name == "ticks":
        return pl.concat(frames).unique(["key", NODE], keep="last", maintain_order=True)
    together = pl.concat(frames).group_by("key", NODE).agg(pl.col("n", "total").sum())
    return together.select("key", NODE, "n", "total")


class Ticking(Counting):
    """Counts, for each key, the multiples of `CELL_MS` that have passed since its first event, and emits nothing: time
    alone changes its state. Changes replace what was before."""

    def __init__(self, graph: CheckedGraph, one: Element) -> None:
        super().__init__(graph, one)
        self._keys_changed: set[str] = set()
        self.ticks: dict[str, tuple[int, int, int]] = {}

    def _process(self, type_, rows) -> list[Emitted]:
        for row in rows.iter_rows(named=True):
            key, time = row["a"], row[EVENT_TIME]
            _, first, _ = self.ticks.get(key, (0, time, 0))
            node, _, ticks = self.ticks.get(key, (row[NODE], 0, 0))
            self.ticks[key] = (node, min(first, time), ticks)
            self._keys_changed.add(key)
        super()._process(type_, rows)
        return []

    def advance(self, watermark_ms, done) -> None:
        def call() -> None:
            for key, (node, first, ticks) in self.ticks.items():
                self.ticks[key] = (node, first, max(ticks, ticks_between(first, watermark_ms)))
                self._keys_changed.add(key)
            self.advanced.append(watermark_ms)
            done([])

        self._later(call)

    def take_changes(self, done) -> None:
        def call() -> None:
            changed, self._keys_changed, self._changed = self._keys_changed, set(), {}
            done(self._ticks(changed))

        self._later(call)

    def states(self, nodes, done) -> None:
        asked = set(nodes)
        self._later(lambda: done(self._ticks({key for key, one in self.state.items() if one[0] in asked})))

    def _ticks(self, keys: set[str]) -> dict[str, pl.DataFrame]:
        rows = [(key, *self.state[key], *self.ticks[key][1:]) for key in sorted(keys & self.state.keys())]
        schema = {"key": pl.String, NODE: pl.UInt16, **dict.fromkeys(("n", "total", "first", "ticks"), pl.Int64)}
        return {"ticks": pl.DataFrame(rows, schema, orient="row")}

    def put(self, tables) -> None:
        def call() -> None:
            for key, node, count, total, first, ticks in tables["ticks"].iter_rows():
                self.state[key], self.ticks[key] = (node, count, total), (node, first, ticks)

        self._later(call)

    def drop(self, nodes) -> None:
        super().drop(nodes)
        self._later(lambda: self._keep(set(nodes)))

    def _keep(self, gone: set[int]) -> None:
        self.ticks = {key: one for key, one in self.ticks.items() if one[0] not in gone}


def ticks_between(first_ms: int, upto_ms: int) -> int:
    """The multiples of `CELL_MS` after one time, up to another."""
    return max(0, upto_ms // CELL_MS - first_ms // CELL_MS)


def runtime_of(graph: CheckedGraph, one: Element) -> Counting:
    """The elements of one prototype: those that tick say so by their name."""
    return (Ticking if one.name == TICKING else Counting)(graph, one)


def _frame(rows: list[dict]) -> pl.DataFrame:
    types = {EVENT_TIME: pl.Int64, SOURCE: pl.Int64, SEQ: pl.Int64, NODE: pl.UInt16, "v": pl.Int64}
    names = list(rows[0]) if rows else [EVENT_TIME, NODE, "a", "b", "v"]
    return pl.DataFrame(rows, {name: types.get(name, pl.String) for name in names}, orient="row")


def model(graph: CheckedGraph, inserted: dict[str, list[tuple[str, str, int]]]):
    """What the elements come to, one event after the other: states by element, and rows by type."""
    runtimes = {one.name: runtime_of(graph, one) for one in graph.graph.elements}
    rows: dict[str, list[tuple]] = {name: list(inserted.get(name, [])) for name in graph.types}
    for name in graph.order:
        if not rows[name]:
            continue
        frame = pl.DataFrame(rows[name], {"a": pl.String, "b": pl.String, "v": pl.Int64}, orient="row").with_columns(
            pl.lit(0, pl.Int64).alias(EVENT_TIME), pl.lit(0, pl.UInt16).alias(NODE),
            pl.lit(0, pl.Int64).alias(SOURCE), pl.lit(0, pl.Int64).alias(SEQ),
        )  # fmt: skip
        for one in graph.graph.elements:
            if name in [read.type for read in one.inputs]:
                for emitted, out in runtimes[one.name]._process(name, frame):
                    rows[emitted].extend(out.select("a", "b", "v").rows())
    states = {name: {_key(one, k): s[1:] for k, s in one.state.items()} for name, one in runtimes.items()}
    return states, rows


def _key(runtime: Counting, part: str) -> str:
    return part.partition("/")[2] if runtime._is_split else part
