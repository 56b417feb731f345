"""Binds WITHIN: how soon results are to come, and what of windows follows from it where the query leaves it open."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from query.binder.clauses import duration_ms, windowing_of
from query.model.errors import QueryError
from query.model.limits import LATENCY_MS_MAX
from query.model.timestamps import duration
from query.plan.windows import PART_MIN_MS, WindowsError, parts_within
from query.plan.within import PERCENT_DEFAULT, OnMiss, Within, chosen_grace_ms
from query.syntax import ast

if TYPE_CHECKING:
    from query.plan.windows import Windowing
    from query.syntax.ast import WithinClause


def check_live(query: ast.Query) -> None:
    """Raises QueryError where a query that is to end with its input says how soon its results are to come."""
    if query.within is not None:
        message = "WITHIN is for live jobs: with --once windows come when the logs are read"
        raise QueryError(message, query.text, query.within.span, hint="leave out WITHIN, or --once")


def windows_and_limit(query: ast.Query) -> tuple[Windowing | None, Within | None]:
    """The windows of a query, and how soon their results are to come; raises QueryError where that cannot be."""
    windowing, clause = windowing_of(query), query.within
    if clause is None:
        return windowing, None
    if windowing is None:
        hint = "add windows before it, as in WINDOWING 10 SECONDS WITHIN 500 MILLISECONDS"
        raise QueryError("WITHIN needs WINDOWING", query.text, clause.span, hint=hint)
    limit_ms = duration_ms(clause.limit)
    if not 1 <= limit_ms <= LATENCY_MS_MAX:
        hint = "as in WITHIN 500 MILLISECONDS"
        raise QueryError("WITHIN takes 1 millisecond to 1 day", query.text, clause.limit.span, hint=hint)
    windowing = _in_parts(query, clause, windowing, limit_ms)
    waits = not windowing.changes or windowing.pane_ms < PART_MIN_MS
    if waits and windowing.grace_ms is not None and windowing.grace_ms >= limit_ms:
        raise _too_much_grace(query, clause, windowing.grace_ms, limit_ms, of_parts=windowing.changes)
    is_chosen = waits and windowing.grace_ms is None and _has_grace(query)
    on_miss = cast("OnMiss", (clause.on_miss or "LATE").lower())
    percent = None if clause.is_average else clause.percent or PERCENT_DEFAULT
    return windowing, Within(limit_ms, percent, on_miss, chosen_grace_ms(limit_ms) if is_chosen else None)


def _in_parts(query: ast.Query, clause: WithinClause, windowing: Windowing, limit_ms: int) -> Windowing:
    try:
        windowing = parts_within(windowing, limit_ms)
        windowing.check()
    except WindowsError as error:
        message = f"changes of these windows cannot come within {duration(limit_ms)}: {error}"
        hint = "give it more time, or leave EMIT CHANGES out"
        raise QueryError(message, query.text, clause.span, hint=hint) from None
    return windowing


def _has_grace(query: ast.Query) -> bool:
    """Whether late events are awaited where the query does not say how long: not of another job's results, nor of what
    a join of streams gives."""
    joins_streams = query.join is not None and isinstance(query.join.source, ast.Stream)
    return not isinstance(query.source, ast.App) and not joins_streams


def _too_much_grace(
    query: ast.Query, clause: WithinClause, grace_ms: int, limit_ms: int, *, of_parts: bool
) -> QueryError:
    why = "parts under a second wait for GRACE, which" if of_parts else "GRACE alone"
    message = f"results cannot come within {duration(limit_ms)}: {why} is {duration(grace_ms)}"
    hint = f"write WITHIN more than {duration(grace_ms)}, as in WITHIN {2 * grace_ms} MILLISECONDS, or a shorter GRACE"
    return QueryError(message, query.text, clause.span, hint=hint)
