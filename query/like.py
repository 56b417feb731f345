"""LIKE patterns: `%` any run of characters, `_` any one, `\\` takes the next character as it is."""

from __future__ import annotations

import polars as pl

PATTERN_CHARACTERS_MAX = 1_000


class PatternError(ValueError):
    """A LIKE pattern that has no meaning."""


def check_pattern(pattern: str) -> None:
    """Raise PatternError unless `matches` can run this pattern."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise PatternError(f"a LIKE pattern may have at most {PATTERN_CHARACTERS_MAX:,} characters")
    _tokens(pattern)


def matches(text: pl.Expr, pattern: str, *, any_case: bool = False) -> pl.Expr:
    """Boolean expression: whether all of the text matches; NULL for NULL. Linear in the text's length."""
    tokens = _tokens(pattern)
    if any_case:
        return text.str.contains("(?i)" + _regex(tokens))
    inner = tokens
    if open_left := inner[:1] == ["%"]:
        inner = inner[1:]
    if open_right := inner[-1:] == ["%"]:
        inner = inner[:-1]
    if any(token in ("%", "_") for token in inner):
        return text.str.contains(_regex(tokens))
    literal = "".join(token[1:] for token in inner)
    if open_left and open_right:
        return text.str.contains(literal, literal=True)
    if open_left:
        return text.str.ends_with(literal)
    return text.str.starts_with(literal) if open_right else text == literal


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
