"""The types of ELF QL and the rules of its operators: one table for analysis and for plans off the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TYPES = frozenset(("any", "number", "integer", "string", "boolean", "timestamp"))
NUMERIC = frozenset(("number", "integer"))
COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "%"))
WINDOW_BOUNDS = ("window_start", "window_end")
# What event frames carry beside the columns.
RESERVED_COLUMNS = frozenset(("@time", "@coerced", "@dropped", "pane"))


class TypeMismatchError(Exception):
    """An operator was given types it has no meaning for."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What a stream's events hold.

    `columns`: name to type, one of TYPES or "text" (a string, or a number if its use says so). An `open`
    stream may hold columns nobody has seen yet; they are "any" until their use fixes a type. Its columns may
    include fields of others, by their path with dots: `user` and `user.location`.
    """

    columns: Mapping[str, str]
    open: bool


def family(type_: str) -> str:
    """Types of one family can be compared with each other: integers are numbers."""
    return "number" if type_ in NUMERIC else type_


def result_type(operator: str, types: Sequence[str]) -> str:
    """The type an operator gives for the types of its operands; raises TypeMismatchError.

    >>> result_type("+", ["integer", "number"])
    'number'
    """
    if _accepts(operator, types):
        if operator == "filter":
            return types[1]
        if operator in ARITHMETIC or operator == "negate":
            return "integer" if operator != "/" and set(types) == {"integer"} else "number"
        return "boolean"
    raise TypeMismatchError(f"{operator} has no meaning for {', '.join(types)}")


def _accepts(operator: str, types: Sequence[str]) -> bool:
    families = {family(type_) for type_ in types}
    if operator in ("and", "or"):
        return len(types) >= 2 and families == {"boolean"}
    if operator == "not":
        return list(types) == ["boolean"]
    if operator in COMPARISONS:
        return len(types) == 2 and len(families) == 1
    if operator == "in":
        return len(types) >= 2 and len(families) == 1
    if operator in ARITHMETIC:
        return len(types) == 2 and families == {"number"}
    if operator == "negate":
        return len(types) == 1 and families == {"number"}
    if operator == "filter":
        return len(types) == 2 and types[0] == "boolean"
    if operator == "like":
        return list(types) == ["string", "string"]
    return operator == "is_null" and len(types) == 1
