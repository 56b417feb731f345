"""A query over the rows of windows that are there already."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

import query
from agent import Result as LocalResult
from elf.client.result import Result
from elf.errors import UsageError
from elf.local import LocalOptions, LocalRun, LocalSource

STREAM = "windows"
"""What such a query calls its rows; each has the bounds of its window too."""
START, END = "window_start", "window_end"


def answer_over(windows: Sequence[Result], text: str) -> tuple[list[str], list[LocalResult]]:
    """The columns and results of a query whose events are the windows' rows. Raises UsageError for the query."""
    with tempfile.TemporaryDirectory(prefix="elf-ask-") as folder:
        path = Path(folder) / "rows.json"
        bounds = [{START: window.window_start, END: window.window_end} for window in windows]
        rows = [row | bound for window, bound in zip(windows, bounds, strict=True) for row in window.rows]
        path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        has_times = any(bound[START] is not None for bound in bounds)
        options = LocalOptions(
            arrival_ms=time.time_ns() // 1_000_000, source_format="json", time_field=START if has_times else None
        )
        try:
            run = LocalRun(text, [LocalSource(STREAM, (str(path),))], options)
        except query.QueryError as error:
            raise UsageError(str(error)) from error
        return run.columns, list(run.results())
