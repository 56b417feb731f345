"""One window's published result, and its JSON line (DESIGN §5)."""

from __future__ import annotations

import msgspec

import query

NAMES_MAX = 20
"""How many agents `missing` and `partial` name at most."""


class Result(msgspec.Struct, frozen=True):
    """Rows of one window with everything a reader needs to judge them; counts are integers."""

    app: str
    window_start: str | None
    window_end: str | None
    rows: query.Rows
    contributors: int
    expected: int
    missing: list[str]
    partial: list[str]
    leaped: int
    events: int
    late: int
    malformed: int
    coerced: int
    dropped: int
    error: float | None
    version: int
    epoch: int

    def to_json(self) -> str:
        """One line, keys in the order of the fields."""
        return msgspec.json.encode(self, enc_hook=list).decode()
