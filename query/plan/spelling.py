"""Turns the expressions of a plan back into ELF QL, for EXPLAIN and for the queries that a plan is taken apart into."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, cast

from query.functions import FUNCTIONS
from query.model.expression import Constant, Operation, Reference
from query.model.timestamps import format_timestamp
from query.model.types import CASTS_TO, VALUES
from query.syntax import ast
from query.syntax.printer import format_expression

if TYPE_CHECKING:
    from collections.abc import Mapping

    from query.model.expression import Expression

_CASTS = {operator: type_ for type_, operator in CASTS_TO.items()}


class Spelling:
    """Turns expressions of a plan back into ELF QL; names that are not given are the bounds of a window."""

    def __init__(self, names: Mapping[str, ast.Expression | ast.Star]) -> None:
        self._names = names

    def __call__(self, expression: Expression) -> str:
        return format_expression(self.tree(expression))

    def tree(self, expression: Expression) -> ast.Expression | ast.Star:
        match expression:
            case Constant():
                return _literal(expression)
            case Reference(name=name):
                return self._names.get(name) or ast.ColumnRef((name,))
            case Operation(operator=operator, operands=operands):
                return _operation(operator, tuple(cast("ast.Expression", self.tree(one)) for one in operands))


def _literal(literal: Constant) -> ast.Expression:
    if literal.type == "timestamp" and isinstance(literal.value, int):
        return ast.Literal(format_timestamp(literal.value) or str(literal.value), "string")
    return ast.Literal(literal.value, "null" if literal.value is None else literal.type)


def _operation(operator: str, operands: tuple[ast.Expression, ...]) -> ast.Expression:
    match operator, operands:
        case "and" | "or", _:
            return ast.Logical(operator.upper(), operands)
        case "not", (ast.In() | ast.Between() | ast.Like() | ast.IsNull() as predicate,):
            return replace(predicate, negated=not predicate.negated)
        case "not", (operand,):
            return ast.Unary("NOT", operand)
        case "negate", (operand,):
            return ast.Unary("-", operand)
        case "in", (operand, *items):
            return ast.In(operand, tuple(items))
        case "||", (first, *others):
            return reduce(lambda left, right: ast.Binary("||", left, right), others, first)
        case "between", (operand, low, high):
            return ast.Between(operand, low, high)
        case "like" | "ilike" | "rlike", (operand, pattern):
            return ast.Like(operand, pattern, operator=operator.upper())
        case "case", (*branches, otherwise):
            return _case(None, branches, otherwise)
        case "switch", (operand, *branches, otherwise):
            return _case(operand, branches, otherwise)
        case _, (operand,) if operator in _CASTS:
            return ast.Cast(operand, _CASTS[operator])
        case _, _ if operator in FUNCTIONS or operator == VALUES:
            return ast.FunctionCall(operator.upper(), operands)
        case "is_null", (operand,):
            return ast.IsNull(operand)
        case _:
            left, right = operands
            return ast.Binary(operator, left, right)


def _case(subject: ast.Expression | None, branches: list[ast.Expression], otherwise: ast.Expression) -> ast.Case:
    pairs = tuple(zip(branches[::2], branches[1::2], strict=True))
    is_left_out = isinstance(otherwise, ast.Literal) and otherwise.value is None
    return ast.Case(subject, pairs, None if is_left_out else otherwise)
