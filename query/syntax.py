"""What the parser could not read, told in the words of the person who wrote it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lark import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

from query.errors import QueryError, Span, listed, nearest, printable

if TYPE_CHECKING:
    from lark import Token, UnexpectedInput

_KEYWORDS = {
    "_SELECT": "SELECT",
    "_FROM": "FROM",
    "_WHERE": "WHERE",
    "_GROUP": "GROUP BY",
    "_ORDER": "ORDER BY",
    "_BY": "BY",
    "_LIMIT": "LIMIT",
    "_WINDOWING": "WINDOWING",
    "_AS": "AS",
    "_AND": "AND",
    "_OR": "OR",
    "NOT": "NOT",
    "_IN": "IN",
    "_LIKE": "LIKE",
    "_IS": "IS",
    "NULL": "NULL",
    "ASC": "ASC",
    "DESC": "DESC",
}
_CLAUSES = ("_SELECT", "_FROM", "_WHERE", "_GROUP", "_ORDER", "_LIMIT", "_WINDOWING")
_UNITS = ("MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS")
_RESERVED = ("_SELECT", "_FROM", "_WHERE", "_BY", "_WINDOWING", "_AS", "_AND", "_OR", "_IN", "_LIKE", "_IS")
_OPERATORS = frozenset(
    (
        "PLUS",
        "MINUS",
        "STAR",
        "SLASH",
        "DOUBLE_SLASH",
        "PERCENT",
        "COMPARISON",
        "_AND",
        "_OR",
        "_IN",
        "_LIKE",
        "_IS",
    )
)
_FOREIGN = {
    "BETWEEN": "write it as two comparisons joined by AND",
    "CASE": "",
    "DISTINCT": "GROUP BY gives each combination of values once",
    "HAVING": "",
    "JOIN": "",
    "OFFSET": "",
    "OVER": "",
    "UNION": "",
}
_TOKEN_CHARACTERS_MAX = 40


def syntax_error(error: UnexpectedInput, text: str) -> QueryError:
    """The QueryError for what lark raised on this text."""
    if isinstance(error, UnexpectedCharacters):
        return _unknown_characters(text, error.pos_in_stream or 0, error.allowed or set())
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        return _unexpected(
            text, error.token, _accepted(error), _token_before(text, error.token.start_pos or 0)
        )
    return _ended_early(text, _accepted(error))


def _accepted(error: UnexpectedInput) -> set[str]:
    """The terminals that could really follow, not merely those in the parser's table."""
    if isinstance(error, UnexpectedToken) and error.interactive_parser is not None:
        return set(error.interactive_parser.accepts())  # type: ignore[no-untyped-call]
    return set(error.expected) if isinstance(error, UnexpectedEOF) else set()


def _unknown_characters(text: str, offset: int, allowed: set[str]) -> QueryError:
    rest = text[offset:]
    here = Span(offset, offset + 1)
    if rest[0] in "'`":
        return QueryError("this string is never closed", text, here, hint=f"close it with {rest[0]}")
    if rest[0] == '"':
        return QueryError("this quoted name is never closed", text, here, hint='close it with "')
    if number := re.match(r"\d[\w.]*", rest):
        shown = _shown(number[0])
        return QueryError(f"{shown} is not a number", text, Span(offset, offset + number.end()))
    if rest[0] == "\N{LEFT SINGLE QUOTATION MARK}" or rest[0] == "\N{RIGHT SINGLE QUOTATION MARK}":
        return QueryError("this is a typographic quotation mark", text, here, hint="write a string as 'text'")
    hint = _continuation(allowed) if allowed else None
    return QueryError(f"{printable(rest[0])} means nothing here", text, here, hint=hint)


def _ended_early(text: str, accepted: set[str]) -> QueryError:
    end = len(text.rstrip())
    hint = _continuation(accepted)
    return QueryError("the query ends too early", text, Span(end, end + 1), hint=hint)


def _unexpected(text: str, token: Token, accepted: set[str], before: str) -> QueryError:
    span = Span(token.start_pos or 0, token.end_pos or 0)
    shown = _shown(token)
    if before == "LIMIT":
        return QueryError("LIMIT needs a whole number of rows, 0 or more", text, span)
    if before == "WINDOWING":
        return QueryError("WINDOWING needs a whole number, as in WINDOWING 30 SECONDS", text, span)
    if "UNIT" in accepted:
        return _unit_missing(text, token, span)
    if token.upper() in _FOREIGN:
        hint = _FOREIGN[token.upper()]
        return QueryError(f"ELF QL has no {token.upper()}", text, span, hint=hint or None)
    if before.upper() in _FOREIGN:
        start = text.rindex(before, 0, span.start)
        return QueryError(
            f"ELF QL has no {before.upper()}",
            text,
            Span(start, start + len(before)),
            hint=_FOREIGN[before.upper()] or None,
        )
    if token.type in _CLAUSES and "IDENT" not in accepted:
        return _clause_misplaced(text, token, span)
    if token.type in _RESERVED and "IDENT" in accepted:
        hint = f'{_continuation(accepted)}; a column of this name is written "{token}"'
        return QueryError(f"{shown} is a keyword and cannot stand here", text, span, hint=hint)
    if token.type == "COMPARISON":
        return QueryError("comparisons cannot be chained", text, span, hint="join two comparisons with AND")
    return QueryError(f"{shown} cannot stand here", text, span, hint=_hint(token, accepted, before))


def _shown(token: str) -> str:
    cut = token if len(token) <= _TOKEN_CHARACTERS_MAX else f"{token[:_TOKEN_CHARACTERS_MAX]}…"
    return printable(cut)


def _token_before(text: str, offset: int) -> str:
    """The word, in capitals, that ends just before this offset; empty if something else does."""
    word = re.search(r"(\w+)\s*$", text[:offset])
    return word[1].upper() if word else ""


def _continuation(accepted: set[str]) -> str:
    """What could stand at this place, most telling first."""
    choices = ["an expression"] if "STRING" in accepted else []
    if "IDENT" in accepted and "STRING" not in accepted and "_AS" not in accepted:
        choices.append("a name")
    choices += ["*"] * ("STAR" in accepted and "PLUS" not in accepted)
    choices += ["a comma"] * ("_COMMA" in accepted)
    choices += [")"] * ("RIGHT" in accepted)
    choices += ["an operator"] * ("COMPARISON" in accepted or "PLUS" in accepted)
    hidden = _OPERATORS if "PLUS" in accepted else {"NOT", "NULL"} if "STRING" in accepted else set()
    choices += [
        word for terminal, word in _KEYWORDS.items() if terminal in accepted and terminal not in hidden
    ]
    choices += ["a whole number"] * ("INTEGER" in accepted and "STRING" not in accepted)
    choices += ["the end of the query"] * ("$END" in accepted)
    return f"expected {listed(choices, 'or')}"


def _hint(token: Token, accepted: set[str], before: str) -> str:
    possible = {word: word for terminal, word in _KEYWORDS.items() if terminal in accepted}
    if guess := nearest(token, possible):
        return f"did you mean {guess}?"
    if before and (guess := nearest(before, [_KEYWORDS[clause] for clause in _CLAUSES])) and guess != before:
        return f"did you mean {guess} instead of {before}?"
    return _continuation(accepted)


def _unit_missing(text: str, token: Token, span: Span) -> QueryError:
    guess = nearest(token, _UNITS)
    hint = f"did you mean {guess}?" if guess else f"the units are {listed(_UNITS)}"
    return QueryError(f"WINDOWING needs a unit of time, not {_shown(token)}", text, span, hint=hint)


def _clause_misplaced(text: str, token: Token, span: Span) -> QueryError:
    order = listed([_KEYWORDS[clause] for clause in _CLAUSES])
    return QueryError(
        f"{token.upper()} cannot stand here", text, span, hint=f"the order of clauses is {order}"
    )
