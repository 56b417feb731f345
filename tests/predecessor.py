"""The release before this one, from the repository's history: tests run it beside the present one."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

VERSION = "0.1.0"
COMMIT = "ef34dc4578a2993f892d2ee9c249ffc4cf35ee18"
"""The last commit of that release. A new release names the one before it here, and makes new samples of its formats
(`tests/compatibility/make_samples.py`)."""
ROOT = Path(__file__).parents[1]


def unpack(folder: Path) -> Path:
    """Unpacks its source tree into a folder, with the native parts built; skips the test where history has it not."""
    unpack_sources(folder)
    subprocess.run([sys.executable, "deploy/build_native.py"], cwd=folder, check=True, capture_output=True)
    return folder


def unpack_sources(folder: Path, *rooms: str) -> Path:
    """Unpacks some of its rooms into a folder, or all that is in its source tree, with nothing built."""
    with tarfile.open(fileobj=BytesIO(_of_history("archive", COMMIT, *rooms))) as files:
        files.extractall(folder, filter="data")
    return folder


def file(path: str) -> str:
    """The text of one of its files; skips the test where history has it not."""
    return _of_history("show", f"{COMMIT}:{path}").decode()


def _of_history(*arguments: str) -> bytes:
    said = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if said.returncode:
        pytest.skip(f"the history of this checkout does not have {COMMIT[:7]}, ELF {VERSION}")
    return said.stdout
