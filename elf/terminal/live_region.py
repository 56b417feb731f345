"""A region of the terminal whose content is replaced as it changes."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.live import Live

LINES_AROUND = 8
"""Lines of a table around its rows: window, head, blanks, completeness, and the cursor's own line."""


class LiveRegion:
    """Shows one renderable at a time, always at the same place, until other lines follow.

    Content that does not fit is cut at the bottom: `lines` is the number of table rows, or of chart lines, that fit.
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
        """Leaves the content where it is; the next content gets another place, below."""
        if self._live is not None:
            self._live.stop()
            self._live = None
