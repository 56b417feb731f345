"""Sockets with paths short enough, and `elf` as a process that asks a scripted agent."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """A path for a socket: pytest's own folders may have longer names than a socket's may be."""
    with tempfile.TemporaryDirectory(prefix="elf-") as directory:
        yield Path(directory, "control.sock")
