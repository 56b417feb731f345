"""LIKE, against a matcher that tries every way."""

from __future__ import annotations

import string
from functools import cache

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.model.like import PatternError, check_pattern, matches


def like(text, pattern):
    return pl.DataFrame({"text": [text]}, schema={"text": pl.String}).select(matches(pl.col("text"), pattern)).item()


def tried(text, pattern):
    @cache
    def from_place(place, rest):
        if rest == len(pattern):
            return place == len(text)
        if pattern[rest] == "%":
            return from_place(place, rest + 1) or (place < len(text) and from_place(place + 1, rest))
        if pattern[rest] == "\\":
            return text[place : place + 1] == pattern[rest + 1] and from_place(place + 1, rest + 2)
        return place < len(text) and pattern[rest] in ("_", text[place]) and from_place(place + 1, rest + 1)

    return from_place(0, 0)


PIECES = st.sampled_from(["%", "_", "a", "b", "é", "\\%", "\\_", "\\\\", "\\a", ".", "\n"])


@given(st.text("abé%_\\.\n", max_size=6), st.lists(PIECES, max_size=6).map("".join))
def test_like(text, pattern):
    assert like(text, pattern) == tried(text, pattern)


def test_every_character_stands_for_itself():
    for character in string.printable + "\x00\x7fé\N{GRINNING FACE}":
        escaped = character if character not in "%_\\" else "\\" + character
        assert like(f"{character}x", f"{escaped}_")
        assert not like("\N{SNOWMAN}x", f"{escaped}_")
        assert like(character, escaped)


def test_null_is_neither_like_nor_unlike():
    assert like(None, "%") is None


@pytest.mark.parametrize("pattern", ["_" * 1_000, "%_" * 500, "%é" * 500])
def test_the_longest_patterns_run(pattern):
    check_pattern(pattern)
    assert like("é" * 1_000, pattern)


@pytest.mark.parametrize("pattern", ["a\\", "%" * 1_001])
def test_bad_patterns(pattern):
    with pytest.raises(PatternError):
        check_pattern(pattern)
