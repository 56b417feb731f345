"""Binds the clauses of a query: its windows, the keys of its JOIN, and the parameters of its aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from query.functions import FUNCTIONS
from query.functions.aggregates import AGGREGATES, AggregateFunction, ParameterError, Parameters, aggregate_of_job
from query.model.errors import QueryError, SourceSpan, listed, nearest
from query.model.limits import DAY_MS, KEYS_MAX, WITHIN_MS_MAX
from query.plan.stragglers import LEAP_PANES_MAX, LEAP_PANES_MIN, RECOVER_MS_MAX, Stragglers
from query.plan.windows import PlanWindowSize, Windowing, WindowsError, session
from query.syntax import ast
from query.syntax.printer import format_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from query.binder.scope import Scope
    from query.syntax.ast import Duration, WindowClause


# Names of other dialects, and what to write instead.
_FOREIGN = {
    "ARG_MAX": "LAST", "ARG_MIN": "FIRST", "ARRAY_AGG": "COLLECT", "COLLECT_LIST": "COLLECT", "GROUP_CONCAT": "COLLECT",
    "LIST": "COLLECT", "MEAN": "AVG", "MEDIAN": "APPROX_MEDIAN", "MODE": "APPROX_TOP_K",
    "PERCENTILE": "APPROX_QUANTILE", "PERCENTILE_CONT": "APPROX_QUANTILE", "PERCENTILE_DISC": "APPROX_QUANTILE",
    "QUANTILE": "APPROX_QUANTILE",
    "STRING_AGG": "COLLECT", "TOP_K": "APPROX_TOP_K",
}  # fmt: skip
# DISTINCT makes no difference to these.
_SAME = frozenset(("MIN", "MAX", "ANY_VALUE", "BOOL_AND", "BOOL_OR", "EVERY", "APPROX_COUNT_DISTINCT", "COLLECT_SET"))


ARGUMENTS_OF_JOB_MAX = 16
"""Upper bound on the values of an event that an aggregate of a job's own code takes."""


def aggregate_of(call: ast.AggregateCall, text: str) -> AggregateFunction:
    """The aggregate function that is called; raises QueryError if there is none, or if it does not take these
    arguments."""
    if call.gives:
        return _of_job(call, text)
    names = {row.name for row in AGGREGATES.values()}
    if call.function not in names:
        guess = _FOREIGN.get(call.function.removeprefix("APPROX_")) or nearest(call.function, [*names, *FUNCTIONS])
        known = f"the aggregates are {listed(sorted(names))}; docs/elf-ql.md lists all"
        known = f"did you mean {guess}?" if guess else known
        raise QueryError(f"there is no function {format_name(call.function)}", text, call.span, hint=known)
    function = AGGREGATES.get(call.aggregate)
    if function is None:
        hint = f"leave it out: {call.function} is the same without" if call.function in _SAME else None
        raise QueryError(f"{call.function} takes no DISTINCT", text, call.span, hint=hint)
    star = bool(call.arguments) and isinstance(call.arguments[0], ast.Star)
    if not call.arguments or (star and function.key != "COUNT") or (call.arguments[1:] and not function.parameters):
        raise _wrong_number(function, text, call.span)
    parameters_of(call, function, text)
    return function


def _of_job(call: ast.AggregateCall, text: str) -> AggregateFunction:
    """The aggregate of a job's own code that is called; raises QueryError unless it takes these arguments."""
    if call.distinct:
        raise QueryError(f"{call.function} takes no DISTINCT", text, call.span, hint="leave it out")
    if not call.arguments or any(isinstance(one, ast.Star) for one in call.arguments):
        hint = f"as in {call.function}(user, amount)"
        raise QueryError(f"{call.function} takes values of events", text, call.span, hint=hint)
    if len(call.arguments) > ARGUMENTS_OF_JOB_MAX:
        message = f"{call.function} takes at most {ARGUMENTS_OF_JOB_MAX} values of an event"
        raise QueryError(message, text, call.span)
    return aggregate_of_job(call.function, call.gives)


def parameters_of(call: ast.AggregateCall, function: AggregateFunction, text: str) -> Parameters:
    """The constants of a call, with defaults filled in; raises QueryError."""
    if function.is_of_job:
        return ()
    given = call.arguments[1:]
    for argument in given:
        if not (isinstance(argument, ast.Literal) and argument.type in ("integer", "number")):
            message = f"all but the first argument of {function.name} are numbers as such"
            raise QueryError(message, text, argument.span, hint=f"as in {function.example}")
    try:
        return function.complete(tuple(argument.value for argument in given if isinstance(argument, ast.Literal)))
    except ParameterError as error:
        span = call.arguments[error.number].span if error.number else call.span
        raise QueryError(str(error), text, span, hint=f"as in {function.example}") from None


def _wrong_number(function: AggregateFunction, text: str, span: SourceSpan) -> QueryError:
    if function.parameters:
        message = f"{function.name} is written {function.signature}"
        return QueryError(message, text, span, hint=f"as in {function.example}")
    column = "DISTINCT column" if function.distinct else "column"
    or_star = " or COUNT(*)" if function.key == "COUNT" else ""
    return QueryError(f"{function.name} takes one argument: {function.name}({column}){or_star}", text, span)


_HINT = "as in ON web.product = b.product AND web.store = b.store"


def join_keys(join: ast.Join, scope: Scope, text: str) -> list[tuple[ast.ColumnRef, ast.ColumnRef]]:
    """The pairs of columns that must be equal, FROM's column first; raises QueryError for any other condition."""
    keys = [_ordered(condition, scope, text) for condition in _conjuncts(join.on)]
    if len(keys) > KEYS_MAX:
        raise QueryError(f"ON may compare at most {KEYS_MAX} pairs of columns", text, join.on.span)
    return keys


def within_ms_of(join: ast.Join, text: str) -> int:
    """The greatest difference between the times of two joined events, 0 for a JOIN with rows; raises QueryError."""
    if join.within is None:
        return 0
    within_ms = duration_ms(join.within)
    if not 1 <= within_ms <= WITHIN_MS_MAX:
        hint = "events of the joined stream are kept for so long: as in WITHIN 30 MINUTES"
        raise QueryError("WITHIN takes 1 millisecond to 1 day", text, join.within.span, hint=hint)
    return within_ms


def _conjuncts(condition: ast.Expression) -> Iterator[ast.Expression]:
    if isinstance(condition, ast.Logical) and condition.operator == "AND":
        for operand in condition.operands:
            yield from _conjuncts(operand)
    else:
        yield condition


def _ordered(condition: ast.Expression, scope: Scope, text: str) -> tuple[ast.ColumnRef, ast.ColumnRef]:
    match condition:
        case ast.Binary(operator="=", left=ast.ColumnRef() as left, right=ast.ColumnRef() as right):
            pass
        case _:
            message = "ON takes columns that have to be equal, joined by AND, and nothing else"
            raise QueryError(message, text, condition.span, hint=_HINT)
    for column in (left, right):
        if scope.is_window_bound(column):
            hint = "a window_start of either side is written with its name before it"
            raise QueryError(f"{column.parts[0]} cannot be used in ON", text, column.span, hint=hint)
    sides = scope.is_joined(left), scope.is_joined(right)
    if sides[0] == sides[1]:
        which = "the joined rows" if sides[0] else "what FROM names"
        message = f"both of these are columns of {which}: ON compares one of each side"
        raise QueryError(message, text, condition.span, hint=_HINT)
    return (right, left) if sides[0] else (left, right)


GRACE_DAYS_MAX = 1
_UNIT_MS = {"MILLISECONDS": 1, "SECONDS": 1_000, "MINUTES": 60_000, "HOURS": 3_600_000, "DAYS": DAY_MS}


def windowing_of(query: ast.Query) -> Windowing | None:
    """The windows of a query, if it has any; raises QueryError for invalid windows."""
    window = query.window
    if window is None:
        if query.changes:
            hint = "add windows before it, as in WINDOWING 1 MINUTE EMIT CHANGES"
            raise QueryError("EMIT CHANGES needs WINDOWING", query.text, query.emit_span, hint=hint)
        return None
    sizes = (PlanWindowSize(duration_ms(one.size), duration_ms(one.slide or one.size)) for one in window.sizes)
    gap = None if window.gap is None else session(duration_ms(window.gap))
    windowing = Windowing(tuple(sorted(sizes)), gap, query.changes, _grace_ms(query, window))
    try:
        windowing.check()
    except WindowsError as error:
        raise QueryError(str(error), query.text, window.span, hint=error.hint) from None
    return windowing


def _grace_ms(query: ast.Query, window: WindowClause) -> int | None:
    grace = window.grace
    if grace is None:
        return None
    if isinstance(query.source, ast.App):
        message = "GRACE is for events that come late: the results of another job never do"
        raise QueryError(message, query.text, grace.span)
    if duration_ms(grace) > GRACE_DAYS_MAX * DAY_MS:
        raise QueryError(f"GRACE may be at most {GRACE_DAYS_MAX} day long", query.text, grace.span)
    return duration_ms(grace)


def stragglers_of(query: ast.Query) -> Stragglers:
    """Reads ON STRAGGLER and RECOVER FOR; raises QueryError where that makes no sense."""
    straggler, recover = query.straggler, query.recover
    for name, clause in (("ON STRAGGLER", straggler), ("RECOVER FOR", recover)):
        if clause is not None and query.window is None:
            hint = "add windows before it, as in WINDOWING 10 SECONDS"
            raise QueryError(f"{name} needs WINDOWING", query.text, clause.span, hint=hint)
        if clause is not None and isinstance(query.source, ast.App):
            message = f"{name} is for several agents: the results of another job are read by one"
            raise QueryError(message, query.text, clause.span)
    after = None if straggler is None else straggler.after
    if straggler is not None and after is not None and not LEAP_PANES_MIN <= after <= LEAP_PANES_MAX:
        message = f"an agent is leaped over after {LEAP_PANES_MIN} to {LEAP_PANES_MAX:,} panes"
        hint = "one pane behind is every agent for a moment: as in LEAP AFTER 2 PANES" if after < LEAP_PANES_MIN else ""
        raise QueryError(message, query.text, straggler.span, hint=hint)
    if recover is not None and duration_ms(recover.time) > RECOVER_MS_MAX:
        raise QueryError("RECOVER FOR may be at most 1 hour long", query.text, recover.span)
    leaps = straggler is not None and straggler.choice != "WAIT"
    return Stragglers(
        waits=straggler is not None and not leaps,
        leap_panes=(after or LEAP_PANES_MIN) if leaps else None,
        recover_ms=None if recover is None else duration_ms(recover.time),
        mirrors=straggler is not None and straggler.choice == "MIRROR",
    )


def duration_ms(duration: Duration) -> int:
    """The length of time in milliseconds."""
    return duration.amount * _UNIT_MS[duration.unit]


def check_windows(query: ast.Query, scope: Scope, windowing: Windowing | None, *, grouped: bool) -> None:
    """Raises QueryError where the query uses an event's own window although events are in several windows or in none
    yet, and for clauses that sessions do not support."""
    if windowing is None or windowing.is_tumbling:
        return
    if windowing.session is not None:
        _check_session(query, grouped=grouped)
    keys = [key for key in query.group_by if not isinstance(key, ast.ColumnRef)]
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


def _calls(query: ast.Query) -> Iterator[ast.AggregateCall]:
    pending = list(ast.expressions(query))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.AggregateCall):
            yield node
        pending += ast.children(node)


def _of_events(node: ast.Expression | ast.Star, scope: Scope, *, inside: bool) -> Iterator[ast.ColumnRef]:
    """The window bounds in an expression that are evaluated for each event."""
    if inside and isinstance(node, ast.ColumnRef) and scope.is_window_bound(node):
        yield node
    for child in ast.children(node):
        yield from _of_events(child, scope, inside=inside or isinstance(node, ast.AggregateCall))
