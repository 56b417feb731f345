"""Reads two options that bound a time range."""

from __future__ import annotations

from agent.parsing import parse_time
from elf.errors import UsageError


def between(names: tuple[str, str], since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """The times, in epoch ms, that two options of these names give.

    Raises UsageError for a malformed time, and for an empty range.
    """
    first, second = names
    since_ms, until_ms = _moment(first, since), _moment(second, until)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise UsageError(f"{first} {since} is not before {second} {until}: no event can lie between them")
    return since_ms, until_ms


def _moment(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    found = parse_time(text)
    if found is None:
        raise UsageError(f"{option} {text!r} is no time: write it like 2015-05-17T10:00:00Z")
    return found
