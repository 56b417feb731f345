"""Parses the text of a query to its tree."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from lark import Token, Transformer_NonRecursive, UnexpectedInput, v_args
from lark.exceptions import VisitError

from query.model.errors import QueryError, SourceSpan, listed, nearest, printable
from query.model.limits import (
    APP_NAME_MAX,
    BRANCHES_OF_UNION_MAX,
    DEPTH_MAX,
    PERCENT_MAX,
    PERCENT_MIN,
    QUERY_BYTES_MAX,
    SUBQUERIES_MAX,
)
from query.model.streams import selection
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
    RecoverClause,
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
    within,
)
from query.syntax.error_messages import syntax_error
from query.syntax.grammar import grammar, grammar_text
from query.syntax.printer import format_source
from query.syntax.size import check_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lark.tree import Meta

TYPE_NAMES = {
    "VARCHAR": ("VARCHAR", "STRING", "TEXT", "CHAR"),
    "BIGINT": ("BIGINT", "INTEGER", "INT", "LONG", "SMALLINT", "TINYINT"),
    "DOUBLE": ("DOUBLE", "FLOAT", "REAL", "NUMERIC", "DECIMAL", "NUMBER"),
    "BOOLEAN": ("BOOLEAN", "BOOL"),
    "TIMESTAMP": ("TIMESTAMP", "DATETIME", "TIMESTAMPTZ"),
}
"""The types of CAST, with their accepted names."""


_TERMINAL = re.compile(r"^[A-Z_]+(?:\.\d+)?: /(?P<words>.*?)(?:\\b|\(\?=\\s\*\\\(\))/i$", re.MULTILINE)
_OPTIONAL_BEGINNING = re.compile(r"\((\w+)\)\?(\w+)")


def parse(text: str, scalar_functions: Mapping[str, str]) -> Query:
    """The tree of one query; raises QueryError for any other text. Linear in the text's length.

    `scalar_functions`: the signature of each, by its name in capitals. A call of any other function is an aggregate.

    >>> parse("SELECT COUNT(*) FROM web", {}).source.name
    'web'
    """
    _check_text(text)
    try:
        query: Query = _Builder(text, scalar_functions).transform(grammar().parse(text))
    except UnexpectedInput as error:
        raise syntax_error(error, text) from None
    except VisitError as error:
        raise error.orig_exc from None
    for part in within(query):
        check_size(part)
    return query


@cache
def keywords() -> frozenset[str]:
    """The grammar's own words, in capitals.

    >>> {"SELECT", "OUTER", "SECOND", "SECONDS"} <= keywords()
    True
    """
    found = set()
    for terminal in _TERMINAL.finditer(grammar_text()):
        pattern = _OPTIONAL_BEGINNING.sub(r"\2 \1\2", terminal["words"].replace(r"\s", " "))
        singular = {word.upper() for word in re.findall("[a-z_]{2,}", pattern)}
        found |= singular | {f"{word}S" for word in singular if ")s?" in pattern}
    return frozenset(found)


def _check_text(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise QueryError("this is not valid Unicode text", text, SourceSpan(error.start, error.start + 1)) from None
    if size > QUERY_BYTES_MAX:
        raise QueryError(f"the query is {size:,} bytes long; at most {QUERY_BYTES_MAX:,} are allowed")
    if not text.strip():
        raise QueryError("the query is empty", hint="a query begins with SELECT, as in SELECT COUNT(*) FROM web")
    for offset, character in enumerate(text):
        if (character < " " and character not in "\t\n\r") or "\x7f" <= character < "\xa0":
            message = f"a query cannot hold the control character U+{ord(character):04X}"
            raise QueryError(message, text, SourceSpan(offset, offset + 1))


def _span(meta: Meta) -> SourceSpan:
    return SourceSpan(meta.start_pos, meta.end_pos)


def _unquoted(token: Token) -> str:
    """The text inside a string or a quoted name."""
    quote = token[0]
    return str(token)[1:-1].replace(quote * 2, quote)


def _word(token: Token) -> str:
    return _unquoted(token) if token.type == "QUOTED" else str(token)


def _place(token: Token) -> SourceSpan:
    return SourceSpan(token.start_pos or 0, token.end_pos or 0)


def _literal(token: Token) -> Literal:
    span = _place(token)
    match token.type:
        case "INTEGER":
            return Literal(_integer(token), "integer", span)
        case "DECIMAL":
            return Literal(float(token), "number", span)
        case "STRING":
            return Literal(_unquoted(token), "string", span)
        case "NULL":
            return Literal(None, "null", span)
        case _:
            return Literal(token.type == "TRUE", "boolean", span)


def _integer(token: Token) -> int:
    """The value of a run of digits; one too long for any check to pass is cut so that it stays cheap."""
    digits = token.lstrip("0") or "0"
    return int(digits[:30])


@v_args(meta=True)
class _Builder(Transformer_NonRecursive[Token, Any]):
    """Builds the tree: one method for each rule of the grammar, which gets the results of its parts."""

    def __init__(self, text: str, scalar_functions: Mapping[str, str]) -> None:
        super().__init__()
        self._text = text
        self._scalar_functions = scalar_functions
        self._parentheses: dict[int, int] = {}

    def start(self, _: Meta, parts: list[Query]) -> Query:
        return parts[0]

    def query(self, _: Meta, parts: list[Any]) -> Query:
        distinct, select, read, where, group_by, having, order_by, limit, window, emit, *last = parts
        within, straggler, recover, trees = last
        source, keyed, join, form = read or (None, None, None, None)
        if form is not None and window is not None:
            raise QueryError("a query has its windows once", self._text, window.span, hint="leave one of the two out")
        rows, limit_span = limit or (None, SourceSpan())
        count, trees_span = trees or (None, SourceSpan())
        changes, emit_span = emit or (False, SourceSpan())
        return Query(
            tuple(select), source, where, group_by or (), order_by or (), rows, window or form, join,
            distinct is not None, having, self._text, limit_span, count, trees_span, changes, emit_span,
            straggler, recover, keyed, within,
        )  # fmt: skip

    def items(self, _: Meta, parts: list[SelectItem]) -> list[SelectItem]:
        return parts

    def select_star(self, meta: Meta, _: list[Token]) -> SelectItem:
        return SelectItem(Star(_span(meta)), None, _span(meta))

    def select_item(self, meta: Meta, parts: list[Any]) -> SelectItem:
        expression, alias = parts
        return SelectItem(expression, None if alias is None else _word(alias), _span(meta))

    def from_clause(
        self, _: Meta, parts: list[Any]
    ) -> tuple[Stream | App | Subquery, KeyedClause | None, Join | None, WindowClause | None]:
        source, keyed, *joins, form = parts
        if len(joins) > 1:
            hint = "let another job do the first JOIN, and read its results with FROM app('its name')"
            raise QueryError("a query has one JOIN at most", self._text, joins[1].span, hint=hint)
        if isinstance(source, TableRef):
            hint = "FROM a stream JOIN the table: its rows are no events"
            raise QueryError("a table can only be joined", self._text, source.span, hint=hint)
        return source, keyed, joins[0] if joins else None, form

    def stream(self, meta: Meta, parts: list[Any]) -> Stream:
        names, alias = parts
        return Stream(selection(map(_word, names)), None if alias is None else _word(alias), _span(meta))

    def streams(self, _: Meta, parts: list[Token]) -> list[Token]:
        for token in parts:
            if "," in token:
                hint = 'several streams are written one by one, as in FROM web, "api-*"'
                raise QueryError("the name of a stream has no comma", self._text, _place(token), hint=hint)
        return parts

    def named(self, meta: Meta, parts: list[Any]) -> App | TableRef:
        function, string, _, alias = parts
        kinds: dict[str, type[App | TableRef]] = {"app": App, "table": TableRef}
        kind = kinds.get(_word(function).lower())
        if kind is None:
            hint = "the results of another job are app('its name'), a file of rows is table('its name')"
            raise QueryError(
                f"there is no {printable(_word(function))}() to read", self._text, _place(function), hint=hint
            )
        name = _unquoted(string)
        if not name or len(name) + name.count("'") > APP_NAME_MAX:
            what = "a job to read" if kind is App else "a table"
            message = f"the name of {what} has 1 to {APP_NAME_MAX} characters"
            raise QueryError(message, self._text, _place(string))
        return kind(name, None if alias is None else _word(alias), _span(meta))

    def subquery(self, meta: Meta, parts: list[Any]) -> Subquery:
        *between, alias = parts
        branches = tuple(part for part in between if isinstance(part, Query))
        found = Subquery(branches, None if alias is None else _word(alias), _span(meta))
        if found.depth > SUBQUERIES_MAX:
            message = f"at most {SUBQUERIES_MAX} sub-queries may be inside each other"
            raise QueryError(message, self._text, found.span)
        if len(branches) > BRANCHES_OF_UNION_MAX:
            message = f"UNION ALL joins at most {BRANCHES_OF_UNION_MAX} queries"
            raise QueryError(message, self._text, found.span)
        return found

    def join(self, meta: Meta, parts: list[Any]) -> Join:
        kind, source, within, on = parts
        if isinstance(source, Subquery):
            hint = "JOIN takes a stream, the results of a job, as JOIN app('NAME'), or rows of a file, as table('NAME')"
            raise QueryError("a sub-query cannot be joined", self._text, source.span, hint=hint)
        if isinstance(source, Stream) and within is None:
            rows = "the results of a job are app('NAME'), rows of a file table('NAME')"
            hint = f"as in JOIN {format_source(source)} WITHIN 30 MINUTES ON ...; {rows}"
            message = "a stream is joined within a time: what of it may meet an event has to end"
            raise QueryError(message, self._text, source.span, hint=hint)
        if not isinstance(source, Stream) and within is not None:
            message = "WITHIN is for two streams: these are rows, which have no time of their own"
            raise QueryError(message, self._text, within.span, hint="leave WITHIN out")
        return Join(source, on, kind is not None and kind.type == "LEFT_OUTER", _span(meta), within)

    def keyed(self, meta: Meta, parts: list[Any]) -> KeyedClause:
        *keys, grouping, over = parts
        name, grouping_span = grouping or (None, SourceSpan())
        workers, workers_span = over or (None, SourceSpan())
        return KeyedClause(tuple(keys), name, workers, _span(meta), grouping_span, workers_span)

    def grouping(self, _: Meta, parts: list[Token]) -> tuple[str, SourceSpan]:
        return _word(parts[0]).lower(), _place(parts[0])

    def over(self, meta: Meta, parts: list[Token]) -> tuple[int, SourceSpan]:
        return _integer(parts[0]), _span(meta)

    def within(self, _: Meta, parts: list[Duration]) -> Duration:
        return parts[0]

    def where_clause(self, _: Meta, parts: list[Expression]) -> Expression:
        return parts[0]

    def group_clause(self, _: Meta, parts: list[Expression]) -> tuple[Expression, ...]:
        return tuple(parts)

    def having_clause(self, _: Meta, parts: list[Expression]) -> Expression:
        return parts[0]

    def order_clause(self, _: Meta, parts: list[OrderItem]) -> tuple[OrderItem, ...]:
        return tuple(parts)

    def order_item(self, meta: Meta, parts: list[Any]) -> OrderItem:
        expression, direction, nulls = parts
        descending = direction is not None and direction.type == "DESC"
        return OrderItem(expression, descending, nulls is not None and nulls.type == "NULLS_FIRST", _span(meta))

    def limit_clause(self, meta: Meta, parts: list[Token]) -> tuple[int, SourceSpan]:
        return _integer(parts[0]), _span(meta)

    def windows(self, meta: Meta, parts: list[Any]) -> WindowClause:
        *sizes, grace = parts
        return WindowClause(tuple(sizes), None, grace, _span(meta))

    def sessions(self, meta: Meta, parts: list[Any]) -> WindowClause:
        return WindowClause((), parts[0], parts[1], _span(meta))

    def tumbling(self, meta: Meta, parts: list[Any]) -> WindowClause:
        size, grace, _ = parts
        return WindowClause((SizeClause(size, None, size.span),), None, grace, _span(meta))

    def hopping(self, meta: Meta, parts: list[Any]) -> WindowClause:
        size, slide, grace, _ = parts
        return WindowClause((SizeClause(size, slide, _span(meta)),), None, grace, _span(meta))

    def session(self, meta: Meta, parts: list[Any]) -> WindowClause:
        gap, grace, _ = parts
        return WindowClause((), gap, grace, _span(meta))

    def window_size(self, meta: Meta, parts: list[Any]) -> SizeClause:
        return SizeClause(parts[0], parts[1], _span(meta))

    def grace(self, _: Meta, parts: list[Duration]) -> Duration:
        return parts[0]

    def duration(self, meta: Meta, parts: list[Token]) -> Duration:
        amount, unit = parts
        return Duration(_integer(amount), unit.upper().rstrip("S") + "S", _span(meta))

    def emit_clause(self, meta: Meta, parts: list[Token]) -> tuple[bool, SourceSpan]:
        return parts[0].type == "CHANGES", _span(meta)

    def within_clause(self, meta: Meta, parts: list[Any]) -> WithinClause:
        limit, share, on_miss = parts
        is_average = isinstance(share, Token)
        percent = None if is_average else share
        return WithinClause(limit, percent, is_average, None if on_miss is None else on_miss.type, _span(meta))

    def percent(self, _: Meta, parts: list[Token]) -> float:
        percent, place = float(parts[0]), _place(parts[0])
        if not PERCENT_MIN <= percent <= PERCENT_MAX:
            message = f"AT takes {PERCENT_MIN} to {PERCENT_MAX} percent"
            raise QueryError(message, self._text, place, hint="as in AT 99 PERCENT, or ON AVERAGE")
        return percent

    def straggler_clause(self, meta: Meta, parts: list[Any]) -> StragglerClause:
        option, *after = parts
        stated = next((_integer(token) for token in after if token is not None), None)
        return StragglerClause(option.type, stated, _span(meta))

    def recover_clause(self, meta: Meta, parts: list[Duration]) -> RecoverClause:
        return RecoverClause(parts[0], _span(meta))

    def trees_clause(self, meta: Meta, parts: list[Token]) -> tuple[int, SourceSpan]:
        return _integer(parts[0]), _span(meta)

    def or_(self, meta: Meta, parts: list[Expression]) -> Logical:
        return Logical("OR", tuple(parts), _span(meta))

    def and_(self, meta: Meta, parts: list[Expression]) -> Logical:
        return Logical("AND", tuple(parts), _span(meta))

    def not_(self, meta: Meta, parts: list[Any]) -> Unary:
        return Unary("NOT", parts[1], _span(meta))

    def binary(self, meta: Meta, parts: list[Any]) -> Binary:
        left, token, right = parts
        operator = {"==": "=", "!=": "<>"}.get(str(token), str(token))
        return Binary(operator, left, right, _span(meta))

    def in_(self, meta: Meta, parts: list[Any]) -> In:
        operand, negation, *items, _ = parts
        return In(operand, tuple(items), negation is not None, _span(meta))

    def like(self, meta: Meta, parts: list[Any]) -> Like:
        operand, negation, token, pattern = parts
        return Like(operand, pattern, negation is not None, token.type, _span(meta))

    def between(self, meta: Meta, parts: list[Any]) -> Between:
        operand, negation, low, high = parts
        return Between(operand, low, high, negation is not None, _span(meta))

    def when(self, _: Meta, parts: list[Expression]) -> tuple[Expression, Expression]:
        condition, result = parts
        return condition, result

    def case(self, meta: Meta, parts: list[Any]) -> Case:
        operand, *branches, otherwise, _ = parts
        return Case(operand, tuple(branches), otherwise, _span(meta))

    def cast(self, meta: Meta, parts: list[Any]) -> Cast:
        operand, token, _ = parts
        known = {name: type_ for type_, names in TYPE_NAMES.items() for name in names}
        name = _word(token).upper()
        if name not in known:
            guess = nearest(name, known)
            hint = f"did you mean {guess}?" if guess else f"the types are {listed(TYPE_NAMES)}"
            raise QueryError(f"there is no type {printable(_word(token))}", self._text, _place(token), hint=hint)
        return Cast(operand, known[name], _span(meta))

    def extract(self, meta: Meta, parts: list[Any]) -> FunctionCall:
        token, operand, _ = parts
        return FunctionCall("DATE_PART", (Literal(_word(token).lower(), "string", _place(token)), operand), _span(meta))

    def is_null(self, meta: Meta, parts: list[Any]) -> IsNull:
        operand, negation, _ = parts
        return IsNull(operand, negation is not None, _span(meta))

    def negative(self, meta: Meta, parts: list[Any]) -> Expression:
        _, operand = parts
        match operand:
            case Literal(value=int() | float() as value, type="integer" | "number" as type_) if value >= 0:
                return Literal(-value, type_, _span(meta))
        return Unary("-", operand, _span(meta))

    def parenthesised(self, meta: Meta, parts: list[Any]) -> Expression:
        expression: Expression = parts[0]
        depth = self._parentheses[id(expression)] = self._parentheses.get(id(expression), 0) + 1
        if depth > DEPTH_MAX:
            message = f"this is nested too deeply: more than {DEPTH_MAX} parentheses inside each other"
            raise QueryError(message, self._text, _span(meta))
        return expression

    def call(self, meta: Meta, parts: list[Any]) -> AggregateCall | FunctionCall:
        name, distinct, given, _, where = parts
        function, arguments = _word(name).upper(), tuple(given or ())
        if function not in self._scalar_functions:
            return AggregateCall(function, arguments, distinct is not None, where, _span(meta))
        if any(isinstance(argument, Star) for argument in arguments):
            hint = f"it is written {self._scalar_functions[function]}"
            raise QueryError(f"{function} takes no *", self._text, arguments[0].span, hint=hint)
        if distinct is not None or where is not None:
            message = f"{function} is no aggregate: it takes neither DISTINCT nor FILTER"
            raise QueryError(message, self._text, _span(meta))
        return FunctionCall(function, arguments, _span(meta))

    def filter(self, _: Meta, parts: list[Any]) -> Expression:
        expression: Expression = parts[0]
        return expression

    def column(self, meta: Meta, parts: list[Token]) -> ColumnRef:
        return ColumnRef(tuple(_word(part) for part in parts), _span(meta))

    def arguments(self, _: Meta, parts: list[Any]) -> list[Any]:
        return [Star(_place(part)) if isinstance(part, Token) else part for part in parts]

    def literal(self, _: Meta, parts: list[Token]) -> Literal:
        return _literal(parts[0])

    def name(self, _: Meta, parts: list[Token]) -> Token:
        return parts[0]

    def part(self, _: Meta, parts: list[Token]) -> Token:
        return parts[0]
