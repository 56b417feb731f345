"""Bounds the memory and the disk of jobs on one agent, and counts the failures of the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cbt import ROOT_BYTES_MAX, DiskQuota

UNWRITTEN = "what a job counts does not fit its memory, and cannot be written to disk: it stays in memory"
UNREAD = "what a job had counted cannot be read from disk: its result is without that, and says so"


class SpillArea:
    """Each job may hold `memory_bytes`, and spills the rest to `directory`, all together as far as `quota` allows.
    Groups that are not in order yet have `root_bytes` of the memory. `warn` is called at each failure of the disk, with
    its meaning, `UNWRITTEN` or `UNREAD`, and the reason.

    `unwritten` and `unread` count the failures.
    """

    def __init__(
        self,
        memory_bytes: int,
        directory: Path,
        warn: Callable[[str, str], None] = lambda _what, _why: None,
        quota: DiskQuota | None = None,
        root_bytes: int = ROOT_BYTES_MAX,
    ) -> None:
        self.memory_bytes = memory_bytes
        self.directory = directory
        self.quota = quota
        self.root_bytes = root_bytes
        self.unwritten = 0
        self.unread = 0
        self._warn = warn

    def could_not_write(self, error: OSError) -> None:
        """Notes that a write failed: nothing is lost."""
        self.unwritten += 1
        self._warn(UNWRITTEN, str(error))

    def could_not_read(self, error: OSError) -> None:
        """Notes that a read failed: some groups of a pane are lost."""
        self.unread += 1
        self._warn(UNREAD, str(error))
