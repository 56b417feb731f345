"""User-defined aggregates in Polars expressions, which run within the group-by and merge of all other aggregates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeVar

import polars as pl

from cbt.aggregates.user_code import (
    STATE_BYTES_MAX,
    TYPES,
    UserDefinedPao,
    declared_type,
    function_error,
    guarded,
    typed,
)
from cbt.algebra.pao import LESS, Lifted

T = TypeVar("T")

_STATE_TYPES = (pl.String, pl.Int8, pl.Int64, pl.Int128, pl.UInt64, pl.Float64, pl.Boolean)
_RESULT_TYPES = {name: dtype for name, dtype in TYPES.items() if name != "any"}


class ColumnFunction(ABC):
    """An aggregate in Polars expressions.

    `argument_type` is `any`, `number`, `integer`, `string` or `boolean`; the argument arrives as String (canonical
    JSON text), Float64, Int64, String or Boolean. `state` declares the state's columns: String (at most 64 KiB a
    value), Int8, Int64, Int128, UInt64, Float64 or Boolean. `result_type` is the type of what `lower` gives, and not
    `any`. A column of Int64, or of Float64, may be given in any narrower type of numbers.

    Merging must be associative and commutative: `cbt.aggregates.laws.check_algebra` looks for examples where it is not.

    >>> class GeometricMean(ColumnFunction):
    ...     argument_type, result_type = "number", "number"
    ...     state = {"log": pl.Float64(), "n": pl.Int64()}
    ...
    ...     def lift(self, values):
    ...         return {"log": values.log().sum(), "n": values.count()}
    ...
    ...     def combine(self, states):
    ...         return {"log": states["log"].sum(), "n": states["n"].sum()}
    ...
    ...     def lower(self, states):
    ...         return (states["log"] / states["n"]).exp()
    """

    argument_type: str
    result_type: str
    state: Mapping[str, pl.DataType]

    @abstractmethod
    def lift(self, values: pl.Expr) -> Mapping[str, pl.Expr]:
        """One aggregation for each column of the state, over a group's values (NULL among them)."""

    @abstractmethod
    def combine(self, states: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr]:
        """One aggregation for each column of the state, over the states of one key."""

    @abstractmethod
    def lower(self, states: Mapping[str, pl.Expr]) -> pl.Expr:
        """The result of each state."""

    def subtract(self, whole: Mapping[str, pl.Expr], part: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr] | None:  # noqa: ARG002
        """For each column of the state, `whole` without `part`; None if the aggregate is not invertible."""
        return None


class ColumnPao(UserDefinedPao):
    """The PAO of a `ColumnFunction`. Raises UserDefinedError for one that is no aggregate."""

    def __init__(self, name: str, function: str, definition: ColumnFunction) -> None:
        self.function, self._definition = function, definition
        self._argument = f"{name}:argument"
        self._parts = {part: f"{name}.{part}" for part in _declared_state(function, definition)}
        self.state = {self._parts[part]: _instance(dtype) for part, dtype in definition.state.items()}
        self._argument_type = TYPES[declared_type(function, "argument_type", definition, TYPES)]
        self._result_type = TYPES[declared_type(function, "result_type", definition, _RESULT_TYPES)]
        self._groups = self._aggregations("lift", lambda: definition.lift(pl.col(self._argument)))
        self._merges = self._aggregations("combine", lambda: definition.combine(self._columns()))
        self._differences = self._subtraction()
        self._check_types()

    def lift(self, argument: pl.Series) -> Lifted:
        values = typed(argument, self._definition.argument_type).alias(self._argument)
        states = [self._stored(pl.col(column), column) for column in self.state]
        return Lifted([values], list(self._groups.values()), states)

    def combine(self) -> list[pl.Expr]:
        return [self._stored(merge, column) for column, merge in self._merges.items()]

    def subtract(self) -> list[pl.Expr] | None:
        if self._differences is None:
            return None
        return [self._stored(difference, column) for column, difference in self._differences.items()]

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        results = self._run("lower", lambda: frame.select(self._definition.lower(self._columns()).alias("result")))
        series = results["result"]
        if len(series) != frame.height:
            raise function_error(self.function, f"gives {len(series)} results in lower for {frame.height} states")
        return self._run("lower", lambda: series.cast(self._result_type))

    def _columns(self, suffix: str = "") -> dict[str, pl.Expr]:
        return {part: pl.col(column + suffix) for part, column in self._parts.items()}

    def _aggregations(self, method: str, expressions: Callable[[], Mapping[str, pl.Expr]]) -> dict[str, pl.Expr]:
        """The expressions that a method of the definition returns, by state column."""
        given = self._run(method, expressions)
        if not isinstance(given, Mapping) or set(given) != set(self._parts):
            names = ", ".join(map(str, given)) if isinstance(given, Mapping) else type(given).__name__
            raise function_error(self.function, f"gives {names} in {method}, not its state {', '.join(self._parts)}")
        for part, expression in given.items():
            if not isinstance(expression, pl.Expr):
                fault = f"gives {type(expression).__name__} for {part!r} in {method}, not an expression"
                raise function_error(self.function, fault)
        return {column: given[part].alias(column) for part, column in self._parts.items()}

    def _subtraction(self) -> dict[str, pl.Expr] | None:
        whole, part = self._columns(), self._columns(LESS)
        if self._run("subtract", lambda: self._definition.subtract(whole, part)) is None:
            return None
        return self._aggregations("subtract", lambda: self._definition.subtract(whole, part) or {})

    def _stored(self, state: pl.Expr, column: str) -> pl.Expr:
        """The state in its declared type. Raises UserDefinedError for one that is too large."""
        dtype = self.state[column]
        if dtype != pl.String:
            return state.cast(dtype)
        return state.map_batches(self._bounded, return_dtype=dtype, is_elementwise=True)

    def _bounded(self, texts: pl.Series) -> pl.Series:
        size = texts.str.len_bytes().max()
        if isinstance(size, int) and size > STATE_BYTES_MAX:
            raise function_error(self.function, f"has a state of {size} bytes; {STATE_BYTES_MAX} are allowed")
        return texts

    def _check_types(self) -> None:
        """Runs everything on frames without rows to check the types."""
        argument = pl.DataFrame(schema={self._argument: self._argument_type, "key": pl.Int64()})
        states = pl.DataFrame(schema={**self.state, "key": pl.Int64()})
        pairs = states.with_columns(pl.lit(None, dtype=dtype).alias(name + LESS) for name, dtype in self.state.items())
        self._check_schema("lift", lambda: argument.group_by("key").agg(self._groups.values()))
        self._check_schema("combine", lambda: states.group_by("key").agg(self._merges.values()))
        if differences := self._differences:
            self._check_schema("subtract", lambda: pairs.select(differences.values()))
        result = self._run("lower", lambda: states.select(self._definition.lower(self._columns()).alias("result")))
        if result.height:
            raise function_error(self.function, "gives one result for all states in lower")
        if not _fits(result["result"].dtype, self._result_type):
            fault = f"gives {result['result'].dtype} in lower; {self._definition.result_type} was declared"
            raise function_error(self.function, fault)

    def _check_schema(self, method: str, frame: Callable[[], pl.DataFrame]) -> None:
        schema = self._run(method, frame).schema
        for part, column in self._parts.items():
            if not _fits(schema[column], self.state[column]):
                fault = f"gives {schema[column]} for {part!r} in {method}; {self.state[column]} was declared"
                raise function_error(self.function, fault)

    def _run(self, method: str, code: Callable[[], T]) -> T:
        return guarded(self.function, method, code)


def _declared_state(function: str, definition: ColumnFunction) -> Mapping[str, pl.DataType]:
    state = getattr(definition, "state", None)
    if not isinstance(state, Mapping) or not state:
        raise function_error(function, "declares no state")
    for part, dtype in state.items():
        if not isinstance(part, str) or dtype not in _STATE_TYPES:
            names = ", ".join(allowed.__name__ for allowed in _STATE_TYPES)
            raise function_error(function, f"declares the state {part!r} as {dtype}; it can be {names}")
    return state


def _instance(dtype: pl.DataType | type[pl.DataType]) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype


def _fits(given: pl.DataType, declared: pl.DataType) -> bool:
    if declared == pl.Float64:
        return given.is_numeric()
    return given == declared or (declared.is_integer() and given.is_integer())
