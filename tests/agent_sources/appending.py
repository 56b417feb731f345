"""Writing to logs as servers do."""

from __future__ import annotations

from pathlib import Path


def append(path: Path, data: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(data)
