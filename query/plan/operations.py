"""Types and checks the operations of plans, operators and functions alike, in queries and off the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from query.functions import FUNCTIONS, ConstantError
from query.functions.regexes import NAMES, REGEXES_MAX, check_regex, compiled_size
from query.model.expression import Constant, Operation
from query.model.like import PatternError, check_pattern
from query.model.types import result_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from query.model.expression import Expression

__all__ = ["REGEXES_MAX", "is_regex", "operation", "regex_size"]

LIKES = ("like", "ilike", "rlike")
_REGEX_SIZE = 10
"""Size of a regular expression besides its characters: what it takes to compile an empty one."""


def operation(operator: str, operands: Sequence[Expression]) -> Operation:
    """The operation with its type; raises TypeMismatchError, or ConstantError for a constant that has no meaning."""
    if operator in FUNCTIONS:
        return Operation(operator, tuple(operands), FUNCTIONS[operator].result_type(operands))
    type_ = result_type(operator, [operand.type for operand in operands])
    if operator in LIKES:
        _check_pattern(operator, operands[1])
    return Operation(operator, tuple(operands), type_)


def is_regex(operator: str) -> bool:
    """Whether an operator compiles a regular expression, of which a query has at most REGEXES_MAX."""
    return operator == "rlike" or operator in NAMES


def regex_size(plan: object) -> int:
    """The size of all different regular expressions of a plan as it travels, compiled. Compiles none: linear."""
    patterns: set[str] = set()
    pending = [plan]
    while pending:
        match pending.pop():
            case dict() as fields:
                pending += fields.values()
            case [str(operator), text, ["value", _, str(pattern)], *others] if is_regex(operator) or operator in LIKES:
                patterns.add(pattern)
                pending += [text, *others]
            case list() | tuple() as parts:
                pending += parts
    return sum(_REGEX_SIZE + compiled_size(pattern) for pattern in patterns)


def _check_pattern(operator: str, pattern: Expression) -> None:
    if not isinstance(pattern, Constant):
        raise ConstantError(f"{operator.upper()} needs a constant pattern")
    if pattern.value is None:
        return
    if operator == "rlike":
        check_regex(str(pattern.value))
        return
    try:
        check_pattern(str(pattern.value))
    except PatternError as error:
        raise ConstantError(str(error)) from None
