"""The package by Debian's own measure."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.sidecar


def test_lintian_finds_no_error(package: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("there is no lintian here: apt-get install lintian")
    command = ["lintian", "--allow-root", "--fail-on", "error", "--tag-display-limit", "0", str(package)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
