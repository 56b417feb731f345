"""What a frame of PAOs looks like for one set of keys and aggregates, and the algebra over whole frames."""

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from cbt.columns import Aggregate, Key, changed, check_pane, check_physical, stored
from cbt.extremes import Extreme
from cbt.hashing import key_hash
from cbt.pao import CountRows, CountValues, Lifted, Pao
from cbt.state_arrays import Arrays, Rows
from cbt.states import StateColumns, run_numbers
from cbt.sums import IntegerAverage, IntegerSum, NumberAverage, NumberSum

_SUMS: dict[tuple[str, str], type[IntegerSum] | type[NumberSum]] = {
    ("sum", "integer"): IntegerSum,
    ("avg", "integer"): IntegerAverage,
    ("sum", "number"): NumberSum,
    ("avg", "number"): NumberAverage,
}


class Layout:
    """The columns of a PAO frame: `pane` Int64, `hash` UInt64, the keys, then the state columns
    `{aggregate}.{part}`.

    Keys of type `any` and `number` are stored as canonical JSON text. There is one row for each (pane, key);
    rows are ordered by (pane, hash, keys), NULL last. Without keys there is one row a pane, with the hash 0.
    Raises ValueError if two columns share a name or an aggregate does not take its type.

    >>> layout = Layout([Key("path", "string")], [Aggregate("hits", "count", None, "any")])
    >>> events = pl.DataFrame({"pane": [0, 0, 0], "path": ["/a", "/b", "/a"]})
    >>> merged = layout.combine([layout.lift(events), layout.lift(events)])
    >>> layout.lower(merged).sort("path").rows()
    [(0, '/a', 4), (0, '/b', 2)]
    """

    def __init__(self, keys: Sequence[Key], aggregates: Sequence[Aggregate], seed: int = 0) -> None:
        self.keys, self.aggregates, self.seed = tuple(keys), tuple(aggregates), seed
        self.paos = [_pao(aggregate) for aggregate in self.aggregates]
        self.states = StateColumns(self.paos)
        self.rewrites_keys = any(key.type in ("any", "number") for key in self.keys)
        """Whether keys are stored as text that is not what they are in events."""
        self.key_names = [key.name for key in self.keys]
        self.key_schema = pl.Schema([(key.name, key.stored_type) for key in self.keys])
        columns: list[tuple[str, pl.DataType]] = [("pane", pl.Int64()), ("hash", pl.UInt64())]
        columns += [(key.name, key.stored_type) for key in self.keys]
        columns += [column for pao in self.paos for column in pao.state.items()]
        names = [name for name, _ in columns]
        if len(set(names)) < len(names):
            raise ValueError(f"two columns of a PAO frame share a name: {', '.join(names)}")
        self.schema = pl.Schema(columns)
        arguments = [(a.argument, a.type) for a in self.aggregates if a.argument is not None]
        if clash := {name for name, _ in arguments} & {name for pao in self.paos for name in pao.state}:
            raise ValueError(f"an argument and a state share a name: {', '.join(sorted(clash))}")
        self._arguments = list(dict.fromkeys(["pane", *(name for name, _ in arguments)]))
        self._inputs = [*((key.name, key.type) for key in self.keys), *arguments]
        self.input_columns = list(dict.fromkeys(["pane", *(name for name, _ in self._inputs)]))

    def check_input(self, frame: pl.DataFrame) -> None:
        """Raises ValueError unless the frame can be lifted."""
        check_pane(frame)
        check_physical(frame, self._inputs)

    def empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schema)

    def lift(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The PAOs of a block of raw rows: `pane`, key and argument columns. O(n + g log g) for n rows in g
        groups.

        Raises ValueError if a column is missing or has no physical form of its type.
        """
        self.check_input(frame)
        return self.combine([self.group(frame)])

    def group(self, frame: pl.DataFrame) -> pl.DataFrame:
        """`lift` without the order, for a frame known to be liftable. O(n)."""
        lifted = self._lifted(frame)
        grouped = frame.with_columns(lifted.rows).group_by("pane", *self.key_names).agg(lifted.groups)
        keys = [stored(grouped[key.name], key) for key in self.keys]
        hashes = key_hash(keys, self.seed) if keys else pl.lit(0, dtype=pl.UInt64).alias("hash")
        return own_strings(grouped.select("pane", hashes, *keys, *lifted.states).select(self.schema.names()))

    def _lifted(self, frame: pl.DataFrame) -> Lifted:
        """How a block becomes states: what all aggregates want, together."""
        lifted = [
            pao.lift(frame[aggregate.argument or "pane"])
            for aggregate, pao in zip(self.aggregates, self.paos, strict=True)
        ]
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
        """The key hash of stored keys, of one column at least. O(n)."""
        return key_hash(keys.get_columns(), self.seed)

    def lift_runs(self, block: pl.DataFrame, rows: Rows, starts: Rows) -> tuple[Arrays, pl.DataFrame | None]:
        """The states of groups of raw rows: of each run of `rows` that begins at one of `starts`. O(n)."""
        if all(type(pao) is CountRows for pao in self.paos):
            ends = np.append(starts[1:], len(rows))
            counts = ends - starts
            return {column.parts[0]: counts for column in self.states.arrays.values()}, None
        lifted = self._lifted(block)
        arguments = block.select(self._arguments).with_columns(lifted.rows)
        ordered = arguments[rows.astype(np.uint32)]
        grouped = ordered.with_columns(run_numbers(len(rows), starts)).group_by("run", maintain_order=True)
        return self.states.split(grouped.agg(lifted.groups).select(lifted.states))

    def combine(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
        """Merges PAO frames, in any order and each in any order, into one. O(n log n) for n rows in all."""
        ordered = _by_pane_and_hash(pl.concat([self.empty(), *frames], rechunk=True))
        starts, collided = self._starts(ordered)
        if collided:
            ordered = ordered.sort("pane", "hash", *self.key_names, nulls_last=True)
            starts, _ = self._starts(ordered)
        if not starts.all():
            ordered = self._merge_runs(ordered, starts)
        return own_strings(ordered)

    def _starts(self, ordered: pl.DataFrame) -> tuple[pl.Series, bool]:
        """Which rows start a new (pane, key), and whether several keys share a hash and may be mixed."""
        columns = ordered.select(
            hash=changed(["pane", "hash"]),
            key=changed(self.key_names) if self.keys else pl.lit(False),
        )
        if not self.keys:
            return columns["hash"], False
        return columns["hash"] | columns["key"], bool((columns["key"] & ~columns["hash"]).any())

    def _merge_runs(self, ordered: pl.DataFrame, starts: pl.Series) -> pl.DataFrame:
        firsts = pl.col("pane", "hash", *self.key_names).first()
        states = self.states.merging.values()
        runs = ordered.with_columns(starts.cum_sum().alias("pane run"))
        return runs.group_by("pane run", maintain_order=True).agg(firsts, *states).drop("pane run")

    def lower(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The results of a PAO frame: `pane`, the keys, one column for each aggregate. O(n)."""
        results = [
            pao.lower(frame).alias(aggregate.name) for aggregate, pao in zip(self.aggregates, self.paos, strict=True)
        ]
        return frame.select("pane", *self.key_names, *results)

    def alike(self, frame: pl.DataFrame) -> list[pl.DataFrame]:
        """A PAO frame in parts of whole panes that each lower to columns of one type. O(n).

        A column of sums is of integers or of doubles as a whole: lowered apart, what one pane holds never decides
        how another's results are rounded.
        """
        marks = {
            f"{aggregate.name} is whole": mark.all().over("pane")
            for aggregate, pao in zip(self.aggregates, self.paos, strict=True)
            if (mark := pao.whole()) is not None
        }
        if not marks or frame.is_empty():
            return [frame]
        return frame.with_columns(**marks).partition_by(list(marks), maintain_order=True, include_key=False)


def own_strings(frame: pl.DataFrame) -> pl.DataFrame:
    """Copies the strings: gathered ones keep the whole blocks alive that they were gathered from."""
    return frame.with_columns(
        pl.concat_str(name, pl.lit("")) for name, dtype in frame.schema.items() if dtype == pl.String
    )


def _by_pane_and_hash(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame ordered by (pane, hash), in whatever order within. O(n log n)."""
    # As one number of 128 bits, which any two fit, Polars sorts them twice as fast as the two columns.
    bounds = pl.col("pane").cast(pl.Int128) * pl.lit(2**64, dtype=pl.Int128) + pl.col("hash").cast(pl.Int128)
    return frame[frame.select(bounds).to_series().arg_sort()]


def _pao(aggregate: Aggregate) -> Pao:
    name, function, type_ = aggregate.name, aggregate.function, aggregate.type
    if function == "count":
        return CountRows(name) if aggregate.argument is None else CountValues(name)
    if function in ("min", "max"):
        return Extreme(name, type_, greatest=function == "max")
    if (function, type_) not in _SUMS:
        raise ValueError(f"aggregate {name!r}: there is no {function} of {type_}")
    return _SUMS[function, type_](name)
