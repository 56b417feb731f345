"""A job that a page watches, followed by a thread: its newest window and the points of its chart, both bounded."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agent.control.messages import Acknowledged, Ended, WindowsLost
from elf.client.attachment import Disconnected, Reconnected, Update
from elf.client.result import Result
from elf.client.sync_client import SyncJob
from elf.errors import ElfError
from elf.output.chart import group_values, is_measured
from elf.output.completeness import completeness
from elf.terminal.terminal import printable

WINDOWS_KEPT = 120
ROWS_KEPT = 200
CELL_CHARACTERS = 200
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """The part of a window that a chart shows: each of its largest groups' values, and the number of further groups."""

    label: str
    values: Mapping[str, float]
    more: int


@dataclass(frozen=True, slots=True)
class NewestWindow:
    """The newest window, cut to what a page shows. `rows_left`: the number of further rows."""

    start: str | None
    end: str | None
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    rows_left: int
    contributors: int
    expected: int
    missing: Sequence[str]
    details: str


@dataclass(frozen=True, slots=True)
class WatchedState:
    """A job as far as it has come. `change` counts; `ended` says why there will be no other window, "" before.

    `windows`: the number that has come in all.
    """

    change: int
    app: str
    query: str
    acknowledged: Acknowledged | None
    newest: NewestWindow | None
    points: Sequence[ChartPoint]
    measure: str | None
    windows: int
    note: str
    ended: str


class WatchedJob:
    """Follows a job until it ends or is left. `opened` makes the job to enter, `measures` names aggregates of a query.

    Leaving it ends a query that was not to go on.
    """

    def __init__(self, opened: Callable[[], SyncJob], measures: Callable[[str], Sequence[str]]) -> None:
        self._opened = opened
        self._measures_of = measures
        self._measures: Sequence[str] = ()
        self._measure: str | None = None
        self._points: deque[ChartPoint] = deque(maxlen=WINDOWS_KEPT)
        self._newest: NewestWindow | None = None
        self._app = self._query = self._note = self._ended = ""
        self._acknowledged: Acknowledged | None = None
        self._change = self._windows = 0
        self._lock = threading.Lock()
        self._is_left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="followed job", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Ends following, soon; does not wait."""
        self._is_left.set()

    def seen(self, change: int) -> WatchedState | None:
        """The job as it is; None if nothing has changed since the given change."""
        with self._lock:
            if self._change == change:
                return None
            return WatchedState(
                self._change, self._app, self._query, self._acknowledged, self._newest, tuple(self._points),
                self._measure, self._windows, self._note, self._ended,
            )  # fmt: skip

    def _run(self) -> None:
        try:
            with self._opened() as job:
                self._begin(job)
                while not self._is_left.is_set() and not self._ended:
                    update = job.wait(_POLL_S)
                    if update is not None:
                        self._take(update, job)
        except ElfError as error:
            with self._lock:
                self._ended = str(error)
                self._change += 1

    def _begin(self, job: SyncJob) -> None:
        with suppress(ElfError):
            self._measures = self._measures_of(job.query)
        with self._lock:
            self._app, self._query, self._change = job.app, job.query, self._change + 1

    def _take(self, update: Update, job: SyncJob) -> None:
        """Notes what has happened; a window is cut before the lock is taken."""
        cut = _cut(update) if isinstance(update, Result) else None
        with self._lock:
            self._change += 1
            match update:
                case Acknowledged():
                    self._acknowledged = update
                case Result():
                    self._newest, self._windows = cut, self._windows + 1
                    self._add_point(update)
                case WindowsLost():
                    self._note = "Some windows are lost."
                case Disconnected(reason=reason):
                    self._note = f"Not connected: {reason}"
                case Reconnected():
                    self._note = ""
                case Ended():
                    self._ended = _ending(update, job.app)

    def _add_point(self, result: Result) -> None:
        if self._measure is None:
            self._measure = next((name for name in self._measures if is_measured(result.rows, name)), None)
        values, more = group_values(result.rows, self._measure, self._measures)
        label = result.window_end or result.window_start or ""
        if self._points and self._points[-1].label == label:
            self._points.pop()  # the same window, which has more events now
        self._points.append(ChartPoint(label, values, more))


def _ending(ended: Ended, app: str) -> str:
    match ended.reason:
        case "finished":
            return f"{app} has finished."
        case "failed":
            return f"{app} failed: {ended.failure}"
        case "stopped":
            return f"{app} was stopped."
        case "nobody":
            return f"{app} has nobody to run it: no agent has its stream."
        case _:
            return f"{app} is lost: no agent knows it any more."


def _cut(result: Result) -> NewestWindow:
    rows = [[_cell(row.get(name)) for name in result.columns] for row in result.rows[:ROWS_KEPT]]
    return NewestWindow(
        start=result.window_start,
        end=result.window_end,
        columns=tuple(result.columns),
        rows=rows,
        rows_left=len(result.rows) - len(rows) + result.dropped,
        contributors=result.contributors,
        expected=result.expected,
        missing=tuple(result.missing),
        details=completeness(result),
    )


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**18 else str(value)
    if isinstance(value, float):
        return f"{value:,.6g}"
    text = str(value)
    return printable(text if len(text) <= CELL_CHARACTERS else f"{text[:CELL_CHARACTERS]}…")
