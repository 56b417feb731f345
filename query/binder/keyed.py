"""Binds KEYED BY: by which key events travel, to how many workers, and who may travel at all."""

from __future__ import annotations

from query.model.errors import QueryError, listed, nearest
from query.model.limits import KEYED_KEYS_MAX, WORKERS_MAX
from query.syntax import ast
from query.syntax.printer import format_name, format_source

GROUPINGS = ("fish", "shuffle", "fields", "pkg", "dchoices", "wchoices")
"""The ways to choose the worker of an event."""
GROUPING_DEFAULT = "fish"
WORKERS_DEFAULT = 64


def check_keyed(query: ast.Query) -> None:
    """Raises QueryError for a KEYED BY of what does not travel by key, and for one with a wrong grouping or number."""
    for part in ast.within(query):
        if part.keyed is not None:
            _check_place(query, part, part.keyed)
            _check_options(part, part.keyed)


def _check_place(query: ast.Query, part: ast.Query, keyed: ast.KeyedClause) -> None:
    hint = "leave KEYED BY out"
    if part is not query:
        message = "a sub-query is not keyed: the events of a query's own FROM travel by key"
        hint = "FROM names the stream, without a sub-query around it"
    elif isinstance(part.source, ast.Subquery):
        union = len(part.source.branches) > 1
        message = f"{'events of UNION ALL' if union else 'rows of a sub-query'} do not travel by key"
        hint = 'FROM names the stream, or several as in FROM web, "api-*"'
    elif isinstance(part.source, ast.App):
        message = "results of another job do not travel by key: one agent reads them"
        hint = f"KEYED BY is for the streams that {format_source(ast.App(part.source.name))} reads, or left out"
    elif part.join is not None and isinstance(part.join.source, ast.Stream):
        message = "events of joined streams travel by what ON compares"
    else:
        return
    raise QueryError(message, part.text, keyed.span, hint=hint)


def _check_options(query: ast.Query, keyed: ast.KeyedClause) -> None:
    if len(keyed.keys) > KEYED_KEYS_MAX:
        message = f"KEYED BY may have at most {KEYED_KEYS_MAX} keys"
        raise QueryError(message, query.text, keyed.keys[KEYED_KEYS_MAX].span)
    if keyed.grouping is not None and keyed.grouping not in GROUPINGS:
        guess = nearest(keyed.grouping, GROUPINGS)
        hint = f"did you mean {guess}?" if guess else f"the groupings are {listed(list(GROUPINGS))}"
        message = f"there is no grouping {format_name(keyed.grouping)}"
        raise QueryError(message, query.text, keyed.grouping_span, hint=hint)
    if keyed.workers is not None and not 1 <= keyed.workers <= WORKERS_MAX:
        message = f"events travel to 1 to {WORKERS_MAX:,} workers"
        raise QueryError(message, query.text, keyed.workers_span, hint="as in OVER 32 WORKERS")
