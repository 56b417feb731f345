"""User-defined aggregates in plain Python values: easy to write, and slow, with a call for each value and merge.

A state is a JSON value: None, bool, int, float, str, lists, and dicts with text for keys. It travels as canonical JSON
text (sorted keys, no spaces, ASCII; `NaN` and `Infinity` where needed) of at most 64 KiB.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import polars as pl

from cbt.aggregates.user_code import STATE_BYTES_MAX, TYPES, UserDefinedPao, declared_type, function_error, guarded
from cbt.algebra.pao import Lifted
from cbt.algebra.scalars import canonical_json

_DEPTH_MAX = 64


class ValueFunction(ABC):
    """An aggregate in plain values: a million values or a hundred thousand groups a second, where expressions do tens
    of millions.

    `argument_type` is `any`, `number`, `integer`, `string` or `boolean`; values arrive as bool, int, float or str,
    `number` always as float, and an `any` number as int if it is one (1.0 is 1). NULL does not arrive. `result_type`
    is one of these as well: the result is None, or of that type, where `any` may be each of them.

    `add` and `merge` return the state; they may change the one they are given. Merging must be associative and
    commutative: `cbt.aggregates.laws.check_algebra` looks for examples where it is not.

    >>> class Domains(ValueFunction):
    ...     argument_type, result_type = "string", "integer"
    ...
    ...     def zero(self):
    ...         return {}
    ...
    ...     def add(self, state, value):
    ...         return state | {value.partition("@")[2]: True}
    ...
    ...     def merge(self, left, right):
    ...         return left | right
    ...
    ...     def result(self, state):
    ...         return len(state)
    """

    argument_type: str
    result_type: str

    @abstractmethod
    def zero(self) -> Any:
        """The state of no values."""

    @abstractmethod
    def add(self, state: Any, value: Any) -> Any:
        """A state with one value more."""

    @abstractmethod
    def merge(self, left: Any, right: Any) -> Any:
        """The state of two states' values together."""

    @abstractmethod
    def result(self, state: Any) -> Any:
        """The result of a state."""


class ValuePao(UserDefinedPao):
    """The PAO of a `ValueFunction`: one state `state`, String, NULL of no values."""

    def __init__(self, name: str, function: str, definition: ValueFunction) -> None:
        self.function, self._definition = function, definition
        self._state = f"{name}.state"
        self.state = {self._state: pl.String()}
        self._argument_type = declared_type(function, "argument_type", definition, TYPES)
        self._result_type = declared_type(function, "result_type", definition, TYPES)
        self._zero = self._text("zero", guarded(function, "zero", definition.zero))
        self._lowered(self._zero)

    def lift(self, argument: pl.Series) -> Lifted:
        if argument.dtype == pl.Null:
            return Lifted([], [], [pl.lit(None, dtype=pl.String).alias(self._state)])
        values = argument.cast(pl.Float64) if self._argument_type == "number" else argument
        return Lifted([values.alias(self._state)], [self._listed()], [self._each(pl.col(self._state), self._folded)])

    def combine(self) -> list[pl.Expr]:
        return [self._each(self._listed(), self._merged)]

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        results = [self._lowered(self._zero if text is None else text) for text in frame[self._state]]
        return guarded(self.function, "result", lambda: self._series(results))

    def _series(self, results: list[Any]) -> pl.Series:
        if self._result_type == "any":
            results = [None if result is None else canonical_json(pl.Series([result])).item() for result in results]
        elif self._result_type == "number":
            results = [None if result is None else float(result) for result in results]
        return pl.Series(results, dtype=TYPES[self._result_type])

    def _listed(self) -> pl.Expr:
        return pl.col(self._state).drop_nulls().implode()

    def _each(self, lists: pl.Expr, text: Callable[[list[Any]], str]) -> pl.Expr:
        """The state of each list's items; NULL of none."""

        def texts(column: pl.Series) -> pl.Series:
            return pl.Series([text(items) if len(items) else None for items in column], dtype=pl.String)

        return lists.map_batches(texts, return_dtype=pl.String(), is_elementwise=True).alias(self._state)

    def _folded(self, values: Iterable[Any]) -> str:
        state = self._read("zero", self._zero)
        for value in values:
            state = self._called("add", self._definition.add, state, self._plain(value))
        return self._text("add", state)

    def _plain(self, value: Any) -> Any:
        if self._argument_type == "any" and type(value) is float and value.is_integer() and -(2**63) <= value < 2**63:
            return int(value)
        return value

    def _merged(self, texts: Iterable[str]) -> str:
        first, *others = texts
        if not others:
            return first
        states = (self._read("merge", text) for text in others)
        merged = reduce(self._pair, states, self._read("merge", first))
        return self._text("merge", merged)

    def _pair(self, left: Any, right: Any) -> Any:
        return self._called("merge", self._definition.merge, left, right)

    def _called(self, method: str, code: Callable[[Any, Any], Any], *arguments: Any) -> Any:
        state = guarded(self.function, method, lambda: code(*arguments))
        if state is None and self._zero != "null":
            raise function_error(self.function, f"gives None in {method}: it has to return the state")
        return state

    def _text(self, method: str, state: object) -> str:
        """A state as text. Raises UserDefinedError if it is not plain or too large."""
        if fault := _fault(state):
            raise function_error(self.function, f"gives a state in {method} that holds {fault}")
        text = guarded(self.function, method, lambda: json.dumps(state, sort_keys=True, separators=(",", ":")))
        if len(text) > STATE_BYTES_MAX:
            raise function_error(self.function, f"has a state of {len(text)} bytes; {STATE_BYTES_MAX} are allowed")
        return text

    def _read(self, method: str, text: str) -> Any:
        return guarded(self.function, method, lambda: json.loads(text))

    def _lowered(self, text: str) -> Any:
        """The result of a state. Raises UserDefinedError if it has another type than was declared."""
        result = guarded(self.function, "result", lambda: self._definition.result(self._read("result", text)))
        kinds = _RESULTS[self._result_type]
        if result is not None and type(result) not in kinds:
            raise function_error(self.function, f"gives {type(result).__name__} as result, not {self._result_type}")
        if type(result) is int and not -(2**63) <= result < 2**63:
            raise function_error(self.function, f"gives a result beyond 64 bits: {result}")
        return result


_RESULTS: dict[str, tuple[type, ...]] = {
    "any": (bool, int, float, str),
    "number": (int, float),
    "integer": (int,),
    "string": (str,),
    "boolean": (bool,),
}


def _fault(state: object, depth: int = 0) -> str | None:
    """The reason why a state is not plain, or None."""
    if state is None or type(state) in (bool, int, float, str):
        return None
    if depth == _DEPTH_MAX:
        return f"more than {_DEPTH_MAX} levels"
    if type(state) is list:
        return next((fault for item in state if (fault := _fault(item, depth + 1))), None)
    if type(state) is dict:
        if not all(type(key) is str for key in state):
            return "keys that are no text"
        return next((fault for item in state.values() if (fault := _fault(item, depth + 1))), None)
    return f"{type(state).__name__}, which is no JSON"
