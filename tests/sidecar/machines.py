"""Debian machines with a real systemd, as containers of systemd-nspawn on a bridge of their own.

All share one Debian, made by debootstrap and kept between runs; what one writes is in a layer of its own, which goes
with it.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("ELF_SIDECAR_FOLDER", Path(tempfile.gettempdir()) / "elf-sidecar"))
"""Folder of what is kept between runs."""
SUITE = "bookworm"
PACKAGES = (
    "adduser", "ca-certificates", "dbus", "init-system-helpers", "iproute2", "logrotate", "nginx-light", "procps",
    "python3", "rsyslog", "systemd", "systemd-sysv",
)  # fmt: skip
BRIDGE = "elf-sidecar"
NETWORK = ipaddress.ip_network("10.177.0.0/24")
LANDLOCK = "landlock_create_ruleset landlock_add_rule landlock_restrict_self"
"""System calls of job programs, which containers are not let through by every systemd-nspawn."""
HELD = '"$@" </dev/null & child=$!; read -r _; kill "$child" 2>/dev/null; wait "$child"'
"""Runs a command until standard input ends: a signal to nsenter would not reach it."""
BOOT_S = 60.0
COMMAND_S = 300.0
TOOLS = ("debootstrap", "unshare", "systemd-nspawn", "nsenter", "ip", "dpkg-deb", "losetup", "mkfs.ext4")


def unavailable() -> str | None:
    """Why there can be no machines here; None if there can."""
    if os.geteuid() != 0:
        return "machines with a systemd of their own need root"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        packages = "debootstrap systemd-container iproute2 dpkg e2fsprogs"
        return f"there is no {', '.join(missing)} here: apt-get install {packages}"
    return None


def debian(folder: Path) -> Path:
    """The Debian that all machines share, made at the first call."""
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        include = ",".join(PACKAGES)
        alone = ("unshare", "--mount")  # what is mounted meanwhile goes with the process, however it ends
        command = [*alone, "debootstrap", "--variant=minbase", f"--include={include}", SUITE, str(folder), *_mirror()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        (folder / "complete").touch()
    return folder


def _mirror() -> list[str]:
    """The mirror that this machine takes its packages from, if it says so."""
    command = ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Identifier: Packages"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return next(([site] for site, _, release in (line.partition(" ") for line in listed) if release == SUITE), [])


class Network:
    """`with Network():` a bridge that machines are connected to; this machine has its first address."""

    def __enter__(self) -> Self:
        self._remove()
        own = f"{next(NETWORK.hosts())}/{NETWORK.prefixlen}"
        for command in (
            ["ip", "link", "add", BRIDGE, "type", "bridge"],
            ["ip", "address", "add", own, "dev", BRIDGE],
            ["ip", "link", "set", BRIDGE, "up"],
        ):
            subprocess.run(command, check=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        subprocess.run(["ip", "link", "delete", BRIDGE], check=False, stderr=subprocess.DEVNULL)


class Machine:
    """`with Machine(...) as web_1:` boots one; `run` runs commands in it."""

    def __init__(self, base: Path, folder: Path, name: str, number: int) -> None:
        self.name = name
        self.address = str(NETWORK[number + 1])
        self.root = folder / "root"
        self._base = base
        self._folder = folder
        self._container: subprocess.Popen[bytes] | None = None
        self._init = 0

    def __enter__(self) -> Self:
        for part in ("upper", "work", "root"):
            (self._folder / part).mkdir(parents=True)
        layers = f"lowerdir={self._base},upperdir={self._folder}/upper,workdir={self._folder}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(self.root)], check=True)
        try:
            self._boot()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def run(self, *command: str, check: bool = True, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command in the machine, as root, and returns what it printed."""
        done = subprocess.run(
            self._inside(command), input=text, capture_output=True, text=True, check=False, timeout=COMMAND_S
        )
        assert not check or done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    @contextmanager
    def running(self, *command: str, **outputs: Any) -> Iterator[subprocess.Popen[str]]:
        """Runs a command in the machine meanwhile; it is terminated at the end."""
        held = ["sh", "-c", HELD, "sh", *command]
        with subprocess.Popen(self._inside(held), stdin=subprocess.PIPE, text=True, **outputs) as process:
            try:
                yield process
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(COMMAND_S)

    def output(self, *command: str) -> str:
        return self.run(*command).stdout.strip()

    def unit(self, name: str, unit: str = "elf-agent") -> str:
        """A property of a unit."""
        return self.output("systemctl", "show", "--value", "-p", name, unit)

    def status(self) -> dict[str, Any]:
        """The agent's answer to `elf status`."""
        found: dict[str, Any] = json.loads(self.output("elf", "status", "--output", "json"))
        return found

    def journal(self, unit: str = "elf-agent") -> str:
        """The log of a unit."""
        return self.output("journalctl", "--no-pager", "-o", "cat", "-u", unit)

    @contextmanager
    def small_disk(self, place: str) -> Iterator[Callable[[], object]]:
        """Mounts a disk of 24 MiB at a folder, with what is in it, meanwhile; yields what makes the disk fail, as the
        kernel sees it: it is read-only from then on.
        """
        image, kept = self._folder / "disk", f"/srv/{Path(place).name}"
        subprocess.run(["truncate", "--size=24M", image], check=True)
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", image], check=True)
        command = ["losetup", "--find", "--show", str(image)]
        device = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
        number = device.stat().st_rdev
        try:
            self.run("cp", "-a", place, kept)
            self.run("mknod", "/dev/small", "b", str(os.major(number)), str(os.minor(number)))
            self.run("mount", "-o", "errors=remount-ro", "/dev/small", place)
            self.run("cp", "-a", f"{kept}/.", place)
            yield lambda: Path(f"/sys/fs/ext4/{device.name}/trigger_fs_error").write_text("a test of faulty disks")
            self.run("cp", "-a", f"{place}/.", kept)
            self.run("umount", place)
            self.run("cp", "-a", f"{kept}/.", place)
        finally:
            subprocess.run(["losetup", "--detach", device], check=False)

    def last_words(self) -> str:
        """The end of the journal, for whoever wonders why something failed here."""
        units = ("-u", "elf-agent", "-u", "nginx", "-p", "info")
        said = self.run("journalctl", "--no-pager", "-n", "80", "-o", "short-precise", *units, check=False)
        states = self.run("systemctl", "--no-pager", "--failed", check=False)
        return said.stdout + said.stderr + states.stdout

    def path(self, path: str) -> Path:
        """The place of a file of the machine here."""
        return self.root / path.lstrip("/")

    def _inside(self, command: Sequence[str]) -> list[str]:
        environment = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/root", "TZ=UTC"]
        return ["nsenter", "-t", str(self._init), "-a", *environment, *command]

    def _boot(self) -> None:
        self.path("/etc/hostname").write_text(f"{self.name}\n")
        with (self._folder / "console").open("wb") as console:
            self._container = subprocess.Popen(
                [
                    "systemd-nspawn", "--quiet", "-D", str(self.root), f"--machine={self.name}", "--register=no",
                    "--keep-unit", f"--network-bridge={BRIDGE}", f"--system-call-filter={LANDLOCK}",
                    "--boot", "--console=read-only",
                ],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT,
            )  # fmt: skip
        wait_until(self._has_booted, f"{self.name} has booted", BOOT_S)
        for command in (
            ["ip", "address", "add", f"{self.address}/{NETWORK.prefixlen}", "dev", "host0"],
            ["ip", "link", "set", "host0", "up"],
        ):
            self.run(*command)

    def _has_booted(self) -> bool:
        assert self._container is not None
        assert self._container.poll() is None, (self._folder / "console").read_text(errors="replace")[-3000:]
        children = Path(f"/proc/{self._container.pid}/task/{self._container.pid}/children").read_text().split()
        if not children:
            return False
        self._init = int(children[-1])
        state = subprocess.run(
            self._inside(["systemctl", "is-system-running"]), capture_output=True, text=True, check=False
        )
        return state.stdout.strip() in ("running", "degraded")

    def _end(self) -> None:
        if self._container is not None:
            self._container.send_signal(signal.SIGTERM)
            try:
                self._container.wait(BOOT_S)
            except subprocess.TimeoutExpired:
                self._container.kill()
                self._container.wait()
        subprocess.run(["umount", str(self.root)], check=True)
        shutil.rmtree(self._folder)


def wait_until(condition: Any, what: str, timeout_s: float = 90.0) -> None:
    """Returns when the condition holds; AssertionError when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.1)
