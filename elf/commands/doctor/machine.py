"""Checks the machine of an agent: its clock, and the limits of its kernel."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from agent.daemon.run import DESCRIPTORS_WANTED
from agent.programs.confinement import refusal
from elf.commands.doctor.diagnosis import Diagnosis, fault, fine, warning

TOOL_TIMEOUT_S = 5.0
WATCHES_MIN = 8192
MEMORY_BYTES_MIN = 512 << 20


def check_machine() -> Iterator[Diagnosis]:
    """All checks of the machine."""
    yield _clock()
    yield _open_files()
    yield _watches()
    yield _memory()
    reason = refusal()
    if reason is None:
        yield fine("programs", "the code of jobs can be contained")
    else:
        yield warning("programs", f"jobs with code of their own cannot run here: {reason}", "uname -r")


def _clock() -> Diagnosis:
    """Whether the clock is kept by somebody: events of a clock that is off are late, or wait for their time."""
    tool = shutil.which("timedatectl")
    if tool is None:
        return warning("clock", "there is no timedatectl to ask whether the clock is kept", "date -u; chronyc tracking")
    try:
        shown = subprocess.run(
            [tool, "show", "--property=NTPSynchronized", "--value"],
            capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return warning("clock", "timedatectl does not answer", "date -u; chronyc tracking")
    if shown.returncode:
        return warning("clock", "timedatectl cannot tell whether the clock is kept", "date -u; chronyc tracking")
    if shown.stdout.strip() == "yes":
        return fine("clock", "is synchronised")
    return warning("clock", "is not synchronised: its events may be late", "sudo timedatectl set-ntp true")


def _open_files() -> Diagnosis:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_WANTED:
        mend = "sudo systemctl edit elf-agent   # [Service] LimitNOFILE=8192"
        return warning("open files", f"at most {hard:,}, an agent may want {DESCRIPTORS_WANTED:,}", mend)
    return fine("open files", "unlimited" if hard == resource.RLIM_INFINITY else f"at most {hard:,}")


def _watches() -> Diagnosis:
    most = _number(Path("/proc/sys/fs/inotify/max_user_watches"))
    if most is None:
        return warning("inotify", "is not there: folders are looked at again and again", "uname -r")
    if most < WATCHES_MIN:
        return warning("inotify", f"at most {most:,} watches", f"sudo sysctl fs.inotify.max_user_watches={WATCHES_MIN}")
    return fine("inotify", f"at most {most:,} watches")


def _memory() -> Diagnosis:
    told = [line.split()[1] for line in _lines(Path("/proc/meminfo")) if line.startswith("MemAvailable:")]
    if not told:
        return warning("memory", "cannot be told", "free -h")
    left = 1024 * int(told[0])
    found = f"{left / 2**20:,.0f} MiB available"
    if left < MEMORY_BYTES_MIN:
        return fault("memory", found, "ps aux --sort=-rss | head")
    return fine("memory", found)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
