"""Defines a scalar function: one row of a table, from which checks, plans, EXPLAIN and documentation follow."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from query.model.expression import Constant
from query.model.types import TypeMismatchError, common_type, family
from query.physical.arithmetic import Bind
from query.physical.values import DTYPES, NULL, Value

if TYPE_CHECKING:
    from query.model.expression import Expression

Scalar: TypeAlias = int | float | str | bool | None
TEXT_BYTES_MAX = 65_536
"""Upper bound on the bytes of a text that a function makes; a longer one is NULL."""
_PARAMETER = re.compile(r"(\w+)([?]?)(!?)(\.\.\.)?: (\w+)")


class ConstantError(ValueError):
    """A constant argument that a function cannot take."""


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """One argument a function takes. `type`: string, number, integer, boolean, timestamp, any, or `same`: all such
    arguments are of one type, whichever it is. `repeated`: any number of times, at least once.
    """

    name: str
    type: str
    optional: bool
    constant: bool
    repeated: bool


class Arguments:
    """The physical values a function gets, as Polars expressions of the type it wants.

    An argument that a function uses more than once must be bound, or nested calls would grow exponentially.
    """

    def __init__(self, values: Sequence[Value], given: Sequence[Expression], bind: Bind) -> None:
        self.values = list(values)
        self.types = [one.type for one in given]
        self._constants = [one.value if isinstance(one, Constant) else None for one in given]
        self.bind = bind

    def __len__(self) -> int:
        return len(self.values)

    def bound(self, place: int) -> Value:
        """The argument in a form that can be used several times."""
        self.values[place] = self.bind(self.values[place])
        return self.values[place]

    def expression(self, place: int) -> pl.Expr:
        """The expression of the argument, to be used once."""
        return self.values[place].expression

    def double(self, place: int) -> pl.Expr:
        """A number in floating point."""
        return self.values[place].as_double()

    def whole(self, place: int) -> pl.Expr:
        """A bound number cut to an integer of 32 bits: no text is that long."""
        limit = 2**31 - 1
        return self.bound(place).expression.clip(-limit, limit).cast(pl.Int64)

    def text(self, place: int) -> str:
        """A constant text."""
        return str(self.constant(place, ""))

    def number(self, place: int, default: int) -> int:
        """A constant integer, the default if it was left out."""
        return int(self.constant(place, default) or 0)

    def constant(self, place: int, default: Scalar = None) -> Scalar:
        """The value of a constant argument."""
        return self._constants[place] if place < len(self._constants) else default

    def result(self, expression: pl.Expr, kind: str) -> Value:
        """A result that depends on all arguments."""
        return Value(expression, kind, level=max(value.level for value in self.values))


Compute: TypeAlias = Callable[[Arguments], Value]
Check: TypeAlias = Callable[[Sequence[Scalar]], None]


@dataclass(frozen=True)
class ScalarFunction:
    """A scalar function.

    `takes`: its parameters as `name: type, ...`; after a name, `?` says that it can be left out, `!` that it is a
    constant, `...` that it may be repeated. `gives`: a type, `same` as those arguments, or `numeric`: integer of
    integers, otherwise number. `check` raises ConstantError for the constants (None elsewhere). A `strict` function
    gives NULL if an argument is NULL throughout; `compute` must handle single NULLs.
    """

    name: str
    takes: str
    gives: str
    compute: Compute
    doc: str
    example: str
    result: str
    check: Check | None = None
    strict: bool = True

    @cached_property
    def parameters(self) -> tuple[FunctionParameter, ...]:
        """The parameters, in order."""
        found = []
        for part in self.takes.split(", "):
            match = _PARAMETER.fullmatch(part)
            assert match, f"{self.name} takes {part}"
            name, optional, constant, repeated, type_ = match.groups()
            found.append(FunctionParameter(name, type_, bool(optional), bool(constant), bool(repeated)))
        return tuple(found)

    @property
    def signature(self) -> str:
        """The written form of a call: `SUBSTR(text, start[, length])`."""
        text = ""
        for parameter in self.parameters:
            shown = parameter.name + (", ..." if parameter.repeated else "")
            separator = ", " if text else ""
            text += f"[{separator}{shown}]" if parameter.optional else separator + shown
        return f"{self.name}({text})"

    def accepts_count(self, count: int) -> bool:
        """Whether it can be called with this number of arguments."""
        least = sum(not parameter.optional for parameter in self.parameters)
        return count >= least and (count <= len(self.parameters) or self.parameters[-1].repeated)

    def parameter(self, place: int) -> FunctionParameter:
        """The parameter that the argument at a place is for."""
        return self.parameters[min(place, len(self.parameters) - 1)]

    def result_type(self, arguments: Sequence[Expression]) -> str:
        """The type of its result; raises TypeMismatchError or ConstantError for arguments it cannot take."""
        if not self.accepts_count(len(arguments)):
            raise TypeMismatchError(f"{self.signature} has no meaning for {len(arguments)} arguments")
        wanted = [self.parameter(place) for place in range(len(arguments))]
        for parameter, argument in zip(wanted, arguments, strict=True):
            self._check_argument(parameter, argument)
        if self.check is not None:
            self.check([one.value if isinstance(one, Constant) else None for one in arguments])
        if self.gives == "same":
            pairs = zip(wanted, arguments, strict=True)
            return common_type(self.name, [one.type for parameter, one in pairs if parameter.type == "same"])
        if self.gives == "numeric":
            return "integer" if {argument.type for argument in arguments} == {"integer"} else "number"
        return self.gives

    def _check_argument(self, parameter: FunctionParameter, argument: Expression) -> None:
        if parameter.constant and not isinstance(argument, Constant):
            raise ConstantError(f"{self.name} needs a constant as {parameter.name}")
        is_number = isinstance(argument, Constant) and argument.type == "number" and argument.value is not None
        if parameter.type == "integer" and is_number:
            raise ConstantError(f"{self.name} needs a whole number as {parameter.name}")
        if parameter.type not in ("any", "same") and family(parameter.type) != family(argument.type):
            raise TypeMismatchError(f"{self.signature} has no meaning for {argument.type} as {parameter.name}")

    def call(self, values: Sequence[Value], given: Sequence[Expression], bind: Bind) -> Value:
        """The physical value of a call."""
        if self.strict and any(value.kind == "null" for value in values):
            return NULL
        return self.compute(Arguments(values, given, bind))


def in_one_kind(values: Sequence[Value]) -> tuple[list[pl.Expr], str]:
    """Expressions of one physical kind, as branches of one result have to be; the kind is null if all are."""
    kinds = {value.kind for value in values} - {"null"}
    if not kinds:
        return [value.expression for value in values], "null"
    kind = kinds.pop() if len(kinds) == 1 else "double" if "double" in kinds else "wide"
    return [value.expression.cast(DTYPES[kind]) if value.kind != kind else value.expression for value in values], kind


def of_text(compute: Callable[[pl.Expr], pl.Expr], kind: str = "string") -> Compute:
    """A function of one text that a Polars expression computes."""
    return lambda arguments: arguments.result(compute(arguments.expression(0)), kind)


def bounded_text(expression: pl.Expr, bytes_: pl.Expr) -> pl.Expr:
    """The text, or NULL where it would have more bytes than allowed."""
    return pl.when(bytes_ <= TEXT_BYTES_MAX).then(expression)
