"""Runs user-defined code and turns whatever it does wrong into one error that names the function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import polars as pl

from cbt.algebra.pao import Pao, StateAlgebra
from cbt.algebra.scalars import canonical_json

T = TypeVar("T")
Algebra = TypeVar("Algebra", bound=StateAlgebra)

STATE_BYTES_MAX = 2**16
TYPES: dict[str, pl.DataType] = {
    "any": pl.String(),
    "number": pl.Float64(),
    "integer": pl.Int64(),
    "string": pl.String(),
    "boolean": pl.Boolean(),
}


class UserDefinedError(Exception):
    """A user-defined function has failed; the message names it and says what it did."""


def function_error(function: str, fault: str) -> UserDefinedError:
    return UserDefinedError(f"the function {function!r} {fault}")


class UserDefinedPao(Pao):
    """A PAO that runs user-defined code; `function` is the name it is registered under."""

    function: str


def guarded(function: str, method: str, code: Callable[[], T]) -> T:
    """The value that `code` returns. Raises UserDefinedError for any exception that does not end the process."""
    try:
        return code()
    except UserDefinedError:
        raise
    except (Exception, SystemExit, pl.exceptions.PanicException) as error:
        lines = str(error).splitlines()
        reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        raise function_error(function, f"fails in {method}: {reason}") from error


def attempt(paos: Sequence[Algebra], method: str, work: Callable[[Sequence[Algebra]], T]) -> T:
    """The result of `work` on all PAOs. If it fails, each user-defined PAO is tried alone, to find the one to blame.

    User-defined expressions thus run together with all others, at no cost while nothing is wrong. Raises
    UserDefinedError if one of them fails alone as well, else what `work` raised.
    """
    try:
        return work(paos)
    except UserDefinedError as error:
        raise UserDefinedError(str(error).splitlines()[0]) from error  # Polars adds where it happened
    except (Exception, pl.exceptions.PanicException):
        for pao in paos:
            if isinstance(pao, UserDefinedPao):
                guarded(pao.function, method, lambda pao=pao: work([pao]))  # type: ignore[misc]
        raise


def declared_type(function: str, attribute: str, definition: object, types: Mapping[str, pl.DataType]) -> str:
    """The name of a type that a definition declares. Raises UserDefinedError for another."""
    name = getattr(definition, attribute, None)
    if not isinstance(name, str) or name not in types:
        raise function_error(function, f"declares the {attribute} {name!r}; it can be {', '.join(types)}")
    return name


def typed(argument: pl.Series, type_: str) -> pl.Series:
    """A block's argument in the one physical type that columns of a type have for user-defined functions."""
    return canonical_json(argument) if type_ == "any" else argument.cast(TYPES[type_])
