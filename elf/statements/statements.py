"""Splits typed text or files into tokens and statements, and reads statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile, islice, takewhile
from typing import NamedTuple

from elf.errors import UsageError

_WORDS = re.compile(
    r"""(?P<space>\s+)
      | (?P<comment>--[^\n]*)
      | (?P<string>'(?:[^']|'')*'|`(?:[^`]|``)*`)
      | (?P<name>"(?:[^"]|"")*")
      | (?P<unclosed>['"`].*)
      | (?P<number>\.?\d[\w.]*)
      | (?P<word>@?\w+)
      | (?P<end>;)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
WORD_SHOWN_MAX = 40
TOKENS_READ = 3
"""Upper bound on the tokens that tell what a statement is, so that long queries are not split in vain."""
_SHOWN = ("STREAMS", "JOBS", "FUNCTIONS", "ELEMENTS")
_SHOW_HINT = "SHOW lists STREAMS, JOBS, FUNCTIONS or ELEMENTS"


class Token(NamedTuple):
    """A token of a text: space, comment, string, name (in quotes), unclosed (a quote), number, word, end or other."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class SelectStatement:
    """A query; errors in it are left to the query compiler."""

    text: str


@dataclass(frozen=True, slots=True)
class ExplainStatement:
    """`EXPLAIN query`: its plan; with ANALYZE, its plan with measurements of a run."""

    text: str
    analyze: bool = False


@dataclass(frozen=True, slots=True)
class LatencyStatement:
    """`EXPLAIN LATENCY query`: how soon its results come."""

    text: str


@dataclass(frozen=True, slots=True)
class ShowStatement:
    """`SHOW STREAMS`, `JOBS` or `FUNCTIONS`; `SHOW ELEMENTS [FROM app]`, `app` "" for all jobs."""

    what: str
    app: str = ""


@dataclass(frozen=True, slots=True)
class DescribeStatement:
    """`DESCRIBE stream`: its columns."""

    stream: str


Statement = SelectStatement | ExplainStatement | LatencyStatement | ShowStatement | DescribeStatement


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a text, all of it. Linear in its length.

    >>> [token.text for token in tokens("SELECT 'a;' ;") if token.kind != "space"]
    ['SELECT', "'a;'", ';']
    """
    for match in _WORDS.finditer(text):
        yield Token(match.lastgroup or "other", match[0], match.start())


def statements(text: str) -> list[str]:
    """The statements of a text, without the `;` that ends them; empty ones are left out.

    The text before a statement is replaced by blanks, so that its errors name places in the whole text.

    >>> statements("SHOW JOBS; SELECT 1")
    ['SHOW JOBS', '           SELECT 1']
    """
    found, start, says_something = [], 0, False
    for word in tokens(text):
        if word.kind == "end":
            if says_something:
                found.append(_in_place(text, start, word.start))
            start, says_something = word.end, False
        elif word.kind not in ("space", "comment"):
            says_something = True
    if says_something:
        found.append(_in_place(text, start, len(text)))
    return found


def is_ended(text: str) -> bool:
    """Whether a `;` ends the text, blanks and comments aside."""
    last = ""
    for word in tokens(text):
        if word.kind not in ("space", "comment"):
            last = word.kind
    return last == "end"


def read_statement(text: str) -> Statement:
    """Reads a statement. Raises UsageError, with the place, for a malformed SHOW or DESCRIBE."""
    said = list(islice((word for word in tokens(text) if word.kind not in ("space", "comment")), TOKENS_READ))
    match said[0].text.upper() if said else "":
        case "EXPLAIN":
            kind = said[1].text.upper() if len(said) > 1 else ""
            begin, end = said[0].start, said[int(kind in ("ANALYZE", "LATENCY"))].end
            explained = text[:begin] + re.sub(r"[^\n]", " ", text[begin:end]) + text[end:]
            return LatencyStatement(explained) if kind == "LATENCY" else ExplainStatement(explained, kind == "ANALYZE")
        case "SHOW":
            if len(said) > 1 and said[1].text.upper() == "ELEMENTS":
                return ShowStatement("ELEMENTS", _app(text, said))
            what = _only(text, said, _SHOW_HINT)
            if what.text.upper() not in _SHOWN:
                raise _misread(text, what, f"SHOW knows no {_short(what)}", _SHOW_HINT)
            return ShowStatement(what.text.upper())
        case "DESCRIBE":
            stream = _only(text, said, "DESCRIBE takes the name of a stream: SHOW STREAMS lists them")
            return DescribeStatement(_name(stream))
        case _:
            return SelectStatement(text)


def _in_place(text: str, start: int, end: int) -> str:
    before = text[:start]
    lines = before.count("\n")
    return "\n" * lines + " " * (start - before.rfind("\n") - 1) + text[start:end]


def _app(text: str, said: list[Token]) -> str:
    """The job in `SHOW ELEMENTS FROM job`; "" where none is named."""
    hint = "SHOW ELEMENTS lists those of all jobs, SHOW ELEMENTS FROM a job its own"
    if len(said) == 2:
        return ""
    if said[2].text.upper() != "FROM":
        raise _misread(text, said[2], f"{_short(said[2])} means nothing here", hint)
    rest = [word for word in tokens(text) if word.start >= said[2].end and word.kind != "comment"]
    named = list(takewhile(lambda word: word.kind != "space", dropwhile(lambda word: word.kind == "space", rest)))
    if not named:
        raise _misread(text, Token("end", " ", said[2].end), "the statement ends too early", hint)
    after = [word for word in rest if word.start >= named[-1].end and word.kind != "space"]
    if after:
        raise _misread(text, after[0], f"{_short(after[0])} means nothing here", hint)
    return _name(named[0]) if len(named) == 1 else "".join(word.text for word in named)


def _name(word: Token) -> str:
    """The name that a word is, or that stands in quotes."""
    if word.kind not in ("name", "string"):
        return word.text
    quote = word.text[0]
    return word.text[1:-1].replace(2 * quote, quote)


def _only(text: str, said: list[Token], hint: str) -> Token:
    """The one token after the first."""
    if len(said) == 1:
        raise _misread(text, Token("end", " ", said[0].end), "the statement ends too early", hint)
    if len(said) > 2:
        raise _misread(text, said[2], f"{_short(said[2])} means nothing here", hint)
    if said[1].kind not in ("word", "name"):
        raise _misread(text, said[1], f"{_short(said[1])} is no name", hint)
    return said[1]


def _short(word: Token) -> str:
    return word.text if len(word.text) <= WORD_SHOWN_MAX else word.text[:WORD_SHOWN_MAX] + "…"


def _misread(text: str, word: Token, message: str, hint: str) -> UsageError:
    from query.model.errors import QueryError, SourceSpan  # with all of ELF QL, so only for an error

    return UsageError(str(QueryError(message, text, SourceSpan(word.start, word.end), hint=hint)))
