"""MIN and MAX. NaN is greater than every number, strings are compared by code point, NULL does not count.

Values of different kinds are ordered boolean < number < string. Integers and doubles are compared exactly.
"""

import polars as pl

from cbt.algebra.kinds import KINDS, KINDS_OF_TYPE, split_kinds, value_order
from cbt.algebra.pao import Addition, Lifted, Pao
from cbt.algebra.scalars import canonical_json


class Extreme(Pao):
    """MIN or MAX: a state for each kind a value of the type may have: `b` Boolean, `i` Int64, `f` Float64,
    `s` String.

    Lowers to the column itself for a type of one kind; `number` lowers to Int64, or to Float64 if a double
    came from anywhere in the frame; `any` lowers to canonical JSON text.
    """

    def __init__(self, name: str, type_: str, *, greatest: bool) -> None:
        self._type, self._greatest = type_, greatest
        self._parts = {part: f"{name}.{part}" for part in KINDS_OF_TYPE[type_]}
        self.state = {column: KINDS[part] for part, column in self._parts.items()}

    def lift(self, argument: pl.Series) -> Lifted:
        present = [part for part in self._parts if KINDS[part] == argument.dtype]
        rows = [_canonical(argument).alias(self._parts[part]) for part in present]
        groups = [extreme(pl.col(row.name), row.dtype, greatest=self._greatest) for row in rows]
        states = [
            pl.col(column) if part in present else pl.lit(None, dtype=KINDS[part]).alias(column)
            for part, column in self._parts.items()
        ]
        return Lifted([*rows], groups, states)

    def over(self, inner: Pao, states: pl.DataFrame) -> list[pl.Series | pl.Expr] | None:
        if not isinstance(inner, Extreme) or inner._greatest != self._greatest:
            return None
        found = inner._results(states)
        if any(part not in self._parts and one.null_count() < len(one) for part, one in found.items()):
            return None  # values that do not fit
        return [
            found[part].alias(column) if part in found else pl.lit(None, dtype=KINDS[part]).alias(column)
            for part, column in self._parts.items()
        ]

    def _results(self, states: pl.DataFrame) -> dict[str, pl.Series]:
        """The states as they would be of results: of two numbers the extreme one, and no double that is whole."""
        found = {part: states[column] for part, column in self._parts.items()}
        if "f" in found and found["f"].null_count() < states.height:
            wins = self._integer_wins(states)
            doubles = found["f"].set(wins, None)
            whole, found["f"] = split_kinds(doubles, {"i": KINDS["i"], "f": KINDS["f"]})
            found["i"] = found["i"].set(~wins, None).fill_null(whole)
        return found

    def combine(self) -> list[pl.Expr]:
        return [extreme(pl.col(column), dtype, greatest=self._greatest) for column, dtype in self.state.items()]

    def additions(self, physical: pl.DataType) -> list[Addition] | None:
        if physical == pl.String:
            return None
        operation = "greatest" if self._greatest else "least"
        return [Addition(operation, (column,)) for part, column in self._parts.items() if KINDS[part] == physical]

    def whole(self) -> pl.Expr | None:
        return pl.col(self._parts["f"]).is_null() if self._type == "number" else None

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        if self._type == "any":
            return self._texts(frame)
        if self._type == "number":
            return self._numbers(frame)
        return frame[self._parts[KINDS_OF_TYPE[self._type]]]

    def _numbers(self, frame: pl.DataFrame) -> pl.Series:
        integers, doubles = frame[self._parts["i"]], frame[self._parts["f"]]
        if doubles.null_count() == len(doubles):
            return integers
        return integers.cast(pl.Float64).zip_with(self._integer_wins(frame), doubles)

    def _texts(self, frame: pl.DataFrame) -> pl.Series:
        texts = {part: canonical_json(frame[column]) for part, column in self._parts.items()}
        numbers = texts["i"].zip_with(self._integer_wins(frame), texts["f"])
        ascending = [texts["b"], numbers, texts["s"]]
        return pl.select(pl.coalesce(ascending[::-1] if self._greatest else ascending)).to_series()

    def _integer_wins(self, frame: pl.DataFrame) -> pl.Series:
        """Whether the integer is the extreme one of the two numbers; not where there is no integer."""
        integer, double = pl.col(self._parts["i"]), pl.col(self._parts["f"])
        at_most = _at_most(integer, double)
        wins = double.is_null() | (~at_most if self._greatest else at_most)
        return frame.select(integer.is_not_null() & wins).to_series()


def extreme(values: pl.Expr, dtype: pl.DataType, *, greatest: bool) -> pl.Expr:
    """The least or greatest value of a group, NULL if there is none."""
    if not greatest:
        return values.min()  # of doubles: NaN only if there is nothing else
    return values.nan_max() if dtype == pl.Float64 else values.max()


def _canonical(argument: pl.Series) -> pl.Series:
    """-0.0 becomes 0.0, or which of the two is the extreme would depend on the order."""
    if argument.dtype != pl.Float64:
        return argument
    return pl.Series([0.0]).zip_with(argument == 0, argument)


def _at_most(integer: pl.Expr, double: pl.Expr) -> pl.Expr:
    """integer <= double without rounding the integer: a double's floor is exact as an Int64 where it fits
    one.
    """
    floor = double.floor().cast(pl.Int64, strict=False)  # NULL for NaN and beyond Int64
    return pl.when(floor.is_null()).then(double.is_nan() | (double > 0)).otherwise(integer <= floor)


class BoolAnd(Extreme):
    """BOOL_AND: the least of the values, as false < true. State `b` Boolean; lowers to it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "boolean", greatest=False)


class BoolOr(Extreme):
    """BOOL_OR: the greatest of the values, as false < true. State `b` Boolean; lowers to it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "boolean", greatest=True)


class Occurrence(Pao):
    """FIRST or LAST by the block's column `time` (Int64 without NULL): states `t` Int64, the time, and those of an
    `Extreme` of the values at that time. Lowers as an `Extreme` does.
    """

    def __init__(self, name: str, type_: str, *, latest: bool, time: str = "time") -> None:
        self._latest, self._time = latest, f"{name}.t"
        self._values = Extreme(name, type_, greatest=latest)
        self.inputs = (time,)
        self.state = {self._time: pl.Int64(), **self._values.state}
        self._order = value_order(name, KINDS_OF_TYPE[type_], latest=latest)

    def lift(self, argument: pl.Series) -> Lifted:
        (time,) = self.inputs
        values = self._values.lift(argument)
        timed = pl.when(pl.col(argument.name).is_not_null()).then(pl.col(time)).alias(self._time)
        parts = [group.meta.output_name() for group in values.groups]  # none or one: a block's values are of one kind
        groups = [self._edge(), *(self._winner(part, [pl.col(part)]) for part in parts)]
        return Lifted([*values.rows, timed], groups, [pl.col(self._time), *values.states])

    def combine(self) -> list[pl.Expr]:
        return [self._edge(), *(self._winner(part, self._order) for part in self._values.state)]

    def _edge(self) -> pl.Expr:
        return pl.col(self._time).max() if self._latest else pl.col(self._time).min()

    def _winner(self, part: str, order: list[pl.Expr]) -> pl.Expr:
        """This part of the group's first row by time, then in the order of values."""
        return pl.col(part).sort_by(self._time, *order, descending=self._latest, nulls_last=True).first()

    def whole(self) -> pl.Expr | None:
        return self._values.whole()

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return self._values.lower(frame)
