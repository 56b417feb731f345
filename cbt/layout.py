"""What a frame of PAOs looks like for one set of keys and aggregates, and the algebra over whole frames."""

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from cbt.columns import Aggregate, Key, changed, check_physical, check_whole, stored
from cbt.functions import pao_of
from cbt.hashing import key_hash
from cbt.pao import CountRows, Lifted, Pao
from cbt.state_arrays import Arrays, Rows
from cbt.states import StateColumns, run_numbers
from cbt.user_defined import UserFunctions, attempt


class Layout:
    """The columns of a PAO frame: `pane` Int64, `hash` UInt64, the keys, then the state columns
    `{aggregate}.{part}`.

    Keys of type `any` and `number` are stored as canonical JSON text. There is one row for each (pane, key);
    rows are ordered by (pane, hash, keys), NULL last. Without keys there is one row a pane, with the hash 0.
    Aggregates name a function of `cbt.functions` or one of `functions`. Raises ValueError if two columns share a name
    or an aggregate does not take its type. What is done with states raises UserDefinedError where a function of
    `functions` is wrong.

    >>> layout = Layout([Key("path", "string")], [Aggregate("hits", "count", None, "any")])
    >>> events = pl.DataFrame({"pane": [0, 0, 0], "path": ["/a", "/b", "/a"]})
    >>> merged = layout.combine([layout.lift(events), layout.lift(events)])
    >>> layout.lower(merged).sort("path").rows()
    [(0, '/a', 4), (0, '/b', 2)]
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
        self._arguments = {
            pao: aggregate.argument or "pane" for aggregate, pao in zip(self.aggregates, self.paos, strict=True)
        }
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
        self._times = list(dict.fromkeys(name for pao in self.paos for name in pao.inputs))
        inputs = {*self._times, *(name for name, _ in arguments)}
        if clash := inputs & {name for pao in self.paos for name in pao.state}:
            raise ValueError(f"an argument and a state share a name: {', '.join(sorted(clash))}")
        self._lifted_columns = list(dict.fromkeys(["pane", *(name for name, _ in arguments), *self._times]))
        self._inputs = [*((key.name, key.type) for key in self.keys), *arguments]
        self.input_columns = list(dict.fromkeys(["pane", *(name for name, _ in self._inputs), *self._times]))

    def check_input(self, frame: pl.DataFrame) -> None:
        """Raises ValueError unless the frame can be lifted."""
        for name in ("pane", *self._times):
            check_whole(frame, name)
        check_physical(frame, self._inputs)

    def empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schema)

    def lift(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The PAOs of a block of raw rows: `pane`, key and argument columns, and `time` (Int64) for FIRST and LAST.
        O(n + g log g) for n rows in g groups.

        Raises ValueError if a column is missing or has no physical form of its type.
        """
        self.check_input(frame)
        return self.combine([self.group(frame)])

    def group(self, frame: pl.DataFrame) -> pl.DataFrame:
        """`lift` without the order, for a frame known to be liftable. O(n)."""
        grouped = attempt(self.paos, "lift", lambda paos: self._grouped(frame, paos))
        keys = [stored(grouped[key.name], key) for key in self.keys]
        hashes = key_hash(keys, self.seed) if keys else pl.lit(0, dtype=pl.UInt64).alias("hash")
        return own_strings(grouped.with_columns(hashes, *keys).select(self.schema.names()))

    def _grouped(self, frame: pl.DataFrame, paos: Sequence[Pao]) -> pl.DataFrame:
        """The states of some aggregates by pane and keys as they are."""
        lifted = self._lifted(frame, paos)
        groups = ["pane", *self.key_names]
        return frame.with_columns(lifted.rows).group_by(groups).agg(lifted.groups).select(*groups, *lifted.states)

    def _lifted(self, frame: pl.DataFrame, paos: Sequence[Pao]) -> Lifted:
        """How a block becomes states: what these aggregates want, together."""
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
        """The key hash of stored keys, of one column at least. O(n)."""
        return key_hash(keys.get_columns(), self.seed)

    def lift_runs(self, block: pl.DataFrame, rows: Rows, starts: Rows) -> tuple[Arrays, pl.DataFrame | None]:
        """The states of groups of raw rows: of each run of `rows` that begins at one of `starts`. O(n)."""
        if all(type(pao) is CountRows for pao in self.paos):
            ends = np.append(starts[1:], len(rows))
            counts = ends - starts
            return {column.parts[0]: counts for column in self.states.arrays.values()}, None
        runs = run_numbers(len(rows), starts)

        def states(paos: Sequence[Pao]) -> pl.DataFrame:
            lifted = self._lifted(block, paos)
            wanted = block.select(self._lifted_columns).with_columns(lifted.rows)
            ordered = wanted[rows.astype(np.uint32)].with_columns(runs)
            return ordered.group_by("run", maintain_order=True).agg(lifted.groups).select(lifted.states)

        return self.states.split(attempt(self.paos, "lift", states))

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
        runs = ordered.with_columns(starts.cum_sum().alias("pane run"))
        return self.states.merge_groups(runs.group_by("pane run", maintain_order=True), firsts).drop("pane run")

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
