"""LIKE patterns: `%` any run of characters, `_` any one, `\\` takes the next character as it is."""

from __future__ import annotations

from typing import Literal, TypeAlias

import polars as pl

Place: TypeAlias = Literal["start", "end", "within", "whole", "nowhere"]
PATTERN_CHARACTERS_MAX = 1_000


class PatternError(ValueError):
    """A LIKE pattern that has no meaning."""


def check_pattern(pattern: str) -> None:
    """Raises PatternError unless `matches` can run this pattern."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise PatternError(f"a LIKE pattern may have at most {PATTERN_CHARACTERS_MAX:,} characters")
    _tokens(pattern)


def matches(text: pl.Expr, pattern: str, *, any_case: bool = False) -> pl.Expr:
    """A boolean expression: whether all of the text matches; NULL for NULL. Linear in the text's length."""
    if any_case:
        return text.str.contains("(?i)" + _regex(_tokens(pattern)))
    place, literal = literal_of(pattern)
    if place == "within":
        return text.str.contains(literal, literal=True)
    if place == "end":
        return text.str.ends_with(literal)
    if place == "start":
        return text.str.starts_with(literal)
    return text == literal if place == "whole" else text.str.contains(_regex(_tokens(pattern)))


def literal_of(pattern: str) -> tuple[Place, str]:
    """A constant and its place in every matching text; `nowhere` if the pattern says more than that.

    >>> literal_of("/shop/%"), literal_of("%.png"), literal_of("a_c")
    (('start', '/shop/'), ('end', '.png'), ('nowhere', ''))
    """
    inner = _tokens(pattern)
    if open_left := inner[:1] == ["%"]:
        inner = inner[1:]
    if open_right := inner[-1:] == ["%"]:
        inner = inner[:-1]
    if any(token in ("%", "_") for token in inner):
        return "nowhere", ""
    literal = "".join(token[1:] for token in inner)
    if open_left:
        return ("within" if open_right else "end"), literal
    return ("start" if open_right else "whole"), literal


def java_regex(pattern: str) -> str:
    """The pattern as a regular expression of Java."""
    wildcards = {"%": ".*", "_": "."}
    body = "".join(wildcards.get(token) or f"\\x{{{ord(token[1:]):x}}}" for token in _tokens(pattern))
    return rf"(?s)\A{body}\z"


def _tokens(pattern: str) -> list[str]:
    """`%`, `_`, or a backslash followed by a character that stands for itself."""
    tokens = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            escaped = next(characters, None)
            if escaped is None:
                raise PatternError("a LIKE pattern cannot end with a single \\")
            tokens.append("\\" + escaped)
        elif character in "%_":
            # A second % in a row changes nothing but the time it takes.
            tokens += [character] if character == "_" or tokens[-1:] != ["%"] else []
        else:
            tokens.append("\\" + character)
    return tokens


def _regex(tokens: list[str]) -> str:
    # Backslash and A, not ^: only these anchor to the whole text when it has several lines.
    wildcards = {"%": ".*", "_": "."}
    body = "".join(wildcards.get(token) or pl.escape_regex(token[1:]) for token in tokens)
    return rf"(?s)\A{body}\z"
