"""Prints a tree as the text of a query."""

from __future__ import annotations

import re

from query.model.streams import patterns
from query.syntax.ast import (
    AggregateCall,
    App,
    Between,
    Binary,
    Case,
    Cast,
    ColumnRef,
    Duration,
    Expression,
    FunctionCall,
    In,
    IsNull,
    Join,
    KeyedClause,
    Like,
    Literal,
    Logical,
    OrderItem,
    Query,
    SelectItem,
    SizeClause,
    Star,
    StragglerClause,
    Stream,
    Subquery,
    TableRef,
    Unary,
    WindowClause,
    WithinClause,
)

_KEYWORDS = (
    "select from where group order sort by limit windowing trees as and or not in like is null true false asc desc"
    " case distinct having between ilike rlike regexp when then else end union"
)
_PLAIN_NAME = re.compile(r"[^\W\d]\w*|@\w+")

# Binding strength of an expression; an operand that binds more weakly than its place demands needs parentheses.
_OR, _AND, _NOT, _PREDICATE, _SUM, _PRODUCT, _FACTOR, _ATOM = range(8)
_BINARY = {"||": _SUM, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}


def format_query(query: Query) -> str:
    """The query on one line, in one spelling; parsing it gives an equal tree.

    >>> from query import parse
    >>> format_query(parse("select a,count(*) from web where b == `x` group by a sort by a"))
    "SELECT a, COUNT(*) FROM web WHERE b = 'x' GROUP BY a ORDER BY a"
    """
    clauses = ["SELECT " + "DISTINCT " * query.distinct + ", ".join(map(_select_item, query.select))]
    if query.source is not None:
        clauses.append(f"FROM {format_source(query.source)}")
    if query.keyed is not None:
        clauses.append(format_keyed(query.keyed))
    if query.join is not None:
        clauses.append(format_join(query.join))
    if query.where is not None:
        clauses.append("WHERE " + format_expression(query.where))
    if query.group_by:
        clauses.append("GROUP BY " + ", ".join(map(format_expression, query.group_by)))
    if query.having is not None:
        clauses.append("HAVING " + format_expression(query.having))
    if query.order_by:
        clauses.append("ORDER BY " + ", ".join(map(_order_item, query.order_by)))
    if query.limit is not None:
        clauses.append(f"LIMIT {query.limit}")
    if query.window is not None:
        clauses.append(format_window(query.window))
    if query.changes:
        clauses.append("EMIT CHANGES")
    if query.within is not None:
        clauses.append(format_within(query.within))
    if query.straggler is not None:
        clauses.append(format_straggler(query.straggler))
    if query.recover is not None:
        clauses.append(f"RECOVER FOR {_duration(query.recover.time)}")
    if query.trees is not None:
        clauses.append(f"TREES {query.trees}")
    return " ".join(clauses)


def format_source(source: Stream | App | TableRef | Subquery) -> str:
    """A source in FROM or JOIN, with its alias.

    >>> format_source(App("top", "t"))
    "app('top') AS t"
    """
    match source:
        case App(name=name):
            text = f"app({_string(name)})"
        case TableRef(name=name):
            text = f"table({_string(name)})"
        case Subquery(branches=branches):
            text = f"({' UNION ALL '.join(map(format_query, branches))})"
        case Stream(name=name):
            text = format_streams(name)
    return text if source.alias is None else f"{text} AS {format_name(source.alias)}"


def format_streams(name: str) -> str:
    """Streams as FROM names them.

    >>> format_streams("web, api-*")
    'web, "api-*"'
    """
    return "*" if name == "*" else ", ".join(map(format_name, patterns(name)))


def format_keyed(keyed: KeyedClause) -> str:
    """The KEYED BY clause.

    >>> format_keyed(KeyedClause((ColumnRef(("user",)),), "pkg", 32))
    'KEYED BY user GROUPING pkg OVER 32 WORKERS'
    """
    grouping = "" if keyed.grouping is None else f" GROUPING {format_name(keyed.grouping)}"
    workers = "" if keyed.workers is None else f" OVER {keyed.workers} WORKERS"
    return f"KEYED BY {_list(keyed.keys)}{grouping}{workers}"


def format_join(join: Join) -> str:
    """The JOIN clause."""
    within = "" if join.within is None else f" WITHIN {_duration(join.within)}"
    return f"{'LEFT ' * join.outer}JOIN {format_source(join.source)}{within} ON {format_expression(join.on)}"


def format_window(window: WindowClause) -> str:
    """The WINDOWING clause.

    >>> format_window(WindowClause((SizeClause(Duration(10, "MINUTES"), Duration(60, "SECONDS")),)))
    'WINDOWING 10 MINUTES EVERY 60 SECONDS'
    """
    sizes = ", ".join(map(_window_size, window.sizes))
    session = "" if window.gap is None else f"SESSION {_duration(window.gap)}"
    grace = "" if window.grace is None else f" GRACE {_duration(window.grace)}"
    return f"WINDOWING {sizes}{session}{grace}"


def format_within(clause: WithinClause) -> str:
    """The WITHIN clause of a whole query.

    >>> format_within(WithinClause(Duration(500, "MILLISECONDS"), 99.5, on_miss="PARTIAL"))
    'WITHIN 500 MILLISECONDS AT 99.5 PERCENT ELSE PARTIAL'
    """
    percent = "" if clause.percent is None else f" AT {repr(clause.percent).removesuffix('.0')} PERCENT"
    otherwise = "" if clause.on_miss is None else f" ELSE {clause.on_miss}"
    return f"WITHIN {_duration(clause.limit)}{percent}{' ON AVERAGE' * clause.is_average}{otherwise}"


def format_straggler(clause: StragglerClause) -> str:
    """The ON STRAGGLER clause.

    >>> format_straggler(StragglerClause("LEAP", 3))
    'ON STRAGGLER LEAP AFTER 3 PANES'
    """
    after = "" if clause.after is None else f" AFTER {clause.after} PANES"
    return f"ON STRAGGLER {clause.choice}{after}"


def _window_size(size: SizeClause) -> str:
    return _duration(size.size) + ("" if size.slide is None else f" EVERY {_duration(size.slide)}")


def _duration(duration: Duration) -> str:
    return f"{duration.amount} {duration.unit}"


def format_expression(expression: Expression | Star) -> str:
    """The text of one expression, with no more parentheses than it needs."""
    return _format(expression, _OR)


def format_name(name: str) -> str:
    """A name as it must be written: in double quotes unless it is a plain word.

    >>> format_name("store"), format_name("order by")
    ('store', '"order by"')
    """
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in _KEYWORDS.split():
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _select_item(item: SelectItem) -> str:
    text = format_expression(item.expression)
    return text if item.alias is None else f"{text} AS {format_name(item.alias)}"


def _order_item(item: OrderItem) -> str:
    return format_expression(item.expression) + " DESC" * item.descending + " NULLS FIRST" * item.nulls_first


def _format(expression: Expression | Star, place: int) -> str:
    text, strength = _text(expression)
    return text if strength >= place else f"({text})"


def _text(expression: Expression | Star) -> tuple[str, int]:
    match expression:
        case Star():
            return "*", _ATOM
        case Literal():
            return _literal(expression)
        case ColumnRef(parts=parts):
            return ".".join(map(format_name, parts)), _ATOM
        case Cast(operand=operand, type=type_):
            return f"CAST({format_expression(operand)} AS {type_})", _ATOM
        case Case():
            return _case(expression), _ATOM
        case AggregateCall(function=function, arguments=arguments, distinct=distinct, where=where):
            only = "" if where is None else f" FILTER (WHERE {format_expression(where)})"
            return f"{format_name(function)}({'DISTINCT ' * distinct}{_list(arguments)}){only}", _ATOM
        case FunctionCall(function=function, arguments=arguments):
            return f"{format_name(function)}({_list(arguments)})", _ATOM
        case Unary(operator="NOT", operand=operand):
            return f"NOT {_format(operand, _NOT)}", _NOT
        case Unary(operand=operand):
            return f"-{_negated(operand)}", _FACTOR
        case Binary(operator=operator, left=left, right=right):
            strength = _BINARY.get(operator, _PREDICATE)
            # Comparisons do not chain: both sides must bind tighter. Arithmetic groups to the left.
            left_place = strength if operator in _BINARY else _SUM
            return f"{_format(left, left_place)} {operator} {_format(right, strength + 1)}", strength
        case Logical(operator=operator, operands=operands):
            strength = _OR if operator == "OR" else _AND
            return f" {operator} ".join(_format(operand, strength + 1) for operand in operands), strength
        case _:
            return _predicate(expression), _PREDICATE


def _case(case: Case) -> str:
    parts = ["CASE", *([] if case.operand is None else [format_expression(case.operand)])]
    for condition, result in case.branches:
        parts += ["WHEN", format_expression(condition), "THEN", format_expression(result)]
    if case.otherwise is not None:
        parts += ["ELSE", format_expression(case.otherwise)]
    return " ".join([*parts, "END"])


def _predicate(expression: In | Between | Like | IsNull) -> str:
    operand = _format(expression.operand, _SUM)
    negation = "NOT " if expression.negated else ""
    match expression:
        case In(items=items):
            return f"{operand} {negation}IN ({_list(items)})"
        case Between(low=low, high=high):
            return f"{operand} {negation}BETWEEN {_format(low, _SUM)} AND {_format(high, _SUM)}"
        case Like(pattern=pattern, operator=operator):
            return f"{operand} {negation}{operator} {_format(pattern, _SUM)}"
        case IsNull():
            return f"{operand} IS {negation}NULL"


def _list(expressions: tuple[Expression | Star, ...]) -> str:
    return ", ".join(map(format_expression, expressions))


def _literal(literal: Literal) -> tuple[str, int]:
    if literal.type == "string":
        return _string(str(literal.value)), _ATOM
    if literal.type in ("integer", "number"):
        text = repr(literal.value)
        return text, _FACTOR if text.startswith("-") else _ATOM
    return "NULL" if literal.type == "null" else str(literal.value).upper(), _ATOM


def _string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _negated(operand: Expression) -> str:
    """The operand of a minus, in parentheses where it would otherwise make `--`, a comment, or read as a negative
    number."""
    text = _format(operand, _FACTOR)
    return f"({text})" if text.startswith("-") or _is_number(operand) else text


def _is_number(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.type in ("integer", "number")
