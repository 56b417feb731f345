"""Sub-queries in FROM: replaces the names of their columns by the expressions that they select.

A sub-query that only projects and filters disappears: the outer query is rewritten to read the sub-query's source. A
sub-query that groups, or limits its rows, becomes a plan of its own whose rows the outer query reads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.binder.scope import Known, QuerySource, Scope, joined_source, sources_of
from query.model.errors import QueryError
from query.model.limits import KEYS_MAX, SELECT_MAX
from query.model.types import Schema
from query.syntax import ast
from query.syntax.printer import format_expression, format_name
from query.syntax.size import check_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from query.binder.scope import Scope


def named(query: ast.Query, scope: Scope) -> ast.Query:
    """The query with a name for each selected column, with expressions in place of these names in other clauses, and
    with groups for DISTINCT."""
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
        joined = None if query.join is None else query.join.source
        rows = "the rows of a table" if isinstance(joined, ast.TableRef) else "another job's results"
        if isinstance(joined, ast.Stream):
            rows = "the events of two streams"
        raise QueryError(f"what columns {rows} have is not known before", query.text, star.span, hint=hint)
    if not names:
        hint = "name the columns to show"
        raise QueryError("no column of this stream is known yet", query.text, star.span, hint=hint)
    return [ast.SelectItem(ast.ColumnRef((name,), star.span), None, star.span) for name in names]


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
    if isinstance(item.expression, ast.ColumnRef):
        return ".".join(scope.without_qualifier(item.expression))
    return format_expression(item.expression)


def _without_aliases(query: ast.Query, items: Sequence[ast.SelectItem]) -> ast.Query:
    """The query with positions, and names given by AS, replaced by the expressions they stand for.

    They are replaced in GROUP BY, HAVING and ORDER BY. A name given with AS wins over a column of that name; in GROUP
    BY not if it names an aggregate. In HAVING and ORDER BY it may be part of an expression, but inside an aggregate a
    name is always the column.
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
    """The query with SELECT DISTINCT rewritten as GROUP BY of all selected columns."""
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
    """Resolves names and positions of select items in other clauses."""

    def __init__(self, query: ast.Query, items: Sequence[ast.SelectItem]) -> None:
        self._text = query.text
        self._expressions = [item.expression for item in items if not isinstance(item.expression, ast.Star)]
        self._aliases = dict(zip((item.alias for item in items), self._expressions, strict=True))

    def in_group_by(self, key: ast.Expression) -> ast.Expression:
        if not isinstance(key, ast.ColumnRef):
            return self._at_position(key, "GROUP BY")
        named = self._named(key)
        # Events cannot be grouped by an aggregate: a column of that name must be meant.
        return key if ast.has_call(named) else named

    def in_order_by(self, key: ast.Expression) -> ast.Expression:
        if isinstance(key, ast.Literal):
            return self._at_position(key, "ORDER BY")
        return self.in_expression(key)

    def in_expression(self, node: ast.Expression) -> ast.Expression:
        if isinstance(node, ast.ColumnRef):
            return self._named(node)
        if isinstance(node, ast.AggregateCall):
            return node
        return ast.with_operands(node, [self.in_expression(child) for child in ast.operands(node)])

    def _named(self, column: ast.ColumnRef) -> ast.Expression:
        return self._aliases.get(column.parts[0], column) if len(column.parts) == 1 else column

    def _at_position(self, key: ast.Expression, clause: str) -> ast.Expression:
        if not isinstance(key, ast.Literal) or key.type != "integer":
            return key
        position = int(key.value or 0)
        if not 1 <= position <= len(self._expressions):
            message = f"{clause} {position} is no position in SELECT, which has {len(self._expressions)}"
            raise QueryError(message, self._text, key.span)
        return self._expressions[position - 1]


def resolved(query: ast.Query, known: Known) -> ast.Query:
    """The query with a name for each selected column, with expressions in place of these names in other clauses, and
    without sub-queries except those with rows of their own or with several branches. Raises QueryError.
    """
    source = query.source
    if not isinstance(source, ast.Subquery):
        return named(query, Scope(sources_of(query, known), query.text, windowed=query.window is not None))
    branches = tuple(resolved(_inside(branch, query), known) for branch in source.branches)
    scope = Scope(_sources(query, source, branches[0], known), query.text, windowed=query.window is not None)
    outer = named(query, scope)
    if len(branches) == 1 and is_projection(branches[0]):
        return _Inlining(outer, branches[0], scope).query()
    if query.join is not None and len(branches) == 1:
        hint = "write the JOIN inside the sub-query"
        message = "rows of a sub-query that groups or limits them cannot be joined"
        raise QueryError(message, query.text, query.join.span, hint=hint)
    return replace(outer, source=replace(source, branches=branches))


def is_projection(query: ast.Query) -> bool:
    """Whether a query gives one row for each event it keeps. ORDER BY alone makes no difference to the outer query."""
    groups = query.distinct or query.group_by or query.having is not None or query.limit is not None
    return not groups and not any(map(ast.has_call, ast.expressions(query)))


def rows_of(source: ast.Subquery, columns: Mapping[str, str]) -> QuerySource:
    """The rows of a sub-query as a source of the outer query."""
    shown = "the sub-query" if source.alias is None else format_name(source.alias)
    return QuerySource("", shown, source.alias, Schema(columns, open=False))


def _sources(query: ast.Query, source: ast.Subquery, first: ast.Query, known: Known) -> tuple[QuerySource, ...]:
    rows = rows_of(source, dict.fromkeys(names_of(first), "any"))
    return (rows,) if query.join is None else (rows, joined_source(query, rows, known))


def names_of(query: ast.Query) -> list[str]:
    """The columns of a resolved query's result."""
    return [item.alias or "" for item in query.select]


def _inside(branch: ast.Query, around: ast.Query) -> ast.Query:
    """A sub-query with the windows of the outer query."""
    if branch.window is not None or branch.changes:
        hint = "write WINDOWING and EMIT once, at the end of the whole query"
        span = branch.emit_span if branch.window is None else branch.window.span
        raise QueryError("a sub-query has no windows of its own", branch.text, span, hint=hint)
    if branch.trees is not None:
        hint = "write TREES once, at the end of the whole query"
        raise QueryError("a sub-query has no trees of its own", branch.text, branch.trees_span, hint=hint)
    if (clause := branch.straggler or branch.recover) is not None:
        hint = "write ON STRAGGLER and RECOVER FOR once, at the end of the whole query"
        raise QueryError("a sub-query waits for agents as the whole query does", branch.text, clause.span, hint=hint)
    if branch.within is not None:
        hint = "write WITHIN once, at the end of the whole query"
        message = "rows of a sub-query are not published: WITHIN is of the whole query's results"
        raise QueryError(message, branch.text, branch.within.span, hint=hint)
    return replace(branch, window=around.window, changes=around.changes, emit_span=around.emit_span)


class _Inlining:
    """An outer query merged with a sub-query that only projects and filters."""

    def __init__(self, outer: ast.Query, inner: ast.Query, scope: Scope) -> None:
        self._outer = outer
        self._inner = inner
        self._scope = scope
        self._items = {item.alias: item.expression for item in inner.select}
        self._joined = None if outer.join is None else outer.join.source.qualifier
        self._qualifier = self._own_qualifier() if outer.join is not None else None

    def query(self) -> ast.Query:
        outer, inner = self._outer, self._inner
        source = inner.source
        if self._qualifier is not None and isinstance(source, ast.Stream | ast.App):
            source = replace(source, alias=self._qualifier)
        conditions = [] if inner.where is None else [self._own(inner.where)]
        conditions += [] if outer.where is None else [self._put_in(outer.where)]
        where = conditions[0] if conditions else None
        if len(conditions) == 2:
            where = ast.Logical("AND", tuple(conditions), conditions[1].span)
        rewritten = replace(
            outer,
            source=source,
            join=inner.join if outer.join is None else replace(outer.join, on=self._put_in(outer.join.on)),
            select=tuple(replace(item, expression=self._put_in_item(item.expression)) for item in outer.select),
            where=where,
            group_by=tuple(map(self._put_in, outer.group_by)),
            having=None if outer.having is None else self._put_in(outer.having),
            order_by=tuple(replace(key, expression=self._put_in(key.expression)) for key in outer.order_by),
        )
        check_size(rewritten)
        return rewritten

    def _put_in_item(self, node: ast.Expression | ast.Star) -> ast.Expression:
        assert not isinstance(node, ast.Star), "they are expanded"
        return self._put_in(node)

    def _own_qualifier(self) -> str:
        """The qualifier of the events beside the joined rows."""
        inner, join = self._inner, self._outer.join
        assert join is not None
        if inner.join is not None:
            hint = "let another job do the first JOIN, and read its results with FROM app('its name')"
            raise QueryError(
                "a query has one JOIN at most, with those of its sub-queries", inner.text, join.span, hint=hint
            )
        if not isinstance(inner.source, ast.Stream | ast.App):
            hint = "name a stream in FROM, or write the JOIN inside the sub-query"
            raise QueryError("these rows cannot be joined", inner.text, join.span, hint=hint)
        return "events" if join.source.qualifier != "events" else "rows"

    def _put_in(self, node: ast.Expression) -> ast.Expression:
        """The expression with the sub-query's expressions in place of their names."""
        match node:
            case ast.ColumnRef():
                return self._selected(node)
            case ast.AggregateCall(arguments=arguments, where=where):
                given = tuple(one if isinstance(one, ast.Star) else self._put_in(one) for one in arguments)
                return replace(node, arguments=given, where=None if where is None else self._put_in(where))
            case _:
                return ast.with_operands(node, [self._put_in(child) for child in ast.operands(node)])

    def _selected(self, node: ast.ColumnRef) -> ast.Expression:
        if self._scope.is_window_bound(node):
            return node
        parts = self._scope.without_qualifier(node)
        if self._joined is not None and self._scope.is_joined(node):
            return replace(node, parts=(self._joined, *parts))
        name = ".".join(parts)
        found, rest = self._items.get(name), parts[1:]
        if found is not None:
            rest = ()
        elif isinstance(self._items.get(parts[0]), ast.ColumnRef):
            found = self._items[parts[0]]
        if found is None:
            self._scope.resolve(node)  # says what there is instead
        assert found is not None
        found = self._own(found)
        if isinstance(found, ast.ColumnRef):
            return replace(found, parts=(*found.parts, *rest), span=node.span)
        return replace(found, span=node.span)

    def _own(self, node: ast.Expression | ast.Star) -> ast.Expression:
        """An expression of the sub-query, as it is written in the outer query."""
        assert not isinstance(node, ast.Star)
        if self._qualifier is None:
            return node
        if isinstance(node, ast.ColumnRef):
            bound = self._scope.is_window_bound(node)
            return node if bound else replace(node, parts=(self._qualifier, *self._unqualified(node)))
        return ast.with_operands(node, [self._own(child) for child in ast.operands(node)])

    def _unqualified(self, node: ast.ColumnRef) -> tuple[str, ...]:
        source = self._inner.source
        qualifier = source.qualifier if isinstance(source, ast.App) else source.alias if source is not None else None
        return node.parts[1:] if len(node.parts) > 1 and node.parts[0] == qualifier else node.parts
