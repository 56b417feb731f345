"""One window of a job, as jobs see it."""

from __future__ import annotations

from typing import Any

import msgspec


class Window(msgspec.Struct, frozen=True):
    """A result and what is to be known of it; times are RFC 3339, None where the job has no windows."""

    app: str
    window_start: str | None
    window_end: str | None
    rows: list[dict[str, Any]]
    contributors: int = 0
    expected: int = 0
    missing: list[str] = []
    partial: list[str] = []
    events: int = 0
    late: int = 0
    version: int = 1
    epoch: int = 1

    @property
    def is_complete(self) -> bool:
        """Whether every agent of the job is in it, with all of its events."""
        return self.contributors == self.expected and not self.partial


def read_window(json: bytes) -> Window:
    """A window from its JSON line."""
    return msgspec.json.decode(json, type=Window)
