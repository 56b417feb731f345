"""Reads the reports that `elf batch reconcile --html` has written to a folder; never writes there, nor leaves it."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from elf.errors import UsageError

REPORTS_MAX = 100
ENTRIES_MAX = 10_000
"""Upper bound on the folder's entries that are looked at."""
REPORT_BYTES_MAX = 8 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _@+=,.-]{0,200}\.html")


class ReportFolder:
    """The reports in one folder, by their file names; raises UsageError where there is no such folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"--reports {folder}: {(error.strerror or str(error)).lower()}") from None

    def names(self) -> list[str]:
        """The newest reports, the newest first."""
        found: list[tuple[float, str]] = []
        try:
            with os.scandir(self._descriptor) as entries:
                for _, entry in zip(range(ENTRIES_MAX), entries, strict=False):
                    if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        found.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
        except OSError:
            return []
        return [name for _, name in sorted(found, reverse=True)[:REPORTS_MAX]]

    def read(self, name: str) -> bytes | None:
        """A report's bytes; None where there is no such file, or it is no report: a link, a folder, one too large."""
        if not _NAME.fullmatch(name):
            return None
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._descriptor)
        except OSError:
            return None
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            return None
        with os.fdopen(file, "rb") as opened:
            data = opened.read(REPORT_BYTES_MAX + 1)
        return data if len(data) <= REPORT_BYTES_MAX else None
