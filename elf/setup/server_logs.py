"""Access logs as the configuration of a web server names them, and a bounded reading of such configurations."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

FILES_MAX = 1000
"""Upper bound on the files of one server's configuration."""
FILE_BYTES_MAX = 4 << 20


@dataclass(frozen=True, slots=True)
class ServerLog:
    """An access log: its path, which may be a glob, and its format as far as the server's configuration tells."""

    server: str
    path: str
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class ServerLogs:
    """The logs of one server, and what was found that no agent can read, a line each."""

    logs: tuple[ServerLog, ...] = ()
    notes: tuple[str, ...] = ()


def read_text(path: Path) -> str:
    """The text of a regular file; empty where there is none that may be read, or it is too large for a
    configuration."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return ""
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError):
        return ""
    return content.decode(errors="replace") if len(content) <= FILE_BYTES_MAX else ""


def below(root: Path, path: str) -> Path:
    """The place of an absolute path below a root folder."""
    return root / path.lstrip("/")


def matching(root: Path, pattern: str) -> list[Path]:
    """The files that match an absolute glob below a root folder, in the order of their names."""
    try:
        return sorted(root.glob(pattern.lstrip("/")))[:FILES_MAX]
    except (OSError, ValueError, NotImplementedError):
        return []


def unique(logs: Iterable[ServerLog]) -> Iterator[ServerLog]:
    """The first of all logs with the same path."""
    seen = set()
    for log in logs:
        if log.path not in seen:
            seen.add(log.path)
            yield log
