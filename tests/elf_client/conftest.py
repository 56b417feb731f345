"""Sockets with paths that are short enough."""

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
