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
CASTS = {
    "to_string": "string",
    "to_integer": "integer",
    "to_number": "number",
    "to_boolean": "boolean",
    "to_timestamp": "timestamp",
}
"""Operators that cast, with the type of their result."""
CASTS_TO = {
    "VARCHAR": "to_string",
    "BIGINT": "to_integer",
    "DOUBLE": "to_number",
    "BOOLEAN": "to_boolean",
    "TIMESTAMP": "to_timestamp",
}
"""The types of CAST, and the operators of plans that make them."""
BRANCHES_MAX = 200
WINDOW_BOUNDS = ("window_start", "window_end")
# What event frames carry beside the columns.
RESERVED_COLUMNS = frozenset(("@time", "@coerced", "@dropped", "pane"))


class TypeMismatchError(Exception):
    """An operator has no meaning for the types of its operands."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a stream's events.

    `columns`: name to type, one of TYPES or "text" (a string, or a number if its use demands one). An `open` stream may
    have columns that are not known yet; they are "any" until their use fixes a type. Its columns may include fields of
    others, by their path with dots: `user` and `user.location`.
    """

    columns: Mapping[str, str]
    open: bool


def family(type_: str) -> str:
    """The family of a type: types of one family can be compared, as integers and numbers."""
    return "number" if type_ in NUMERIC else type_


VALUES = "values"
"""The operator that makes one text of several values: a JSON object of them by their numbers."""


def result_type(operator: str, types: Sequence[str]) -> str:
    """The type an operator gives for the types of its operands; raises TypeMismatchError.

    >>> result_type("+", ["integer", "number"])
    'number'
    """
    if operator in CASTS:
        return _cast_type(operator, types)
    if operator in ("case", "switch"):
        return _case_type(operator, types)
    if operator == VALUES and types:
        return "string"
    if operator == "||":
        if len(types) >= 2 and set(types) == {"string"}:
            return "string"
    elif _accepts(operator, types):
        if operator == "filter":
            return types[1]
        if operator in ARITHMETIC or operator == "negate":
            return "integer" if operator != "/" and set(types) == {"integer"} else "number"
        return "boolean"
    raise TypeMismatchError(f"{operator} has no meaning for {', '.join(types)}")


def common_type(what: str, types: Sequence[str]) -> str:
    """The type of a result that is one of several values; raises TypeMismatchError if they have no common type."""
    families = {family(type_) for type_ in types}
    if len(families) != 1 or families == {"any"}:
        raise TypeMismatchError(f"{what} has no meaning for {', '.join(types)}")
    return types[0] if len(set(types)) == 1 else "number"


def _cast_type(operator: str, types: Sequence[str]) -> str:
    target = CASTS[operator]
    known = {"timestamp": ("any", "string", "timestamp"), "string": tuple(TYPES)}
    if len(types) == 1 and types[0] in known.get(target, TYPES - {"timestamp"}):
        return target
    raise TypeMismatchError(f"{operator} has no meaning for {', '.join(types)}")


def _case_type(operator: str, types: Sequence[str]) -> str:
    """The type of `case` (condition, result, ..., otherwise) or `switch`, which begins with the value to compare."""
    subject, rest = (types[:1], types[1:]) if operator == "switch" else ([], types)
    conditions, results = rest[:-1:2], [*rest[1:-1:2], *rest[-1:]]
    expected = {family(type_) for type_ in subject} or {"boolean"}
    if len(rest) < 3 or len(rest) % 2 == 0 or len(rest) > 2 * BRANCHES_MAX + 1:
        raise TypeMismatchError(f"{operator} has no meaning for {len(types)} operands")
    if {family(type_) for type_ in conditions} != expected:
        raise TypeMismatchError(f"{operator} has no meaning for conditions of {', '.join(conditions)}")
    return common_type(operator, results)


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
    if operator in ("like", "ilike", "rlike"):
        return list(types) == ["string", "string"]
    if operator == "between":
        return len(types) == 3 and len(families) == 1
    return operator == "is_null" and len(types) == 1
