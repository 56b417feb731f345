"""Fixtures of the tests of live sources."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from follower import Follower

NOBODY = 65534


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


@pytest.fixture
def barred_folder() -> Iterator[Path]:
    """A folder with `access.log` and `deep/access.log`, into which whoever runs the test may not look."""
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "shop"
        (folder / "deep").mkdir(parents=True)
        for log in (folder / "access.log", folder / "deep" / "access.log"):
            log.write_bytes(b"line\n")
        Path(top).chmod(0o755)
        folder.chmod(0)
        with without_privileges():
            yield folder
        folder.chmod(0o700)


@contextmanager
def without_privileges() -> Iterator[None]:
    """What root may do, nobody else may: for a while this process is nobody."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def follow() -> Iterator[Callable[..., Follower]]:
    followers: list[Follower] = []

    def make(*patterns: str | Path, **options: Any) -> Follower:
        followers.append(Follower(*patterns, **options))
        return followers[-1]

    yield make
    for follower in followers:
        follower.tail.close()
