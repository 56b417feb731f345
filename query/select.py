"""The select list: stars, the names of the result's columns, and those names used in other clauses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query import ast
from query.errors import QueryError
from query.limits import KEYS_MAX, SELECT_MAX
from query.printer import format_expression, format_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from query.scope import Scope


def named(query: ast.Query, scope: Scope) -> ast.Query:
    """The query with a name for each column it selects, and none of those in other clauses; DISTINCT as groups."""
    items = _expand_stars(query, scope)
    names = _output_names(query, items, scope)
    query = _distinct_as_groups(_without_aliases(query, items))
    return replace(query, select=tuple(replace(one, alias=name) for one, name in zip(items, names, strict=True)))


def _expand_stars(query: ast.Query, scope: Scope) -> tuple[ast.SelectItem, ...]:
    """The select items with every `*` replaced by the columns it stands for."""
    items: list[ast.SelectItem] = []
    for item in query.select:
        items += _columns(query, item, scope) if isinstance(item.expression, ast.Star) else [item]
        if len(items) > SELECT_MAX:
            hint = "name the columns to show" if isinstance(item.expression, ast.Star) else None
            message = f"SELECT may give at most {SELECT_MAX:,} columns"
            raise QueryError(message, query.text, item.span, hint=hint)
    return tuple(items)


def _columns(query: ast.Query, star: ast.SelectItem, scope: Scope) -> list[ast.SelectItem]:
    if query.group_by:
        hint = "name the columns and aggregates to show"
        raise QueryError("SELECT * cannot be used with GROUP BY", query.text, star.span, hint=hint)
    names = scope.every_name()
    if names is None:
        hint = "name the columns to show"
        is_table = query.join is not None and isinstance(query.join.source, ast.Table)
        rows = "the rows of a table" if is_table else "another job's results"
        raise QueryError(f"what columns {rows} have is not known before", query.text, star.span, hint=hint)
    if not names:
        hint = "name the columns to show"
        raise QueryError("no column of this stream is known yet", query.text, star.span, hint=hint)
    return [ast.SelectItem(ast.Column((name,), star.span), None, star.span) for name in names]


def _output_names(query: ast.Query, items: Sequence[ast.SelectItem], scope: Scope) -> list[str]:
    """The names of the result's columns; raises QueryError if two are the same."""
    names: dict[str, None] = {}
    for item in items:
        name = _output_name(item, scope)
        if name in names:
            hint = f"give one another name with AS, as in {format_expression(item.expression)} AS other"
            message = f"two columns of the result are named {format_name(name)}"
            raise QueryError(message, query.text, item.span, hint=hint)
        names[name] = None
    return list(names)


def _output_name(item: ast.SelectItem, scope: Scope) -> str:
    if item.alias is not None:
        return item.alias
    if isinstance(item.expression, ast.Column):
        return ".".join(scope.without_qualifier(item.expression))
    return format_expression(item.expression)


def _without_aliases(query: ast.Query, items: Sequence[ast.SelectItem]) -> ast.Query:
    """The query with names given by AS, and positions, replaced by what they stand for.

    That is so in GROUP BY, HAVING and ORDER BY. A name given with AS wins over a column of that name; in GROUP BY not
    if it names an aggregate. In HAVING and ORDER BY it may be part of an expression, but inside an aggregate a name is
    always the column.
    """
    for clause, keys in (("GROUP BY", query.group_by), ("ORDER BY", query.order_by)):
        if len(keys) > KEYS_MAX:
            raise QueryError(f"{clause} may have at most {KEYS_MAX} keys", query.text, keys[KEYS_MAX].span)
    names = _SelectNames(query, items)
    group_by = tuple(names.in_group_by(key) for key in query.group_by)
    having = None if query.having is None else names.in_expression(query.having)
    order_by = tuple(replace(item, expression=names.in_order_by(item.expression)) for item in query.order_by)
    return replace(query, select=tuple(items), group_by=group_by, having=having, order_by=order_by)


def _distinct_as_groups(query: ast.Query) -> ast.Query:
    """The query with SELECT DISTINCT as what it is: GROUP BY everything that is selected."""
    if not query.distinct:
        return query
    items = [item.expression for item in query.select if not isinstance(item.expression, ast.Star)]
    if query.group_by or query.having is not None or any(map(ast.has_call, ast.expressions(query))):
        hint = "leave DISTINCT out: GROUP BY gives each combination of its keys once"
        message = "SELECT DISTINCT has neither GROUP BY nor HAVING nor aggregates"
        raise QueryError(message, query.text, query.select[0].span, hint=hint)
    if len(items) > KEYS_MAX:
        message = f"SELECT DISTINCT may give at most {KEYS_MAX} columns"
        raise QueryError(message, query.text, query.select[KEYS_MAX].span)
    return replace(query, group_by=tuple(items))


class _SelectNames:
    """What names and positions of select items stand for in other clauses."""

    def __init__(self, query: ast.Query, items: Sequence[ast.SelectItem]) -> None:
        self._text = query.text
        self._expressions = [item.expression for item in items if not isinstance(item.expression, ast.Star)]
        self._aliases = dict(zip((item.alias for item in items), self._expressions, strict=True))

    def in_group_by(self, key: ast.Expression) -> ast.Expression:
        if not isinstance(key, ast.Column):
            return self._at_position(key, "GROUP BY")
        named = self._named(key)
        # Events cannot be grouped by an aggregate: a column of that name must be meant.
        return key if ast.has_call(named) else named

    def in_order_by(self, key: ast.Expression) -> ast.Expression:
        if isinstance(key, ast.Literal):
            return self._at_position(key, "ORDER BY")
        return self.in_expression(key)

    def in_expression(self, node: ast.Expression) -> ast.Expression:
        if isinstance(node, ast.Column):
            return self._named(node)
        if isinstance(node, ast.Call):
            return node
        return ast.with_operands(node, [self.in_expression(child) for child in ast.operands(node)])

    def _named(self, column: ast.Column) -> ast.Expression:
        return self._aliases.get(column.parts[0], column) if len(column.parts) == 1 else column

    def _at_position(self, key: ast.Expression, clause: str) -> ast.Expression:
        if not isinstance(key, ast.Literal) or key.type != "integer":
            return key
        position = int(key.value or 0)
        if not 1 <= position <= len(self._expressions):
            message = f"{clause} {position} is no position in SELECT, which has {len(self._expressions)}"
            raise QueryError(message, self._text, key.span)
        return self._expressions[position - 1]
