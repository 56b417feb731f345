"""How many agents run a job, said on standard error as it changes."""

from __future__ import annotations

import os
import sys

from agent.control.messages import Acknowledged
from elf.terminal import printable, tell

SETTLED_S = 0.5
"""A count that has not changed for this long is worth a line of its own."""
COLUMNS_UNTOLD = 80
"""Some terminals do not say how wide they are."""
_TO_START_OF_LINE, _ERASE_REST = "\r", "\x1b[K"


class AgentCounts:
    """On a terminal one line that changes in place; elsewhere a line for each count that lasts.

    `settles_at` is when `settle` should be called next.
    """

    def __init__(self, app: str) -> None:
        self.settles_at = float("inf")
        self._app = printable(app)
        self._in_place = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._text = self._said = ""

    def change(self, heard: Acknowledged, now: float) -> None:
        """There is news; most of it is about the master, not the counts."""
        what = "it" if heard.version == 1 else f"version {heard.version}"
        counts = f"{heard.agents} of {heard.expected} agents run {what}"
        if not heard.expected:
            counts = "no agent has its stream so far"
        if counts == self._text:
            return
        self._text, self.settles_at = counts, now + SETTLED_S
        if self._in_place:
            tell(f"{_TO_START_OF_LINE}{self._fitting()}{_ERASE_REST}", end="")

    def settle(self, now: float) -> None:
        """Says what has lasted long enough."""
        if now >= self.settles_at:
            self.finish()

    def finish(self) -> None:
        """Says what was not said yet: other lines follow."""
        if self.settles_at == float("inf"):
            return
        self.settles_at = float("inf")
        if self._in_place:
            tell("")
        elif self._text != self._said:
            tell(f"{self._app}: {self._text}")
            self._said = self._text

    def _fitting(self) -> str:
        """The line, its name cut where the terminal would wrap it: what is wrapped cannot be replaced."""
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or COLUMNS_UNTOLD
        room = columns - len(self._text) - 3
        name = self._app if len(self._app) <= room else self._app[: max(room - 1, 0)] + "…"
        return f"{name}: {self._text}"
