"""Turns a parsed query into a plan, with the plans of sub-queries that have rows of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.binder.analysis import Analysis
from query.binder.keyed import check_keyed
from query.binder.scope import Known, Scope, joined_source, sources_of
from query.binder.subqueries import resolved, rows_of
from query.binder.unions import Union
from query.model.errors import QueryError
from query.model.limits import STREAMS_CHARACTERS_MAX
from query.syntax import ast

if TYPE_CHECKING:
    from query.plan.plan import Plan


def bind(query: ast.Query, known: Known) -> Plan:
    """The plan of a query as it is written; raises QueryError for a query that cannot run."""
    check_keyed(query)
    plan = _bind(resolved(query, known), known)
    joined = "" if plan.join is None else plan.join.stream or ""
    if max(len(plan.stream), len(joined)) > STREAMS_CHARACTERS_MAX and query.source is not None:
        hint = 'a pattern names several, as in FROM "web-*"'
        message = f"a query names at most {STREAMS_CHARACTERS_MAX} characters of streams"
        raise QueryError(message, query.text, query.source.span, hint=hint)
    return plan


def _bind(query: ast.Query, known: Known) -> Plan:
    """The plan of a resolved query."""
    windowed = query.window is not None
    if isinstance(query.source, ast.Subquery):
        return _staged(query, query.source, known)
    sources = sources_of(query, known)
    stream = sources[0].shown if isinstance(query.source, ast.App) else sources[0].name
    return Analysis(query, stream, Scope(sources, query.text, windowed=windowed)).plan()


def _staged(query: ast.Query, source: ast.Subquery, known: Known) -> Plan:
    """The plan of the sub-query, with the plan over its rows, or over the events of its branches."""
    if len(source.branches) > 1:
        return _united(query, source, known)
    if query.window is not None and query.window.gap is not None:
        hint = "count sessions in a job of its own, and read its results with FROM app('its name')"
        raise QueryError("SESSION is not made of rows of a sub-query", query.text, query.window.span, hint=hint)
    (inner,) = source.branches
    of_agents = replace(
        inner,
        trees=query.trees,
        trees_span=query.trees_span,
        straggler=query.straggler,
        recover=query.recover,
        within=query.within,
    )
    below = _bind(of_agents, known)
    rows = rows_of(source, {output.name: output.type for output in below.shown.output})
    scope = Scope((rows,), query.text, windowed=query.window is not None)
    outer = Analysis(
        replace(query, trees=None, straggler=None, recover=None, within=None), below.stream, scope, over_rows=True
    ).plan()
    return below.with_outer(outer)


def _united(query: ast.Query, source: ast.Subquery, known: Known) -> Plan:
    union = Union(source, known)
    rows = rows_of(source, union.columns())
    sources = (rows,) if query.join is None else (rows, joined_source(query, rows, known))
    scope = Scope(sources, query.text, windowed=query.window is not None)
    return union.plan(Analysis(query, "", scope).plan())
