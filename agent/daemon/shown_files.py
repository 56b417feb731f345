"""Writes what jobs show for the web server beside the agent: one file a job, replaced as a whole."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

FILES_MAX = 256
MODE = 0o644


class ShownFiles:
    """The files of one folder, `<app>.json` each. Characters that no file name should have are spelled as in URLs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names: set[str] = set()

    def show(self, app: str, json: bytes) -> None:
        """Replaces a job's file. OSError where the disk does not take it, or there are too many."""
        name = f"{quote(app, safe=' ')[:200]}.json".lstrip(".")
        if name not in self._names and len(self._names) >= FILES_MAX:
            raise OSError(None, f"more than {FILES_MAX} jobs want to show something")
        self._names.add(name)
        beside = self._directory / f"{name}.new"
        beside.write_bytes(json)
        beside.chmod(MODE)
        beside.replace(self._directory / name)
