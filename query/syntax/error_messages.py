"""Turns errors of the parser into messages in terms of the query's text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lark import Token, Tree, UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

from query.model.errors import QueryError, SourceSpan, listed, nearest, printable

if TYPE_CHECKING:
    from lark import UnexpectedInput

# Terminals of the grammar that are words, as people write them.
_KEYWORDS = {
    "_SELECT": "SELECT",
    "_FROM": "FROM",
    "_KEYED_BY": "KEYED BY",
    "_GROUPING": "GROUPING",
    "_OVER": "OVER",
    "_WORKERS": "WORKERS",
    "_JOIN": "JOIN",
    "LEFT_OUTER": "LEFT JOIN",
    "_WITHIN": "WITHIN",
    "_ON": "ON",
    "_WHERE": "WHERE",
    "_GROUP": "GROUP BY",
    "_HAVING": "HAVING",
    "_ORDER": "ORDER BY",
    "_BY": "BY",
    "_LIMIT": "LIMIT",
    "_WINDOWING": "WINDOWING",
    "_WINDOW_TUMBLING": "WINDOW TUMBLING",
    "_WINDOW_HOPPING": "WINDOW HOPPING",
    "_WINDOW_SESSION": "WINDOW SESSION",
    "_SIZE": "SIZE",
    "_ADVANCE": "ADVANCE BY",
    "_SESSION": "SESSION",
    "_EVERY": "EVERY",
    "_GRACE": "GRACE",
    "CHANGES": "EMIT CHANGES",
    "FINAL": "EMIT FINAL",
    "_AT": "AT",
    "_PERCENTS": "PERCENT",
    "ON_AVERAGE": "ON AVERAGE",
    "LATE": "LATE",
    "PARTIAL": "PARTIAL",
    "_ON_STRAGGLER": "ON STRAGGLER",
    "WAIT": "WAIT",
    "LEAP": "LEAP",
    "_AFTER": "AFTER",
    "_PANES": "PANES",
    "_RECOVER_FOR": "RECOVER FOR",
    "_TREES": "TREES",
    "_UNION_ALL": "UNION ALL",
    "_AS": "AS",
    "_AND": "AND",
    "_OR": "OR",
    "NOT": "NOT",
    "_IN": "IN",
    "_BETWEEN": "BETWEEN",
    "LIKE": "LIKE",
    "ILIKE": "ILIKE",
    "RLIKE": "RLIKE",
    "_WHEN": "WHEN",
    "_THEN": "THEN",
    "_ELSE": "ELSE",
    "END": "END",
    "_IS": "IS",
    "NULL": "NULL",
    "ASC": "ASC",
    "DESC": "DESC",
    "NULLS_FIRST": "NULLS FIRST",
    "NULLS_LAST": "NULLS LAST",
}
_CLAUSES = (
    "_SELECT", "_FROM", "_JOIN", "_WHERE", "_GROUP", "_HAVING", "_ORDER", "_LIMIT", "_WINDOWING", "_WITHIN", "_TREES",
)  # fmt: skip
_RESERVED = ("_SELECT", "_FROM", "_WHERE", "_BY", "_WINDOWING", "_AS", "_AND", "_OR", "_IN", "LIKE", "_IS")
_OPERATORS = frozenset(("_AND", "_OR", "_IN", "_BETWEEN", "LIKE", "ILIKE", "RLIKE", "_IS", "NOT"))
_UNITS = ("MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS")
# Words of the clause that stands after the stream alone.
_OF_KEYED_BY = ("KEYED", "KEYED BY", "GROUPING")
# Words of other dialects: the nearest equivalent in ELF QL, if any.
_FOREIGN = {
    "CROSS": "there are JOIN and LEFT JOIN",
    "FULL": "there are JOIN and LEFT JOIN",
    "OFFSET": "",
    "OVER": "",
    "RIGHT": "there are JOIN and LEFT JOIN",
    "UNION": "there is UNION ALL, inside FROM (SELECT ... UNION ALL SELECT ...)",
    "USING": "write what has to be equal, as in ON web.product = b.product",
}
_FOREIGN_CHARACTERS = {"&": "AND", "|": "OR, or || between texts", "!": "NOT"}
_NUMBER = re.compile(r"\.?\d[\w.]*")
_TOKEN_CHARACTERS_MAX = 40


def syntax_error(error: UnexpectedInput, text: str) -> QueryError:
    """The QueryError for what lark raised on this text."""
    if isinstance(error, UnexpectedCharacters):
        return _unreadable(text, error.pos_in_stream or 0, error.allowed or set())
    accepted = _accepted(error)
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        if error.token.type == "_WITHIN" and _has_within(error):
            span = SourceSpan(error.token.start_pos or 0, error.token.end_pos or 0)
            return QueryError("a query has one WITHIN", text, span, hint="leave one of the two out")
        return _Unexpected(text, error.token, accepted).error()
    end = len(text.rstrip())
    return QueryError("the query ends too early", text, SourceSpan(end, end + 1), hint=_continuation(accepted))


def _accepted(error: UnexpectedInput) -> set[str]:
    """The terminals that could really follow, not merely those in the parser's table."""
    if isinstance(error, UnexpectedToken) and error.interactive_parser is not None:
        return set(error.interactive_parser.accepts())  # type: ignore[no-untyped-call]
    return set(error.expected) if isinstance(error, UnexpectedEOF) else set()


def _has_within(error: UnexpectedToken) -> bool:
    """Whether the query that was being read has a WITHIN of its own: that of a JOIN is a part of FROM by then."""
    read = error.interactive_parser.parser_state.value_stack if error.interactive_parser is not None else []
    return any(
        part.type == "_WITHIN" if isinstance(part, Token) else isinstance(part, Tree) and part.data == "within_clause"
        for part in read
    )


def _unreadable(text: str, offset: int, accepted: set[str]) -> QueryError:
    """Characters that begin no word of the language."""
    rest = text[offset:]
    here = SourceSpan(offset, offset + 1)
    if rest[0] in "'`":
        return QueryError("this string is never closed", text, here, hint=f"close it with {rest[0]}")
    if rest[0] == '"':
        return QueryError("this quoted name is never closed", text, here, hint='close it with "')
    if rest[0] in "\u2018\u2019\u201c\u201d":
        hint = "strings are written as 'text', names as \"name\""
        return QueryError("this is a typographic quotation mark", text, here, hint=hint)
    if number := _NUMBER.match(text, offset):
        return _no_number(text, number[0], SourceSpan(offset, number.end()))
    guess = _FOREIGN_CHARACTERS.get(rest[0])
    hint = f"did you mean {guess}?" if guess else _continuation(accepted)
    return QueryError(f"{printable(rest[0])} means nothing here", text, here, hint=hint)


class _Unexpected:
    """A word of the language at a place where it cannot stand."""

    def __init__(self, text: str, token: Token, accepted: set[str]) -> None:
        self._text = text
        self._token = token
        self._accepted = accepted
        self._span = SourceSpan(token.start_pos or 0, token.end_pos or 0)
        before = re.search(r"(\w+|;)\s*$", text[: self._span.start])
        self._before = before[1] if before else ""
        self._before_span = SourceSpan(before.start(), before.start() + len(self._before)) if before else self._span

    def error(self) -> QueryError:
        token, before = self._token, self._before.upper()
        if token.type not in ("INTEGER", "DECIMAL") and (number := _NUMBER.match(self._text, self._span.start)):
            return _no_number(self._text, number[0], SourceSpan(number.start(), number.end()))
        if before == "LIMIT" and "INTEGER" in self._accepted:
            hint = f'a column of this name is written "{self._before}"' if token[0].isalpha() else ""
            return self._error("LIMIT needs a whole number of rows, 0 or more", hint)
        if before == "TREES" and self._accepted == {"INTEGER"}:
            return self._error("TREES needs a whole number, as in TREES 4", "")
        if before == "AFTER" and self._accepted == {"INTEGER"}:
            return self._error("AFTER needs a whole number of panes, as in AFTER 2 PANES", "")
        if "_WITHIN" in self._accepted and (token.upper() == "WITHIN" or before == "WITHIN"):
            example = "30 MINUTES" if "STRING" in self._accepted or "_ON" in self._accepted else "500 MILLISECONDS"
            return self._error(f"WITHIN needs a length of time, as in WITHIN {example}", "")
        if before == "AT" and self._accepted == {"INTEGER", "DECIMAL"}:
            return self._error("AT needs a percentage, as in AT 99 PERCENT", "")
        if "_GROUPING" in self._accepted and "GROUPING" in (token.upper(), before):
            return self._error("GROUPING needs a name, as in GROUPING fish", "")
        if (before == "OVER" and self._accepted == {"INTEGER"}) or (
            "_OVER" in self._accepted and token.upper() == "OVER"
        ):
            return self._error("OVER needs a number of workers, as in OVER 32 WORKERS", "")
        if before == "WINDOWING":
            return self._error("WINDOWING needs a whole number, as in WINDOWING 30 SECONDS", "")
        if self._accepted == {"INTEGER"} and before in ("EVERY", "SIZE", "GRACE", "SESSION", "FOR", "WITHIN"):
            return self._error(f"{before} needs a length of time, as in {before} 30 SECONDS", "")
        if "UNIT" in self._accepted:
            guess = nearest(token, _UNITS)
            hint = f"did you mean {guess}?" if guess else _continuation(self._accepted)
            return self._error(f"a length of time needs a unit, not {_shown(token)}", hint)
        if self._accepted == {"STRING"}:
            hint = "as in app('top-products') or table('products')"
            return self._error("app() and table() take a name in single quotes", hint)
        if token.upper() in _FOREIGN:
            return _foreign(self._text, token, self._span)
        if before in _FOREIGN:
            return _foreign(self._text, self._before, self._before_span)
        return self._misplaced()

    def _misplaced(self) -> QueryError:
        token, accepted, shown = self._token, self._accepted, _shown(self._token)
        if accepted == {"_SELECT"}:
            return self._error(f"{shown} cannot stand here", "a query begins with SELECT")
        if self._before == ";":
            return self._error("something follows the end of the query", "give one query at a time")
        if " ".join(token.upper().split()) in _OF_KEYED_BY:
            hint = "it stands after the stream, as in FROM web KEYED BY user GROUPING fish OVER 32 WORKERS"
            return self._error(f"{shown} cannot stand here", hint)
        if token.type in _RESERVED and "STRING" in accepted:
            hint = f'{_continuation(accepted)}; a column of this name is written "{token}"'
            return self._error(f"{shown} is a keyword and cannot stand here", hint)
        if token.type in _CLAUSES and "$END" in accepted:
            order = listed([_KEYWORDS[clause] for clause in _CLAUSES])
            return self._error(f"{shown} cannot stand here", f"the order of clauses is {order}")
        if token.type == "COMPARISON" and "PLUS" in accepted:
            return self._error("comparisons cannot be chained", "join two comparisons with AND")
        guess = self._guess()
        if not guess and token.type in ("IDENT", "QUOTED") and "_AS" in accepted and "PLUS" not in accepted:
            guess = f"{_continuation(accepted)}; another name is given with AS, as in AS {shown}"
        return self._error(f"{shown} cannot stand here", guess or _continuation(accepted))

    def _guess(self) -> str:
        """The keyword that this word, or the word before it that was read as a name, was probably meant to be."""
        possible = [word for terminal, word in _KEYWORDS.items() if terminal in self._accepted]
        if guess := nearest(self._token, possible):
            return f"did you mean {guess}?"
        clauses = [_KEYWORDS[clause] for clause in _CLAUSES]
        guess = nearest(self._before, clauses)
        known = self._before.upper() in (*clauses, "LEFT", "INNER", "")
        return f"did you mean {guess} instead of {self._before}?" if guess and not known else ""

    def _error(self, message: str, hint: str) -> QueryError:
        return QueryError(message, self._text, self._span, hint=hint)


def _no_number(text: str, token: str, span: SourceSpan) -> QueryError:
    return QueryError(f"{_shown(token)} is not a number", text, span)


def _foreign(text: str, word: str, span: SourceSpan) -> QueryError:
    offered = _FOREIGN[word.upper()]
    quoted = f'a column of this name is written "{word}"'
    return QueryError(f"ELF QL has no {word.upper()}", text, span, hint=f"{offered}; {quoted}" if offered else quoted)


def _shown(token: str) -> str:
    cut = token if len(token) <= _TOKEN_CHARACTERS_MAX else f"{token[:_TOKEN_CHARACTERS_MAX]}…"
    return printable(cut)


def _continuation(accepted: set[str]) -> str:
    """The words that could stand at this place, the most helpful first."""
    expression = "STRING" in accepted
    after_expression = "PLUS" in accepted
    choices = ["an expression"] * expression
    choices += ["a name"] * (not expression and bool(accepted & {"QUOTED", "WORD"}) and "_AS" not in accepted)
    choices += ["*"] * ("STAR" in accepted and not after_expression)
    choices += ["a comma"] * ("_COMMA" in accepted)
    choices += [")"] * ("RIGHT" in accepted)
    choices += ["an operator"] * after_expression
    hidden = _OPERATORS if after_expression else {"NOT", "NULL"} if expression else set()
    choices += [word for terminal, word in _KEYWORDS.items() if terminal in accepted - hidden]
    choices += ["a whole number"] * ("INTEGER" in accepted and not expression)
    choices += _UNITS if "UNIT" in accepted else []
    choices += ["the end of the query"] * ("$END" in accepted)
    return f"expected {listed(choices, 'or')}" if choices else ""
