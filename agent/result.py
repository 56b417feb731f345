"""One window's published result, and its JSON line (DESIGN §5)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import msgspec

NAMES_MAX = 20
"""How many agents `missing` and `partial` name at most."""


@dataclass(frozen=True, slots=True)
class Result:
    """Rows of one window with everything a reader needs to judge them; counts are integers."""

    app: str
    window_start: str | None
    window_end: str | None
    rows: list[dict[str, Any]]
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
        return msgspec.json.encode(asdict(self)).decode()
