"""Calls of aggregates as people write them: what is wrong with one, and what it means."""

from __future__ import annotations

from query import ast
from query.aggregates import AGGREGATES, AggregateFunction, ParameterError, Parameters
from query.errors import QueryError, Span, listed, nearest
from query.functions import FUNCTIONS
from query.printer import format_name

# What other dialects have: what to write instead.
_FOREIGN = {
    "ARG_MAX": "LAST", "ARG_MIN": "FIRST", "ARRAY_AGG": "COLLECT", "COLLECT_LIST": "COLLECT", "GROUP_CONCAT": "COLLECT",
    "LIST": "COLLECT", "MEAN": "AVG", "MEDIAN": "APPROX_MEDIAN", "MODE": "APPROX_TOP_K",
    "PERCENTILE": "APPROX_QUANTILE", "PERCENTILE_CONT": "APPROX_QUANTILE", "PERCENTILE_DISC": "APPROX_QUANTILE",
    "QUANTILE": "APPROX_QUANTILE",
    "STRING_AGG": "COLLECT", "TOP_K": "APPROX_TOP_K",
}  # fmt: skip
# With DISTINCT these are what they are without it.
_SAME = frozenset(("MIN", "MAX", "ANY_VALUE", "BOOL_AND", "BOOL_OR", "EVERY", "APPROX_COUNT_DISTINCT", "COLLECT_SET"))


def aggregate_of(call: ast.Call, text: str) -> AggregateFunction:
    """The aggregate that a call is of; raises QueryError if there is none, or if it does not take these arguments."""
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


def parameters_of(call: ast.Call, function: AggregateFunction, text: str) -> Parameters:
    """The constants of a call, none left out; raises QueryError."""
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


def _wrong_number(function: AggregateFunction, text: str, span: Span) -> QueryError:
    if function.parameters:
        message = f"{function.name} is written {function.signature}"
        return QueryError(message, text, span, hint=f"as in {function.example}")
    column = "DISTINCT column" if function.distinct else "column"
    or_star = " or COUNT(*)" if function.key == "COUNT" else ""
    return QueryError(f"{function.name} takes one argument: {function.name}({column}){or_star}", text, span)
