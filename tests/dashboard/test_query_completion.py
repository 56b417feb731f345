"""Completions at the editor's cursor, in the browser's units. No browser is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

import query
from elf.dashboard.query_completion import SUGGESTIONS_MAX, QueryCompletion, Suggestion
from elf.local import LocalOptions, LocalSource
from elf.statements.file_backend import FileBackend


@pytest.fixture
def completion(tmp_path: Path) -> QueryCompletion:
    log = tmp_path / "web.json"
    log.write_text('{"time":"2026-01-01T00:00:00Z","product":"a","clicks":1,"zz\\u001b[31m":2}\n')
    backend = FileBackend([LocalSource("web", (str(log),))], LocalOptions(arrival_ms=0))
    return QueryCompletion(backend, lambda: (query.keywords(), query.signatures()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT pro|", [Suggestion("product", 7)]),
        ("SELECT COUNT(*) FROM |", [Suggestion("web", 21), Suggestion("app('", 21)]),
        ("SELECT pro| FROM web", [Suggestion("product", 7)]),
        ("SELECT '𝄞', pro| FROM web", [Suggestion("product", 13)]),
        ("SELECT zz| FROM web", []),
        ("|", []),
        ("   |", []),
        (r"\s|", []),
    ],
)
def test_words_are_completed_as_in_the_shell(
    completion: QueryCompletion, text: str, expected: list[Suggestion]
) -> None:
    """A column whose name has a control character is none of them."""
    before, _, after = text.partition("|")
    assert completion.suggestions(before + after, len(before.encode("utf-16-le")) // 2) == expected


def test_there_are_few_and_a_cursor_out_of_the_text_does_no_harm(completion: QueryCompletion) -> None:
    assert len(completion.suggestions("SELECT  ", 7)) == SUGGESTIONS_MAX
    for cursor in (-5, 3, 10**12):
        completion.suggestions("𝄞𝄞", cursor)
