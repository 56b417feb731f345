"""One window of a job, as jobs see it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Window(msgspec.Struct, frozen=True):
    """A window's result, with its completeness; times are RFC 3339, None where the job has no windows.

    `app` is the job that published it; `stage` is the stage of the receiving job, "" for any other window.
    """

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
    stage: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether every agent of the job is in it, with all of its events."""
        return self.contributors == self.expected and not self.partial

    @property
    def start_ms(self) -> int:
        """Start (epoch ms). Raises ValueError where the job has no windows, or cuts its batches itself."""
        return _epoch_ms(self.window_start)

    @property
    def end_ms(self) -> int:
        """End (epoch ms); for a job that drives itself, the pane. Raises ValueError where there is none."""
        return _epoch_ms(self.window_end)


def _epoch_ms(instant: str | None) -> int:
    """Epoch ms of an RFC 3339 time.

    >>> _epoch_ms("1970-01-01T00:00:01.500Z")
    1500
    """
    return round(datetime.fromisoformat(instant or "").timestamp() * 1000)


def read_window(json: bytes, stage: str = "") -> Window:
    """A window from its JSON line."""
    return msgspec.structs.replace(msgspec.json.decode(json, type=Window), stage=stage)
