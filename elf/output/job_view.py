"""Shows a job on this terminal: its windows on standard output, other events on standard error."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from datetime import UTC, datetime, timedelta

from agent.control.messages import Acknowledged, Ended, WindowsLost
from elf.client.attachment import Disconnected, Reconnected
from elf.client.result import Result
from elf.output.output import ResultWriter, result_writer
from elf.output.view import View, ViewedJob, ViewLimits
from elf.terminal.terminal import printable, tell

SETTLED_S = 0.5
"""Time after which an unchanged count of agents is reported."""
COLUMNS_UNTOLD = 80
"""Assumed width of a terminal that does not tell its own."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TO_START_OF_LINE, _ERASE_REST = "\r", "\x1b[K"


class ReadinessReporter:
    """Reports how many agents run a job: on a terminal in one line that changes in place, elsewhere a line per lasting
    count.

    `settles_at` is the time of the next call of `settle`.
    """

    def __init__(self, app: str) -> None:
        self.settles_at = float("inf")
        self._app = printable(app)
        self._in_place = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._text = self._reported = ""

    def change(self, acknowledged: Acknowledged, now: float) -> None:
        """Takes an acknowledgement; most repeat the counts."""
        what = "it" if acknowledged.version == 1 else f"version {acknowledged.version}"
        counts = f"{acknowledged.agents} of {acknowledged.expected} agents run {what}"
        if not acknowledged.expected:
            counts = "no agent has its stream so far"
        if counts == self._text:
            return
        self._text, self.settles_at = counts, now + SETTLED_S
        if self._in_place:
            tell(f"{_TO_START_OF_LINE}{self._fitting()}{_ERASE_REST}", end="")

    def settle(self, now: float) -> None:
        """Reports a count that has lasted long enough."""
        if now >= self.settles_at:
            self.finish()

    def finish(self) -> None:
        """Reports a count not reported yet, since other lines follow."""
        if self.settles_at == float("inf"):
            return
        self.settles_at = float("inf")
        if self._in_place:
            tell("")
        elif self._text != self._reported:
            tell(f"{self._app}: {self._text}")
            self._reported = self._text

    def _fitting(self) -> str:
        """The line, with its name cut to the terminal's width: a wrapped line cannot be replaced."""
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or COLUMNS_UNTOLD
        room = columns - len(self._text) - 3
        name = self._app if len(self._app) <= room else self._app[: max(room - 1, 0)] + "…"
        return f"{name}: {self._text}"


READER_CHECK_S = 1.0
"""Interval between checks that standard output still has a reader while no window comes."""
REPEAT_S = 60.0
"""Interval between reports that an agent is still away."""


class JobView:
    """Shows one job. `show` returns why it ended: "finished", "stopped", "lost", or by its limits "enough" or
    "timeout".

    Raises BrokenPipeError when the reader of standard output has gone, even while there is nothing to write.
    """

    def __init__(self, job: ViewedJob, view: View, limits: ViewLimits) -> None:
        self._job = job
        self._limits = limits
        self._is_in_place = view.in_place and not job.bounded
        self._writer = _writer(job, view.output, in_place=self._is_in_place)
        self._readiness = ReadinessReporter(job.app)
        self._name = printable(job.app)
        self._windows = 0
        self.reasons: dict[str, str] = {}
        """Reasons of agents that are missing in some window, or in part, by their names."""
        self._reported_reason = ""
        self._report_again_at = 0.0

    def show(self) -> str:
        try:
            return self._show()
        finally:
            self._readiness.finish()
            self._writer.close()

    def _show(self) -> str:
        while True:
            now = time.monotonic()
            if now >= self._limits.deadline:
                return "timeout"
            update = self._job.wait(min(self._limits.deadline, self._readiness.settles_at, now + READER_CHECK_S) - now)
            match update:
                case Result():
                    self._write(update)
                    if self._windows == self._limits.windows:
                        return "enough"
                case Acknowledged() if not (self._is_in_place and self._windows):  # else each window shows the counts
                    self._readiness.change(update, time.monotonic())
                case WindowsLost():
                    self._tell(_lost_windows(update))
                case Disconnected():
                    self._report_loss(update)
                case Reconnected():
                    self._tell("connected again")
                case Ended():
                    return update.reason
            self._readiness.settle(time.monotonic())
            _raise_if_reader_gone()

    def _write(self, result: Result) -> None:
        if sys.stdout.isatty():
            self._readiness.finish()
        self._writer.write(result)
        sys.stdout.flush()
        self._windows += 1
        self.reasons |= result.reasons

    def _report_loss(self, lost: Disconnected) -> None:
        """Reports a lost connection at once, when its reason changes, and then once a minute."""
        now = time.monotonic()
        if lost.reason == self._reported_reason and now < self._report_again_at:
            return
        self._reported_reason, self._report_again_at = lost.reason, now + REPEAT_S
        self._tell(f"{lost.reason}; trying again until it answers")

    def _tell(self, text: str) -> None:
        self._writer.release()
        self._readiness.finish()
        tell(f"{self._name}: {text}")


def _lost_windows(lost: WindowsLost) -> str:
    after = f" after {_time(lost.after)}" if lost.after is not None else ""
    which = f"windows{after} up to {_time(lost.upto)}"
    return f"{which} were published, and cannot be shown any more: only the last ones are kept"


def _time(pane: int) -> str:
    return (_EPOCH + timedelta(milliseconds=pane)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _writer(job: ViewedJob, output: str, *, in_place: bool) -> ResultWriter:
    if output != "plot":
        return result_writer(output, job.columns, in_place=in_place)
    from elf.output.measures import measures_of  # it needs all of ELF QL

    return result_writer(output, job.columns, measures=measures_of(job.query), in_place=in_place)


def _raise_if_reader_gone() -> None:
    """Raises BrokenPipeError for a pipe without a reader: only writing would show it, and a job may write nothing for
    hours.
    """
    try:
        descriptor = sys.stdout.fileno()
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return
    except (OSError, ValueError):
        return
    poll = select.poll()
    poll.register(descriptor, 0)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError
