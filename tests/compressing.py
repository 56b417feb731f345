"""Compresses rotated logs as logrotate does: with the times of the files they are made from, which go."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import zstandard

KINDS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


def compress(path: Path, suffix: str = ".gz", *, keeps_time: bool = True) -> Path:
    """Replaces a file by a compressed one beside it."""
    status = path.stat()
    made = path.with_name(path.name + suffix)
    made.write_bytes(KINDS[suffix](path.read_bytes()))
    if keeps_time:
        os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.unlink()
    return made


def rotate(log: Path, *, suffix: str = "", delay: bool = False) -> None:
    """Moves a log and all it was rotated into one further, and compresses what is not; with `delay` but the newest."""
    rotated = [path for path in log.parent.glob(f"{log.name}.*") if path.name[len(log.name) + 1].isdigit()]
    for path in sorted(rotated, key=_number, reverse=True):
        path.rename(path.with_name(path.name.replace(f".{_number(path)}", f".{_number(path) + 1}", 1)))
    newest = log.with_name(f"{log.name}.1")
    log.rename(newest)
    first = 2 if delay else 1
    for number in range(first, len(rotated) + 2):
        plain = log.with_name(f"{log.name}.{number}")
        if suffix and plain.exists():
            compress(plain, suffix)


def _number(path: Path) -> int:
    return int(path.name.removesuffix(".gz").removesuffix(".zst").rpartition(".")[2])
