"""Builds the native libraries when ELF is installed: a hook of hatchling, and a command,
`python deploy/build_native.py`.

Uses the machine's C compiler, or else the one that the wheel `ziglang` brings. Where neither can build them, ELF is
installed without them, and parses and aggregates in Python. ELF_WHEEL_PLATFORM names another platform to build a wheel
for: `ziglang` builds for all of them on one machine (`make wheels`).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a command
    BuildHookInterface = object  # type: ignore[assignment, misc]

ROOT = Path(__file__).parents[1]
SCANNER = Path("agent/parsing/native/_scan.so")
LIBRARIES = (SCANNER, Path("cbt/native/_tree.so"))
"""The scanner of lines and the tree's kernel, each beside its sources."""
SEAL = ".json"
"""Suffix of the file beside a library that says what it has to be."""
OPTIONS = ("-O3", "-std=c11", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden", "-g0")
COMPILERS = ("cc", "gcc", "clang")
PLATFORM = "ELF_WHEEL_PLATFORM"
"""Environment variable: tag of the platform that the wheel is for, by default this machine's."""


class Target(NamedTuple):
    """A platform: what zig calls it, and what Python says there of machine and system."""

    zig: str
    machine: str
    system: str


TARGETS = {
    "manylinux_2_17_x86_64": Target("x86_64-linux-gnu.2.17", "x86_64", "linux"),
    "manylinux_2_17_aarch64": Target("aarch64-linux-gnu.2.17", "aarch64", "linux"),
    "musllinux_1_2_x86_64": Target("x86_64-linux-musl", "x86_64", "linux"),
    "musllinux_1_2_aarch64": Target("aarch64-linux-musl", "aarch64", "linux"),
    "macosx_11_0_x86_64": Target("x86_64-macos.11.0", "x86_64", "darwin"),
    "macosx_11_0_arm64": Target("aarch64-macos.11.0", "arm64", "darwin"),
}
"""Platforms of wheels, by their tags."""
ZIG_MACHINES = ("x86_64", "AMD64", "aarch64", "arm64")
"""Machines for which `ziglang` has wheels."""


def system_compiler() -> str | None:
    """The machine's own C compiler."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def target() -> Target | None:
    """The platform to build for, None for this machine. Raises ValueError where the environment names another one."""
    name = os.environ.get(PLATFORM)
    if name and name not in TARGETS:
        raise ValueError(f"{PLATFORM}={name} is none of {', '.join(TARGETS)}")
    return TARGETS[name] if name else None


def compiler() -> list[str]:
    """The command that compiles C."""
    wanted, found = target(), system_compiler()
    zig = [sys.executable, "-m", "ziglang", "cc"]
    if wanted:
        return [*zig, "-target", wanted.zig]
    return [found] if found else zig


def build(root: Path, command: list[str], library: Path) -> None:
    """Builds a library beside its sources, and writes what it has to be. Raises what the compiler ends with."""
    wanted = target() or Target("", platform.machine(), sys.platform)
    library = root / library
    made = library.with_suffix(f".{os.getpid()}")
    try:
        sources = sorted(library.parent.glob("*.c"))
        subprocess.run([*command, *OPTIONS, "-o", made, *sources], check=True, capture_output=True, text=True)
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        made.replace(library)
    finally:
        made.unlink(missing_ok=True)
    seal = {"sha256": digest, "machine": wanted.machine, "system": wanted.system}
    library.with_suffix(SEAL).write_text(json.dumps(seal) + "\n")


def try_to_build(root: Path) -> str:
    """Builds the libraries; returns why one is missing, "" if none is."""
    try:
        for library in LIBRARIES:
            build(root, compiler(), library)
    except subprocess.CalledProcessError as error:
        return error.stderr.strip() or f"the compiler ended with {error.returncode}"
    except OSError as error:
        return str(error)
    return ""


class NativeBuildHook(BuildHookInterface):
    """Adds the libraries to wheels, which are then of one platform, and builds them in place where ELF is editable."""

    def dependencies(self) -> list[str]:
        has_compiler = system_compiler() or platform.machine() not in ZIG_MACHINES
        return [] if has_compiler and not target() else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        reason = try_to_build(Path(self.root))
        if reason and target():
            raise RuntimeError(f"no wheel for {os.environ[PLATFORM]}: {reason}")
        if reason:
            self.app.display_warning(
                f"ELF is installed without its native libraries, and parses and aggregates in Python: {reason}"
            )
        elif version != "editable":
            tag = os.environ.get(PLATFORM) or sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{tag}"
            build_data["pure_python"] = False
            build_data["artifacts"] += [str(file) for one in LIBRARIES for file in (one, one.with_suffix(SEAL))]


if __name__ == "__main__":
    sys.exit(try_to_build(ROOT) or 0)
