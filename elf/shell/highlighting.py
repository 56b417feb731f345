"""Colours statements while they are typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from elf.statements.statements import tokens

STYLE = Style.from_dict(
    {
        "prompt": "bold",
        "ql.keyword": "ansiblue bold",
        "ql.function": "ansicyan",
        "ql.string": "ansigreen",
        "ql.name": "ansimagenta",
        "ql.number": "ansiyellow",
        "ql.comment": "ansibrightblack italic",
        "ql.unclosed": "ansired",
    }
)
_SHELL_WORDS = frozenset(
    ("EXPLAIN", "ANALYZE", "LATENCY", "SHOW", "DESCRIBE", "STREAMS", "JOBS", "FUNCTIONS", "ELEMENTS")
)


class StatementLexer(Lexer):
    """Colours statements; `vocabulary` gives keywords and functions."""

    def __init__(self, vocabulary: Callable[[], tuple[Iterable[str], Iterable[str]]]) -> None:
        self._vocabulary = vocabulary

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = list(split_lines(self._fragments(document.text)))
        return lambda number: lines[number] if number < len(lines) else []

    def _fragments(self, text: str) -> StyleAndTextTuples:
        keywords, functions = (frozenset(names) for names in self._vocabulary())
        fragments: StyleAndTextTuples = []
        for word in tokens(text):
            kind = word.kind
            if kind == "word":
                kind = _kind_of(word.text.upper(), keywords, functions)
            fragments.append((f"class:ql.{kind}", word.text))
        return fragments


def _kind_of(word: str, keywords: frozenset[str], functions: frozenset[str]) -> str:
    if word in keywords or word in _SHELL_WORDS:
        return "keyword"
    return "function" if word in functions else "word"
