"""Processes that others have started."""

from __future__ import annotations

from pathlib import Path


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, and those that these have."""
    children = {int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in _words(task / "children")}
    return children | {one for child in children for one in descendants(child)}


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    words = _words(Path(f"/proc/{pid}/stat"))
    return bool(words) and words[2] not in ("Z", "X")


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
