"""The parser that is kept beside the bytecode: what it parses, and what becomes of files that are of no use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lark import Lark

from query.syntax import grammar as kept
from query.syntax.grammar import grammar

TEXT = "SELECT store, COUNT(*) FROM logs WHERE a = 'b' GROUP BY store WINDOWING 30 SECONDS"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for all bytecode."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    grammar.cache_clear()
    yield tmp_path
    grammar.cache_clear()


def kept_files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file()]


def load_again(monkeypatch: pytest.MonkeyPatch, *, builds: bool) -> Lark:
    """The parser as another process gets it, which builds it or must not."""
    grammar.cache_clear()
    with monkeypatch.context() as patch:
        if not builds:
            patch.setattr(kept, "_built", lambda: pytest.fail("built again"))
        return grammar()


def test_a_parser_is_built_once_and_parses_the_same_when_it_is_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = grammar().parse(TEXT)
    assert len(kept_files(place)) == 1
    assert load_again(monkeypatch, builds=False).parse(TEXT) == built


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda _: b"\n\x80", id="of something else"),
        pytest.param(lambda whole: whole[:-1], id="cut off"),
        pytest.param(lambda whole: whole[:-1] + b"x", id="changed"),
    ],
)
def test_a_damaged_file_is_replaced(
    place: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[bytes], bytes]
) -> None:
    grammar()
    [file] = kept_files(place)
    whole = file.read_bytes()
    file.write_bytes(spoil(whole))
    load_again(monkeypatch, builds=True).parse(TEXT)
    assert kept_files(place) == [file]
    load_again(monkeypatch, builds=False).parse(TEXT)


def test_another_grammar_is_not_taken_for_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar()
    changed = kept.grammar_text() + "\n// changed\n"
    monkeypatch.setattr(kept, "grammar_text", lambda: changed)
    load_again(monkeypatch, builds=True)
    assert grammar().source_grammar == changed


def test_where_nothing_can_be_kept_the_parser_works(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = place / "a file where the folder should be"
    blocked.touch()
    monkeypatch.setattr(sys, "pycache_prefix", str(blocked))
    grammar().parse(TEXT)
    monkeypatch.setattr(sys, "pycache_prefix", str(place / "other"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    load_again(monkeypatch, builds=True).parse(TEXT)
    assert not (place / "other").exists()
