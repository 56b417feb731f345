"""One window's published result, and its JSON line (DESIGN §5)."""

from __future__ import annotations

from typing import Any

import msgspec

import query
from agent.runtime.other_groups import OtherGroups

NAMES_MAX = 20
"""How many agents `missing` and `partial` name at most."""


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rows of one window with everything a reader needs to judge them; counts are integers.

    `other`: what is in no row, since the window has more groups than its job keeps. `limited`: the aggregates that have
    met their limit and left values out, with the number of groups where they did. `error`: how far approximate
    aggregates may be off in 99 of 100 cases, as a part of a count or of all values; None where all is exact. `final`:
    not said of a result that is; others are of windows that are still open (EMIT CHANGES). `more`: the next result is
    of a window that ends, or grows, at the same moment.
    """

    app: str
    window_start: str | None
    window_end: str | None
    rows: query.Rows | list[dict[str, Any]]
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
    other: OtherGroups | None
    limited: dict[str, int]
    error: float | None
    version: int
    epoch: int
    final: bool = True
    more: bool = False

    def to_json(self) -> str:
        """One line, keys in the order of the fields."""
        return self.to_bytes().decode()

    def to_bytes(self, bytes_max: int | None = None) -> bytes:
        """The same as bytes; past `bytes_max` the last rows go, and count as dropped."""
        json = msgspec.json.encode(self, enc_hook=list)
        kept = len(self.rows)
        while bytes_max is not None and len(json) > bytes_max and kept:
            kept = min(kept - 1, kept * bytes_max // len(json))
            fewer = msgspec.structs.replace(self, rows=self.rows[:kept], dropped=self.dropped + len(self.rows) - kept)
            json = msgspec.json.encode(fewer, enc_hook=list)
        return json
