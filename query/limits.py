"""How large a query may be, checked once so that every later step may recurse over its tree."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING

from query.ast import Literal, children, expressions
from query.errors import QueryError

if TYPE_CHECKING:
    from query.ast import Expression, Query, Star

QUERY_BYTES_MAX = 64 * 1024
DEPTH_MAX = 100
NODES_MAX = 40_000
COLUMNS_MAX = 1_000
SELECT_MAX = 1_000
KEYS_MAX = 64
ROWS_MAX = 1_000_000
WINDOW_DAYS_MAX = 36_500
DAY_MS = 86_400_000
INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)


def check_limits(query: Query) -> None:
    """Raise QueryError if an expression nests too deeply, all are too large, or a number does not fit."""
    pending: list[tuple[Expression | Star, int]] = [(root, 1) for root in expressions(query)]
    seen = 0
    while pending:
        node, depth = pending.pop()
        seen += 1
        if depth > DEPTH_MAX:
            hint = "a chain of AND or OR may be as long as you like; other operators nest"
            message = f"this is nested too deeply: more than {DEPTH_MAX} operations inside each other"
            raise QueryError(message, query.text, node.span, hint=hint)
        if seen > NODES_MAX:
            message = f"the query is too large: more than {NODES_MAX:,} names, values and operators"
            raise QueryError(message, query.text, node.span)
        if isinstance(node, Literal):
            _check_number(node, query.text)
        pending.extend((child, depth + 1) for child in children(node))


def _check_number(literal: Literal, text: str) -> None:
    if literal.type == "integer" and not INTEGER_MIN <= int(literal.value or 0) <= INTEGER_MAX:
        hint = "write it with a decimal point to use an approximate number"
        raise QueryError("this integer does not fit 64 bits", text, literal.span, hint=hint)
    if literal.type == "number" and isinf(float(literal.value or 0)):
        raise QueryError("this number is too large", text, literal.span)
