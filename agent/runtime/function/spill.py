"""What jobs may hold in memory on one agent, where the rest goes, and what went wrong there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

UNWRITTEN = "what a job counts does not fit its memory, and cannot be written to disk: it stays in memory"
UNREAD = "what a job had counted cannot be read from disk: its result is without that, and says so"


class SpillArea:
    """`memory_bytes` for what each job counts, and a `directory` for what is beyond. `tell` gets each failure of the
    disk: what it means, one of the two above, and the reason.

    `unwritten` and `unread` count them.
    """

    def __init__(
        self, memory_bytes: int, directory: Path, tell: Callable[[str, str], None] = lambda _what, _why: None
    ) -> None:
        self.memory_bytes = memory_bytes
        self.directory = directory
        self.unwritten = 0
        self.unread = 0
        self._tell = tell

    def could_not_write(self, error: OSError) -> None:
        """Nothing is lost."""
        self.unwritten += 1
        self._tell(UNWRITTEN, str(error))

    def could_not_read(self, error: OSError) -> None:
        """Some groups of a pane are."""
        self.unread += 1
        self._tell(UNREAD, str(error))
