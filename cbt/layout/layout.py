"""The columns of PAO frames for one set of keys and aggregates, and the algebra over whole frames."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np
import polars as pl

from cbt.aggregates.functions import pao_of
from cbt.aggregates.item_rows import PART, ItemRows
from cbt.aggregates.program_states import ProgramStates
from cbt.aggregates.user_defined import UserDefinedPao, UserFunctions, attempt
from cbt.algebra.columns import Aggregate, Key, changed, check_physical, check_whole, stored
from cbt.algebra.hashing import key_hash
from cbt.algebra.items import ItemPao, lift_items
from cbt.algebra.key_index import Rows
from cbt.algebra.pao import CountRows, Lifted, Pao
from cbt.layout.state_arrays import Arrays, SumColumn
from cbt.layout.states import StateColumns, run_numbers


class Layout:
    """The columns of a PAO frame: `pane` Int64, `hash` UInt64, the keys, then the state columns
    `{aggregate}.{part}`.

    Keys of type `any` and `number` are stored as canonical JSON text. There is one row for each (pane, key), and where
    an aggregate is a set or a sketch one more for each of its items (`cbt.aggregates.item_rows`); rows are ordered by
    (pane, hash, keys), NULL last. Without keys there is one group a pane, with the hash 0. Aggregates name a function
    of `cbt.aggregates.functions` or one of `functions`. Raises ValueError if two columns share a name or an aggregate
    does not take its type. Methods that compute states raise UserDefinedError where a function of `functions` fails.

    >>> layout = Layout([Key("path", "string")], [Aggregate("hits", "count", None, "any")])
    >>> events = pl.DataFrame({"pane": [0, 0, 0], "path": ["/a", "/b", "/a"]})
    >>> merged = layout.combine([layout.lift(events), layout.lift(events)])
    >>> layout.lower(merged).sort("path").rows()
    [(0, '/a', 4), (0, '/b', 2)]
    >>> users = Layout([Key("path", "string")], [Aggregate("users", "count_distinct", "path", "string")])
    >>> users.lower(users.lift(events)).sort("path").rows(), users.lift(events).height
    ([(0, '/a', 1), (0, '/b', 1)], 4)
    """

    def __init__(
        self,
        keys: Sequence[Key],
        aggregates: Sequence[Aggregate],
        seed: int = 0,
        functions: UserFunctions | None = None,
    ) -> None:
        self.keys, self.aggregates, self.seed, self.functions = tuple(keys), tuple(aggregates), seed, functions
        self.paos = [pao_of(aggregate, functions) for aggregate in self.aggregates]
        self._ordinary = [pao for pao in self.paos if isinstance(pao, Pao)]
        self._group_keys = [key.name for key in self.keys]
        self._items = ItemRows(self._group_keys, [pao for pao in self.paos if isinstance(pao, ItemPao)], seed)
        self._arguments = {
            pao: aggregate.argument or "pane" for aggregate, pao in zip(self.aggregates, self.paos, strict=True)
        }
        self.states = StateColumns(self.paos)
        self.rewrites_keys = any(key.type in ("any", "number") for key in self.keys)
        """Whether some key is stored as text that differs from its form in events."""
        identity = [*((key.name, key.stored_type) for key in self.keys), *self._items.columns]
        columns: list[tuple[str, pl.DataType]] = [("pane", pl.Int64()), ("hash", pl.UInt64()), *identity]
        columns += [column for pao in self.paos for column in pao.state.items()]
        names = [name for name, _ in columns]
        if len(set(names)) < len(names):
            raise ValueError(f"two columns of a PAO frame share a name: {', '.join(names)}")
        self.schema, self.key_schema = pl.Schema(columns), pl.Schema(identity)
        self.key_names = self.key_schema.names()
        """The columns that tell the rows of a pane apart: the keys and, where there are item aggregates, part and
        items."""
        arguments = [(a.argument, a.type) for a in self.aggregates if a.argument is not None]
        self._times = list(dict.fromkeys(name for pao in self.paos for name in pao.inputs))
        inputs = {*self._times, *(name for name, _ in arguments)}
        if clash := inputs & {*self.states.types, *(name for name, _ in self._items.columns)}:
            raise ValueError(f"an argument and a state share a name: {', '.join(sorted(clash))}")
        self._lifted_columns = list(dict.fromkeys(["pane", *(name for name, _ in arguments), *self._times]))
        self._inputs = [*((key.name, key.type) for key in self.keys), *arguments]
        self.input_columns = list(dict.fromkeys(["pane", *(name for name, _ in self._inputs), *self._times]))
        self._nothing = self._states_of_nothing() if self.has_items else {}
        drifting = [name for pao in self._ordinary if isinstance(pao, UserDefinedPao) for name in pao.state]
        self._foreign = [
            pl.when(pl.col(PART).is_null()).then(name).otherwise(pl.lit(self._nothing[name])).cast(self.schema[name])
            for name in (drifting if self.has_items else [])
        ]

    @property
    def has_items(self) -> bool:
        """Whether an aggregate is a set or a sketch: a group may then have many rows (`cbt.aggregates.item_rows`)."""
        return bool(self._items.paos)

    @cached_property
    def paos_by_name(self) -> dict[str, Pao | ItemPao]:
        """The PAOs by the names of their aggregates."""
        return {aggregate.name: pao for aggregate, pao in zip(self.aggregates, self.paos, strict=True)}

    @property
    def shrinks(self) -> bool:
        """Whether `compact` may shrink anything: whether some aggregate is a sketch of bounded size."""
        return self._items.shrinks

    def check_input(self, frame: pl.DataFrame) -> None:
        """Raises ValueError unless the frame can be lifted."""
        for name in ("pane", *self._times):
            check_whole(frame, name)
        check_physical(frame, self._inputs)

    def empty(self) -> pl.DataFrame:
        return self._empty

    @cached_property
    def _empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schema)

    def lift(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The PAOs of a block of raw rows: `pane`, key and argument columns, and `time` (Int64) where FIRST, LAST and
        COLLECT need it. O(n + g log g) for n rows in g groups.

        Raises ValueError if a column is missing or has no physical form of its type.
        """
        self.check_input(frame)
        return self.combine([self.group(frame)])

    def group(self, frame: pl.DataFrame) -> pl.DataFrame:
        """`lift` without the order, for a frame known to be liftable. O(n)."""
        parts = [attempt(self._ordinary, "lift", lambda paos: self._grouped(frame, paos))]
        for part, pao in enumerate(self._items.paos):
            rows = lift_items(pao, frame, self._group_keys, self._arguments[pao])
            parts.append(rows.with_columns(pl.lit(part, dtype=pl.Int8).alias(PART)))
        return own_strings(pl.concat(self._identified(part) for part in parts))

    def from_groups(self, grouped: pl.DataFrame) -> pl.DataFrame:
        """The PAOs of rows that another engine has grouped: by `pane`, keys as they are in blocks and, where there are
        item aggregates, their arguments; with the states of the other ones. O(n log n).
        """
        states = [name for pao in self._ordinary for name in pao.state]
        parts = [grouped.select("pane", *self._group_keys, *states)]
        for part, pao in enumerate(self._items.paos):
            rows = lift_items(pao, grouped, self._group_keys, self._arguments[pao])
            parts.append(rows.with_columns(pl.lit(part, dtype=pl.Int8).alias(PART)))
        return self.combine(self._identified(part) for part in parts)

    def over(
        self, identity: pl.DataFrame, inner: "Layout", states: pl.DataFrame, of: Mapping[str, str]
    ) -> pl.DataFrame | None:
        """The PAOs over the results of another layout's PAOs, one for each of its groups: states that are not merged
        yet, in no order. `identity`: `pane`, `hash` and stored keys, row by row; `states`: the main rows of `inner`.
        `of`: the aggregates of `inner` to whose results those of this layout belong. None where some do not nest, or
        only the results tell. There are no item aggregates here. O(n).
        """
        columns: list[pl.Series | pl.Expr] = [*identity]
        for name, pao in self.paos_by_name.items():
            below = inner.paos_by_name[of[name]]
            made = pao.over(below, states) if isinstance(pao, Pao) and isinstance(below, Pao) else None
            if made is None:
                return None
            columns += made
        return states.select(columns).select(self.schema.names())

    def _identified(self, grouped: pl.DataFrame) -> pl.DataFrame:
        """Rows by keys as they are in a block, as rows of a frame."""
        rows = self._filled(grouped.with_columns(stored(grouped[key.name], key) for key in self.keys))
        return rows.with_columns(self.hashes(rows)).select(self.schema.names())

    def _filled(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of a group's main row or of one item aggregate, with nothing in the columns that are not theirs."""
        missing = [(name, value) for name, value in self._nothing.items() if name not in rows.columns]
        return rows.with_columns(pl.lit(value, dtype=self.schema[name]).alias(name) for name, value in missing)

    def _states_of_nothing(self) -> dict[str, object]:
        """The neutral value of columns in rows that have no part in them, unchanged by merging: 0 for sums."""
        whole = {"pane", *self._times}
        block = pl.DataFrame({name: [0 if name in whole else None] for name in self.input_columns})
        states = attempt(self._ordinary, "lift", lambda paos: self._grouped(block, paos))
        sums = [name for name, column in self.states.arrays.items() if isinstance(column, SumColumn)]
        nothing: dict[str, object] = dict.fromkeys([*self.key_names, *self.states.types])
        return nothing | states.row(0, named=True) | dict.fromkeys(sums, 0)

    def _grouped(self, frame: pl.DataFrame, paos: Sequence[Pao]) -> pl.DataFrame:
        """The states of some aggregates by pane and keys as they are in the block."""
        lifted = self._lifted(frame, paos)
        groups = ["pane", *self._group_keys]
        return frame.with_columns(lifted.rows).group_by(groups).agg(lifted.groups).select(*groups, *lifted.states)

    def _lifted(self, frame: pl.DataFrame, paos: Sequence[Pao]) -> Lifted:
        """The expressions of several aggregates that turn a block into states."""
        lifted = [pao.lift(frame[self._arguments[pao]]) for pao in paos]
        return Lifted(
            [row for part in lifted for row in part.rows],
            [group for part in lifted for group in part.groups],
            [state for part in lifted for state in part.states],
        )

    def keys_of(self, block: pl.DataFrame) -> pl.DataFrame:
        """The key columns of raw rows, as they are stored. O(n)."""
        if not self.keys:
            return pl.DataFrame(height=block.height)
        return block.select(stored(block[key.name], key) for key in self.keys)

    def hashes(self, keys: pl.DataFrame) -> pl.Series:
        """The hash of each row of stored keys; those of a frame with more columns. O(n)."""
        own = [keys[name] for name in self._group_keys]
        hashes = key_hash(own, self.seed) if own else pl.Series("hash", np.zeros(keys.height, np.uint64))
        return self._items.hashes(keys, hashes) if self.has_items else hashes

    def lift_runs(self, block: pl.DataFrame, rows: Rows, starts: Rows) -> tuple[Arrays, pl.DataFrame | None]:
        """The states of groups of raw rows: of each run of `rows` that begins at one of `starts`. O(n)."""
        if all(type(pao) is CountRows for pao in self._ordinary):
            ends = np.append(starts[1:], len(rows))
            counts = ends - starts
            return {column.parts[0]: counts for column in self.states.arrays.values()}, None
        runs = run_numbers(len(rows), starts)

        def states(paos: Sequence[Pao]) -> pl.DataFrame:
            lifted = self._lifted(block, paos)
            wanted = block.select(self._lifted_columns).with_columns(lifted.rows)
            ordered = wanted[rows.astype(np.uint32)].with_columns(runs)
            groups = ordered.group_by("run", maintain_order=True).agg(lifted.groups)
            return groups.select("run", *lifted.states)  # constants alone would be one row

        return self.states.split(attempt(self._ordinary, "lift", states))

    def combine(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
        """Merges PAO frames, in any order and each in any order, into one. O(n log n) for n rows in all."""
        return self.compact(self.merge(frames))

    def merge(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
        """`combine` that leaves sketches as large as they are."""
        ordered, starts = self._ordered(pl.concat([self.empty(), *frames], rechunk=True))
        return own_strings(ordered if starts.all() else self._merge_runs(ordered, starts))

    def compact(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Shrinks the sketches of a frame as `merge` leaves it, and puts rows in order. O(n log n).

        Correct for parts of groups as well, and deterministic.
        """
        stay, others = self._items.compact(frame.with_columns(self._foreign))
        if not others:
            return stay
        rows = [self._filled(other).select(self.schema.names()) for other in others]
        return own_strings(self._ordered(pl.concat([stay, *rows], rechunk=True))[0])

    def bags(self, frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """The rows of each aggregate that a program computes, by its name: ordered by `:group`, the numbers of their
        groups, for the program to fold. O(n log n)."""
        own = [(part, pao) for part, pao in enumerate(self._items.paos) if isinstance(pao, ProgramStates)]
        return {pao.name: pao.known(self._items.bag(frame, part)) for part, pao in own}

    def folded(self, frame: pl.DataFrame, folded: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """A frame with the rows of aggregates that a program computes replaced by what it made of their bags: rows
        like those, with the same numbers of groups. O(n log n)."""
        for part, pao in enumerate(self._items.paos):
            if pao.name in folded:
                stay, rows = self._items.replaced(frame, part, folded[pao.name])
                filled = self._filled(rows).select(self.schema.names())
                frame = self.merge([stay, filled])
        return frame

    def _ordered(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """The rows in order, and which of them start a new (pane, key)."""
        ordered = _by_pane_and_hash(frame)
        starts, collided = self._starts(ordered)
        if collided:
            ordered = ordered.sort("pane", "hash", *self.key_names, nulls_last=True)
            starts, _ = self._starts(ordered)
        return ordered, starts

    def _starts(self, ordered: pl.DataFrame) -> tuple[pl.Series, bool]:
        """Which rows start a new (pane, key), and whether several keys share a hash and may be mixed."""
        columns = ordered.select(
            hash=changed(["pane", "hash"]),
            key=changed(self.key_names) if self.key_names else pl.lit(False),
        )
        if not self.key_names:
            return columns["hash"], False
        return columns["hash"] | columns["key"], bool((columns["key"] & ~columns["hash"]).any())

    def _merge_runs(self, ordered: pl.DataFrame, starts: pl.Series) -> pl.DataFrame:
        firsts = pl.col("pane", "hash", *self.key_names).first()
        runs = ordered.with_columns(starts.cum_sum().alias("pane run"))
        return self.states.merge_groups(runs.group_by("pane run", maintain_order=True), firsts).drop("pane run")

    def lower(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The results of a PAO frame: `pane`, the keys, one column for each aggregate. O(n).

        With item aggregates, the frame has all rows of a group or none, and it takes O(n log n).
        """
        main, results = self._items.lower(frame) if self.has_items else (frame, {})
        columns = [
            (pao.lower(main) if isinstance(pao, Pao) else results[pao]).alias(aggregate.name)
            for aggregate, pao in zip(self.aggregates, self.paos, strict=True)
        ]
        return main.select("pane", *self._group_keys, *columns)

    def main_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """One row for each group: all rows but those of items. O(n)."""
        return frame.filter(pl.col(PART).is_null()) if self.has_items else frame

    def limited(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The number of groups of a pane in which an aggregate has met its limit and left something out: `pane`,
        `aggregate` (its name) and `groups`, where there are any. The frame has all rows of a group or none. O(n).
        """
        return self._items.limited(frame)

    def rows_of_groups(self, frame: pl.DataFrame, chosen: pl.Series) -> pl.Series:
        """Which rows are of groups whose main rows are chosen. O(n)."""
        return self._items.rows_of_groups(frame, chosen) if self.has_items else chosen

    def _marks(self) -> dict[str, pl.Expr]:
        """Whether all rows are whole, of each aggregate whose results are whole in one frame and not in another."""
        return {
            f"{aggregate.name} is whole": mark.all()
            for aggregate, pao in zip(self.aggregates, self.paos, strict=True)
            if (mark := pao.whole()) is not None
        }

    def is_whole(self, frame: pl.DataFrame) -> bool:
        """Whether no result of a frame is a fraction that may decide how those of other rows are rounded. O(n)."""
        marks = self._marks()
        return not marks or frame.is_empty() or all(frame.select(**marks).row(0))

    def alike(self, frame: pl.DataFrame) -> list[pl.DataFrame]:
        """A PAO frame in parts of whole panes that each lower to columns of one type. O(n).

        A column of sums is of integers or of doubles as a whole: lowered apart, the contents of one pane never decide
        how another's results are rounded.
        """
        if self.is_whole(frame):
            return [frame]
        marks = self._marks()
        of_panes = {name: mark.over("pane") for name, mark in marks.items()}
        return frame.with_columns(**of_panes).partition_by(list(marks), maintain_order=True, include_key=False)


def own_strings(frame: pl.DataFrame) -> pl.DataFrame:
    """Copies the strings: gathered strings keep the whole blocks alive from which they come."""
    texts = tuple(name for name, dtype in zip(frame.columns, frame.dtypes, strict=True) if isinstance(dtype, pl.String))
    return frame.with_columns(_copies(texts)) if texts else frame


@lru_cache(maxsize=256)
def _copies(names: tuple[str, ...]) -> list[pl.Expr]:
    """Expressions that copy columns of strings: to make them takes as many calls as to evaluate them."""
    return [pl.concat_str(name, pl.lit("")) for name in names]


def _by_pane_and_hash(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame ordered by (pane, hash); rows with equal hashes in any order. O(n log n)."""
    # As one number of 128 bits, which any two fit, Polars sorts them twice as fast as the two columns.
    bounds = pl.col("pane").cast(pl.Int128) * pl.lit(2**64, dtype=pl.Int128) + pl.col("hash").cast(pl.Int128)
    return frame[frame.select(bounds).to_series().arg_sort()]
