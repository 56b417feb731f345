"""The container file is built on the Debian of the machines, and its image runs an agent. Needs buildah."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machines import FOLDER, HELD, ROOT, debian, unavailable, wait_until

pytestmark = pytest.mark.sidecar
BASE = "docker.io/library/debian:bookworm-slim"
"""The name that the container file knows its base by; it is put in place here, as registries may be out of reach."""
IMAGE = "localhost/elf-agent"


class Buildah:
    """Images and containers below a folder of their own, without any daemon."""

    def __init__(self, folder: Path) -> None:
        self._command = ("buildah", "--root", str(folder / "images"), "--runroot", str(folder / "run"))

    def __call__(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run((*self._command, *words), capture_output=True, text=True, check=False, timeout=300)
        assert not check or done.returncode == 0, (
            f"buildah {' '.join(words)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
        return done

    def inside(self, container: str, *command: str, user: str = "") -> tuple[str, ...]:
        """The command line that runs a command in a container, as the image's user or another one."""
        other = ("--user", user) if user else ()
        return (*self._command, "run", "--isolation", "chroot", *other, container, "--", *command)

    def run(self, container: str, *command: str, user: str = "") -> str:
        return self(*self.inside(container, *command, user=user)[len(self._command) :]).stdout


@pytest.fixture
def buildah() -> Iterator[Buildah]:
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    if shutil.which("buildah") is None:
        pytest.skip("there is no buildah here: apt-get install buildah")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="images-", dir=FOLDER) as folder:
        found = Buildah(Path(folder))
        yield found
        found("rm", "--all", check=False)
        found("rmi", "--all", "--force", check=False)


def import_base(buildah: Buildah) -> None:
    container = buildah("from", "scratch").stdout.strip()
    root = buildah("mount", container).stdout.strip()
    subprocess.run(["cp", "-a", f"{debian(FOLDER / 'debian')}/.", root], check=True)
    buildah("umount", container)
    buildah("commit", "--rm", container, BASE)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_image_of_the_container_file_runs_an_agent_that_answers(
    buildah: Buildah, package: Path, tmp_path: Path
) -> None:
    import_base(buildah)
    (tmp_path / "dist").mkdir()
    shutil.copy(package, tmp_path / "dist")
    file = ROOT / "deploy/container/Containerfile"
    isolated = ("--isolation", "chroot", "--pull-never", "--format", "docker")
    buildah("bud", *isolated, "-t", IMAGE, "-f", str(file), str(tmp_path))
    container = buildah("from", "--pull-never", IMAGE).stdout.strip()
    image: dict[str, Any] = json.loads(buildah("inspect", container).stdout)["Docker"]["config"]
    assert image["User"] == "elf:elf"
    setup = (
        "elf ca init /srv/web-ca --fleet web --no-password && elf agent enroll --ca /srv/web-ca --name web-1"
        f" && elf init --listen 127.0.0.1:{free_port()}"
    )
    buildah.run(container, "sh", "-c", setup, user="root")
    held = buildah.inside(container, "sh", "-c", HELD, "sh", *image["Entrypoint"])
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as agent:
        health = buildah.inside(container, *image["Healthcheck"]["Test"][1:])
        try:
            wait_until(lambda: subprocess.run(health, capture_output=True, check=False).returncode == 0, "health", 30)
            status = json.loads(buildah.run(container, *image["Healthcheck"]["Test"][1:]))
            assert (status["name"], status["fleet"]) == ("web-1", "web")
        finally:
            said = agent.communicate(b"\n", 60)[0].decode()
            print(said)
    assert '"ended"' in said
