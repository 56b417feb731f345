"""Events at which an element's code raises: they are passed over, counted and named, unless there are too many."""

from __future__ import annotations

from collections.abc import Callable

from elf.program.code import one_line, trace

IN_ROW_MAX = 1_000
"""Calls in a row of one class that may raise, on one agent; the next one ends the job."""


class ElementFailedError(Exception):
    """An element cannot go on: its name and key, and the reason unless that is the exception that caused this one."""


class Failures:
    """The calls of one class that have raised. `log` gets the first one with its traceback, and then the tenth, the
    hundredth and so on."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.count = 0
        self._log = log
        self._in_row = 0

    def went_well(self) -> None:
        """Notes that a call has not raised."""
        self._in_row = 0

    def note(self, name: str, what: str, error: Exception) -> None:
        """Takes a call that has raised: of the element `name`, for an event or of `output`. Raises
        ElementFailedError."""
        self.count, self._in_row = self.count + 1, self._in_row + 1
        if self._in_row > IN_ROW_MAX:
            raise ElementFailedError(f"{name}, after {IN_ROW_MAX:,} others in a row") from error
        if str(self.count).strip("0") == "1":
            for line in trace(error).splitlines() if self.count == 1 else ():
                self._log(line)
            so_far = f"; {self.count:,} are so far" if self.count > 1 else ""
            self._log(f"{name}: {one_line(error)}: {what} is passed over{so_far}")
