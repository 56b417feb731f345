"""Three web servers with the package beside Debian's nginx; skipped, with one line, where there can be no machines.

`ELF_SIDECAR_FOLDER` names the folder of the Debian that they share (default: below the system's temporary folder).
`ELF_SIDECAR_PACKAGE` names a package that is built already, and `ELF_SIDECAR_PREVIOUS` the one to upgrade from: else
this one under a lower version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from machines import Machine, Network, debian, unavailable
from web_servers import WebServers

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("ELF_SIDECAR_FOLDER", Path(tempfile.gettempdir()) / "elf-sidecar"))
NAMES = ("web-1", "web-2", "web-3")
PREVIOUS_VERSION = "0.0.9"


@pytest.fixture(scope="session")
def package() -> Path:
    """The package of this working tree."""
    if given := os.environ.get("ELF_SIDECAR_PACKAGE"):
        return Path(given)
    command = [sys.executable, str(ROOT / "deploy/debian/build.py"), "--output", str(FOLDER / "packages")]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def previous(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package that a fleet is upgraded from."""
    if given := os.environ.get("ELF_SIDECAR_PREVIOUS"):
        return Path(given)
    stage = tmp_path_factory.mktemp("previous") / "stage"
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(stage)], check=True)
    control = stage / "DEBIAN/control"
    lines = control.read_text().splitlines(keepends=True)
    control.write_text(
        "".join(f"Version: {PREVIOUS_VERSION}\n" if one.startswith("Version:") else one for one in lines)
    )
    target = FOLDER / "packages" / f"elf-agent_{PREVIOUS_VERSION}.deb"
    target.parent.mkdir(parents=True, exist_ok=True)
    pack = ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z1", "--build", str(stage), str(target)]
    subprocess.run(pack, check=True, capture_output=True)
    shutil.rmtree(stage)
    return target


@pytest.fixture(scope="session")
def servers() -> Iterator[WebServers]:
    """Three machines, each with Debian's nginx, and nothing of ELF yet."""
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    base = debian(FOLDER / "debian")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="machines-", dir=FOLDER)))
        stack.enter_context(Network())
        machines = [Machine(base, folder / name, name, number) for number, name in enumerate(NAMES, 1)]
        yield WebServers([stack.enter_context(machine) for machine in machines])
