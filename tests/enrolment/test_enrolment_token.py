"""Tokens are copied by people: what is misread is noticed, and said."""

from __future__ import annotations

import pytest

from agent.enrolment.token import PREFIX, EnrolmentToken, TokenError, read_token

TOKEN = EnrolmentToken.new(b"certificate", 1_800_000_000)


def test_a_token_is_read_as_it_was_written() -> None:
    assert read_token(f" {TOKEN.text}\n") == TOKEN
    assert TOKEN.belongs_to(b"certificate")
    assert not TOKEN.belongs_to(b"another")


def test_its_secret_is_not_shown_by_accident() -> None:
    assert TOKEN.secret.hex() not in repr(TOKEN)
    assert repr(TOKEN.secret) not in repr(TOKEN)


@pytest.mark.parametrize("at", range(len(PREFIX), len(TOKEN.text)))
def test_every_misread_letter_is_noticed(at: int) -> None:
    other = "b" if TOKEN.text[at] == "a" else "a"
    with pytest.raises(TokenError, match="is misread"):
        read_token(TOKEN.text[:at] + other + TOKEN.text[at + 1 :])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no token: one begins with elf1-"),
        ("elf2-abc", "is a token of a later ELF: this one reads those that begin with elf1-"),
        (TOKEN.text[:-1], r"is misread: it has \d+ characters of \d+|is misread: a token has"),
        (TOKEN.text + "aaaaaaaa", "is misread: it has"),
        (TOKEN.text[:-1] + "1", "is misread: a token has the letters a to z and the digits 2 to 7"),
        (TOKEN.text[:-1] + "ß", "is misread|is no token"),
        ("elf1-" + "a" * 100_000, "is misread"),
    ],
    ids=["nothing", "another version", "too short", "too long", "a digit", "a letter of no alphabet", "huge"],
)
def test_what_is_no_token_is_said_to_be_none(text: str, words: str) -> None:
    with pytest.raises(TokenError, match=words):
        read_token(text)
