"""Texts are split into statements, and each statement is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import query
from elf.errors import UsageError
from elf.statements.statements import (
    DescribeStatement,
    ExplainStatement,
    LatencyStatement,
    SelectStatement,
    ShowStatement,
    is_ended,
    read_statement,
    statements,
    tokens,
)

TEXTS = st.text(st.sampled_from("ab1 \n;'\"`-(.@é"), max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ; \n;-- only ; a comment", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("a;b;", ["a", "  b"]),
        ("a;\n b ; c", ["a", "  \n b ", "\n     c"]),
        ("SELECT 'it''s; one' -- ; not here\n, \";\" FROM a", ["SELECT 'it''s; one' -- ; not here\n, \";\" FROM a"]),
        ("a 'never closed; b", ["a 'never closed; b"]),
    ],
)
def test_semicolons_separate_statements_but_not_in_strings_and_comments(text: str, expected: list[str]) -> None:
    assert statements(text) == expected


def test_an_error_names_the_place_in_the_whole_text() -> None:
    second = statements("SELECT COUNT(*) FROM a;\n\n  SELECT FROM b; SELECT 1")[1]
    with pytest.raises(query.QueryError) as raised:
        query.parse(second)
    assert (raised.value.line, raised.value.column) == (3, 10)


@pytest.mark.parametrize(
    ("text", "ended"), [("a;", True), ("a; -- b", True), ("a", False), ("a ';", False), ("", False)]
)
def test_a_statement_ends_with_a_semicolon_outside_of_strings(text: str, ended: bool) -> None:
    assert is_ended(text) is ended


def test_statements_are_told_apart_by_their_first_word() -> None:
    assert read_statement(" show Jobs") == ShowStatement("JOBS")
    assert read_statement("SHOW STREAMS -- all") == ShowStatement("STREAMS")
    assert read_statement('describe "a ""b"""') == DescribeStatement('a "b"')
    assert read_statement("DESCRIBE web") == DescribeStatement("web")
    assert read_statement("-- why\nEXPLAIN SELECT 1") == ExplainStatement("-- why\n        SELECT 1")
    assert read_statement("explain\nAnalyze SELECT 1") == ExplainStatement("       \n        SELECT 1", analyze=True)
    assert read_statement("EXPLAIN latency SELECT 1") == LatencyStatement("                SELECT 1")
    assert read_statement("SHOW ELEMENTS") == ShowStatement("ELEMENTS")
    for job in ("top-words", '"top-words"', "'top-words'"):
        assert read_statement(f"show elements from {job} -- all") == ShowStatement("ELEMENTS", "top-words")
    assert read_statement("SELECT 1") == SelectStatement("SELECT 1")
    assert read_statement("show_me") == SelectStatement("show_me")


@pytest.mark.parametrize(
    ("text", "place", "words_"),
    [
        ("SHOW", "line 1, column 5", "STREAMS, JOBS, FUNCTIONS or ELEMENTS"),
        ("SHOW tables", "line 1, column 6", "SHOW knows no tables"),
        ("SHOW ELEMENTS OF top", "line 1, column 15", "OF means nothing here"),
        ("SHOW ELEMENTS FROM", "line 1, column 19", "the statement ends too early"),
        ("SHOW ELEMENTS FROM top words", "line 1, column 24", "words means nothing here"),
        ("\n DESCRIBE a b", "line 2, column 13", "b means nothing here"),
        ("DESCRIBE 12", "line 1, column 10", "12 is no name"),
        ("DESCRIBE '" + "x" * 500, "line 1, column 10", "x… is no name"),
    ],
)
def test_what_is_none_is_refused_with_its_place(text: str, place: str, words_: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_statement(text)
    assert str(raised.value).startswith(place)
    assert words_ in str(raised.value)
    assert "^" in str(raised.value)


@given(TEXTS)
def test_words_are_all_of_the_text(text: str) -> None:
    found = list(tokens(text))
    assert "".join(word.text for word in found) == text
    assert all(word.text == text[word.start : word.end] for word in found)


@given(TEXTS)
def test_taken_apart_again_a_statement_is_one(text: str) -> None:
    for statement in statements(text):
        assert statements(statement) == [statement]


@pytest.mark.parametrize("times", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("piece", ["'", "''a", "`'\"", ";"])
def test_a_megabyte_of_quotes_is_taken_apart(piece: str, times: int) -> None:
    """Whoever looked at each of them again and again would not come to an end."""
    text = piece * (times // len(piece) | 1)
    assert "".join(statements(text)) in text
