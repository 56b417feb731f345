"""Web servers with the package beside Debian's nginx; skipped, with one line, where there can be no machines.

`ELF_SIDECAR_FOLDER` names the folder of the Debian that they share, and of the predecessor's package (default: below
the system's temporary folder). `ELF_SIDECAR_PACKAGE` names a package that is built already.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from machines import FOLDER, ROOT, Machine, Network, debian, unavailable
from predecessor import COMMIT, unpack
from web_servers import WebServers


@pytest.fixture(scope="session")
def package() -> Path:
    """The package of this working tree."""
    if given := os.environ.get("ELF_SIDECAR_PACKAGE"):
        return Path(given)
    return built(ROOT, FOLDER / "packages")


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package that a fleet is upgraded from: what the release before this one builds of itself, made once."""
    kept = FOLDER / "packages" / COMMIT
    if not kept.exists():
        made = built(unpack(tmp_path_factory.mktemp("predecessor")), FOLDER / f"packages/{COMMIT}.part")
        made.parent.rename(kept)
    return next(kept.glob("*.deb"))


def built(tree: Path, output: Path) -> Path:
    command = [sys.executable, str(tree / "deploy/debian/build.py"), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def servers() -> Iterator[WebServers]:
    """Three machines, each with Debian's nginx, and nothing of ELF yet."""
    with booted(("web-1", "web-2", "web-3")) as machines:
        yield WebServers(machines)


@pytest.fixture(scope="module")
def fresh() -> Iterator[WebServers]:
    """One such machine."""
    with booted(("fresh",)) as machines:
        yield WebServers(machines)


@contextmanager
def booted(names: Sequence[str]) -> Iterator[list[Machine]]:
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    base = debian(FOLDER / "debian")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="machines-", dir=FOLDER)))
        stack.enter_context(Network())
        machines = [Machine(base, folder / name, name, number) for number, name in enumerate(names, 1)]
        yield [stack.enter_context(machine) for machine in machines]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    """Shows with a step that fails what the machines have in their journals."""
    report: pytest.TestReport = yield
    if report.failed and report.when == "call":
        for found in getattr(item, "funcargs", {}).values():
            for machine in found.machines if isinstance(found, WebServers) else ():
                report.sections.append((f"journal of {machine.name}", machine.last_words()))
    return report
