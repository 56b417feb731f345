"""The words of ELF QL, for those who complete or colour what people type."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from query.functions import FUNCTIONS
from query.functions.aggregates import AGGREGATES

_TERMINAL = re.compile(r"^[A-Z_]+(?:\.\d+)?: /(?P<words>.*?)(?:\\b|\(\?=\\s\*\\\(\))/i$", re.MULTILINE)
_OPTIONAL_BEGINNING = re.compile(r"\((\w+)\)\?(\w+)")


@cache
def keywords() -> frozenset[str]:
    """The grammar's own words, in capitals.

    >>> {"SELECT", "OUTER", "SECOND", "SECONDS"} <= keywords()
    True
    """
    found = set()
    for terminal in _TERMINAL.finditer(files("query.syntax").joinpath("grammar.lark").read_text(encoding="utf-8")):
        pattern = _OPTIONAL_BEGINNING.sub(r"\2 \1\2", terminal["words"].replace(r"\s", " "))
        singular = {word.upper() for word in re.findall("[a-z_]{2,}", pattern)}
        found |= singular | {f"{word}S" for word in singular if ")s?" in pattern}
    return frozenset(found)


def functions() -> dict[str, tuple[str, str]]:
    """What can be called, by name, in alphabetical order: how that is written, and what it gives."""
    aggregates = {row.key: (row.signature, row.doc) for row in AGGREGATES.values()}
    scalars = {row.name: (row.signature, row.doc) for row in FUNCTIONS.values()}
    return dict(sorted((aggregates | scalars).items()))
