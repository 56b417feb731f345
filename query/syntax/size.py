"""Bounds the size of a query's tree, so that every later pass may recurse over it."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING

from query.model.errors import QueryError
from query.model.limits import (
    AGGREGATES_MAX,
    DEPTH_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    NODES_MAX,
    OPERANDS_MAX,
    PATH_PARTS_MAX,
)
from query.syntax.ast import AggregateCall, ColumnRef, Literal, children, expressions

if TYPE_CHECKING:
    from query.syntax.ast import Expression, Query, Star


def check_size(query: Query) -> None:
    """Raises QueryError if an expression nests too deeply, one or all are too large, or a number does not fit."""
    pending: list[tuple[Expression | Star, int]] = [(root, 1) for root in expressions(query)]
    seen = aggregates = 0
    while pending:
        node, depth = pending.pop()
        seen += 1
        if depth > DEPTH_MAX:
            hint = f"a chain of AND or OR may be {OPERANDS_MAX:,} long; other operators nest"
            message = f"this is nested too deeply: more than {DEPTH_MAX} operations inside each other"
            raise QueryError(message, query.text, node.span, hint=hint)
        if seen > NODES_MAX:
            message = f"the query is too large: more than {NODES_MAX:,} names, values and operators"
            raise QueryError(message, query.text, node.span)
        aggregates += isinstance(node, AggregateCall)
        if aggregates > AGGREGATES_MAX:
            raise QueryError(f"a query may have at most {AGGREGATES_MAX:,} aggregates", query.text, node.span)
        _check_node(node, query.text)
        pending.extend((child, depth + 1) for child in children(node))


def _check_node(node: Expression | Star, text: str) -> None:
    if isinstance(node, Literal):
        _check_number(node, text)
    if len(children(node)) > OPERANDS_MAX:
        message = f"this is too long: a list, or a chain of AND or OR, has at most {OPERANDS_MAX:,} members"
        raise QueryError(message, text, node.span)
    if isinstance(node, ColumnRef) and len(node.parts) > PATH_PARTS_MAX:
        raise QueryError(f"a field is at most {PATH_PARTS_MAX} levels deep", text, node.span)


def _check_number(literal: Literal, text: str) -> None:
    if literal.type == "integer" and not INTEGER_MIN <= int(literal.value or 0) <= INTEGER_MAX:
        hint = "write it with a decimal point to use an approximate number"
        raise QueryError("this integer does not fit 64 bits", text, literal.span, hint=hint)
    if literal.type == "number" and isinf(float(literal.value or 0)):
        raise QueryError("this number is too large", text, literal.span)
