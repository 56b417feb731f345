"""The exception that a wrong query raises, with an excerpt that shows the place."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_EXCERPT_COLUMNS = 100
_LISTED_NAMES = 12


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """Half-open range of characters in the text of a query."""

    start: int = 0
    end: int = 0

    def to(self, other: SourceSpan) -> SourceSpan:
        """The range from the start of this one to the end of the other."""
        return SourceSpan(self.start, other.end)


NOWHERE = SourceSpan()


class QueryError(Exception):
    """A query that cannot run: the fault, its place and the nearest fix.

    `line` and `column` count from 1, `length` is the number of characters the carets underline (at least 1).
    `str()` is several lines: the message, the excerpt with carets and, if there is one, a hint.

    >>> print(QueryError("there is no column shop", "SELECT shop", SourceSpan(7, 11), hint="did you mean store?"))
    line 1, column 8: there is no column shop
      SELECT shop
             ^^^^
    did you mean store?
    """

    def __init__(self, message: str, text: str = "", span: SourceSpan = NOWHERE, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.line, self.column = position(text, span.start)
        self._source_line = _line_at(text, span.start)
        room = len(self._source_line) - self.column + 1
        self.length = max(1, min(span.end - span.start, room))

    def __str__(self) -> str:
        parts = [f"line {self.line}, column {self.column}: {printable(self.message)}", *self._excerpt()]
        if self.hint:
            parts.append(printable(self.hint))
        return "\n".join(parts)

    def _excerpt(self) -> list[str]:
        if not self._source_line.strip():
            return []
        start = max(0, self.column - 1 - _EXCERPT_COLUMNS // 2)
        shown = self._source_line[start : start + _EXCERPT_COLUMNS]
        before = self.column - 1 - start
        carets = "^" * min(self.length, max(1, len(shown) - before))
        return [
            f"  {'…' if start else ''}{printable(shown)}",
            f"  {' ' if start else ''}{' ' * before}{carets}",
        ]


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of a character offset."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _line_at(text: str, offset: int) -> str:
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    return text[start : len(text) if end < 0 else end]


def printable(text: str) -> str:
    """The text with every character a terminal could act on replaced by one harmless character."""
    return "".join(character if character.isprintable() else _visible(character) for character in text)


def _visible(character: str) -> str:
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name most like the given one, case aside, or None if nothing is close."""
    by_folded = {candidate.casefold(): candidate for candidate in names}
    close = get_close_matches(name.casefold()[:100], by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def listed(names: Iterable[str], last: str = "and") -> str:
    """Names as people list them, shortened when there are many.

    >>> listed(["a", "b", "c"], "or")
    'a, b or c'
    """
    every = list(names)
    if len(every) > _LISTED_NAMES:
        return f"{', '.join(every[:_LISTED_NAMES])} and {len(every) - _LISTED_NAMES} more"
    if len(every) < 2:
        return "".join(every)
    return f"{', '.join(every[:-1])} {last} {every[-1]}"
