"""What ON compares: pairs of columns, one of what FROM names and one of the joined rows each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from query import ast
from query.errors import QueryError
from query.limits import KEYS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from query.scope import Scope

_HINT = "as in ON web.product = b.product AND web.store = b.store"


def join_keys(join: ast.Join, scope: Scope, text: str) -> list[tuple[ast.Column, ast.Column]]:
    """The columns that have to be equal, FROM's first; raises QueryError for any other condition."""
    keys = [_ordered(condition, scope, text) for condition in _conjuncts(join.on)]
    if len(keys) > KEYS_MAX:
        raise QueryError(f"ON may compare at most {KEYS_MAX} pairs of columns", text, join.on.span)
    return keys


def _conjuncts(condition: ast.Expression) -> Iterator[ast.Expression]:
    if isinstance(condition, ast.Logical) and condition.operator == "AND":
        for operand in condition.operands:
            yield from _conjuncts(operand)
    else:
        yield condition


def _ordered(condition: ast.Expression, scope: Scope, text: str) -> tuple[ast.Column, ast.Column]:
    match condition:
        case ast.Binary(operator="=", left=ast.Column() as left, right=ast.Column() as right):
            pass
        case _:
            message = "ON takes columns that have to be equal, joined by AND, and nothing else"
            raise QueryError(message, text, condition.span, hint=_HINT)
    for column in (left, right):
        if scope.is_window_bound(column):
            hint = "a window_start of either side is written with its name before it"
            raise QueryError(f"{column.parts[0]} cannot be used in ON", text, column.span, hint=hint)
    sides = scope.is_joined(left), scope.is_joined(right)
    if sides[0] == sides[1]:
        which = "the joined rows" if sides[0] else "what FROM names"
        message = f"both of these are columns of {which}: ON compares one of each side"
        raise QueryError(message, text, condition.span, hint=_HINT)
    return (right, left) if sides[0] else (left, right)
