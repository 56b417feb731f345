"""A part of the terminal whose content is replaced as it changes."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.live import Live

LINES_AROUND = 8
"""What a table has above and below its rows: window, head, blanks, completeness, and the cursor's own line."""


class LiveRegion:
    """Shows one thing at a time, always at the same place, until other lines have to follow.

    What has no room is cut at the bottom: `lines` is how many rows of a table, or lines of a chart, have it.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    @property
    def lines(self) -> int:
        return max(1, self._console.height - LINES_AROUND)

    def show(self, content: RenderableType) -> None:
        if self._live is None:
            self._live = Live(
                console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False,
                vertical_overflow="crop",
            )  # fmt: skip
            self._live.start()
        self._live.update(content, refresh=True)

    def release(self) -> None:
        """Leaves it where it is: what is shown next gets another place, below."""
        if self._live is not None:
            self._live.stop()
            self._live = None
