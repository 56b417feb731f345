"""How large a query may be, checked once so that every later step may recurse over its tree."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING

from query.model.errors import QueryError
from query.syntax.ast import Call, Column, Literal, children, expressions

if TYPE_CHECKING:
    from query.syntax.ast import Expression, Query, Star

QUERY_BYTES_MAX = 64 * 1024
# With app('') around it, and its quotes doubled, it has to fit where a stream is named.
APP_NAME_MAX = 248
DEPTH_MAX = 100
# A plan must get through to every agent: no list in it over 4,096 long, and no more than 65,536 values in all.
NODES_MAX = 12_000
OPERANDS_MAX = 4_000
AGGREGATES_MAX = 4_000
PATH_PARTS_MAX = 100
COLUMNS_MAX = 1_000
SELECT_MAX = 1_000
KEYS_MAX = 64
ROWS_MAX = 1_000_000
GROUPS_DEFAULT = 1_000_000
GROUPS_MAX = 100_000_000
# A job's trees: those a query may ask for, and the most that are chosen for one that does not.
TREES_MAX = 64
TREES_CHOSEN_MAX = 16
# What JOIN takes of another job: its latest result, if it is no larger.
TABLE_ROWS_MAX = 100_000
TABLE_BYTES_MAX = 8 << 20
WINDOW_DAYS_MAX = 36_500
SUBQUERIES_MAX = 8
BRANCHES_OF_UNION_MAX = 16
# Of names and patterns, as jobs carry them.
STREAMS_CHARACTERS_MAX = 255
DAY_MS = 86_400_000
INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)


def check_limits(query: Query) -> None:
    """Raise QueryError if an expression nests too deeply, one or all are too large, or a number does not fit."""
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
        aggregates += isinstance(node, Call)
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
    if isinstance(node, Column) and len(node.parts) > PATH_PARTS_MAX:
        raise QueryError(f"a field is at most {PATH_PARTS_MAX} levels deep", text, node.span)


def _check_number(literal: Literal, text: str) -> None:
    if literal.type == "integer" and not INTEGER_MIN <= int(literal.value or 0) <= INTEGER_MAX:
        hint = "write it with a decimal point to use an approximate number"
        raise QueryError("this integer does not fit 64 bits", text, literal.span, hint=hint)
    if literal.type == "number" and isinf(float(literal.value or 0)):
        raise QueryError("this number is too large", text, literal.span)
