"""The WINDOWING clause of a query to the windows of its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from query import ast
from query.aggregate_calls import aggregate_of
from query.errors import QueryError
from query.limits import DAY_MS
from query.windows import Windowing, WindowsError, WindowSize, session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from query.ast_windows import Duration, Window
    from query.scope import Scope

GRACE_DAYS_MAX = 1
_UNIT_MS = {"MILLISECONDS": 1, "SECONDS": 1_000, "MINUTES": 60_000, "HOURS": 3_600_000, "DAYS": DAY_MS}


def windowing_of(query: ast.Query) -> Windowing | None:
    """The windows of a query, if it has any; raises QueryError where they cannot be had."""
    window = query.window
    if window is None:
        if query.changes:
            hint = "add windows before it, as in WINDOWING 1 MINUTE EMIT CHANGES"
            raise QueryError("EMIT CHANGES needs WINDOWING", query.text, query.emit_span, hint=hint)
        return None
    sizes = (WindowSize(_ms(one.size), _ms(one.slide or one.size)) for one in window.sizes)
    gap = None if window.gap is None else session(_ms(window.gap))
    windowing = Windowing(tuple(sorted(sizes)), gap, query.changes, _grace_ms(query, window))
    try:
        windowing.check()
    except WindowsError as error:
        raise QueryError(str(error), query.text, window.span, hint=error.hint) from None
    return windowing


def _grace_ms(query: ast.Query, window: Window) -> int | None:
    grace = window.grace
    if grace is None:
        return None
    if isinstance(query.source, ast.App):
        message = "GRACE is for events that come late: the results of another job never do"
        raise QueryError(message, query.text, grace.span)
    if _ms(grace) > GRACE_DAYS_MAX * DAY_MS:
        raise QueryError(f"GRACE may be at most {GRACE_DAYS_MAX} day long", query.text, grace.span)
    return _ms(grace)


def _ms(duration: Duration) -> int:
    return duration.amount * _UNIT_MS[duration.unit]


def check_windows(query: ast.Query, scope: Scope, windowing: Windowing | None, *, grouped: bool) -> None:
    """Raises QueryError where an event's own window is asked for, and events are in several or in none yet; or for
    what sessions cannot have."""
    if windowing is None or windowing.is_tumbling:
        return
    if windowing.session is not None:
        _check_session(query, grouped=grouped)
    keys = [key for key in query.group_by if not isinstance(key, ast.Column)]
    for expression in ast.expressions(query):
        inside = not grouped or any(expression is key for key in keys)
        for bound in _of_events(expression, scope, inside=inside):
            name = bound.parts[0]
            hint = f"{name} of the rows of a query that groups is there: it is that of the group's window"
            message = f"{name} is not known of a single event here: these windows overlap, or follow from other events"
            raise QueryError(message, query.text, bound.span, hint=hint)


def _check_session(query: ast.Query, *, grouped: bool) -> None:
    assert query.window is not None
    if not grouped:
        hint = "as in SELECT user, COUNT(*) FROM web GROUP BY user WINDOWING SESSION 30 MINUTES"
        raise QueryError("sessions are of groups", query.text, query.window.span, hint=hint)
    for call in _calls(query):
        if aggregate_of(call, query.text).wide:
            message = f"{call.function} keeps many values of a group: a session cannot have it"
            raise QueryError(message, query.text, call.span)


def _calls(query: ast.Query) -> Iterator[ast.Call]:
    pending = list(ast.expressions(query))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            yield node
        pending += ast.children(node)


def _of_events(node: ast.Expression | ast.Star, scope: Scope, *, inside: bool) -> Iterator[ast.Column]:
    """The window bounds in an expression that are looked at for each event."""
    if inside and isinstance(node, ast.Column) and scope.is_window_bound(node):
        yield node
    for child in ast.children(node):
        yield from _of_events(child, scope, inside=inside or isinstance(node, ast.Call))
