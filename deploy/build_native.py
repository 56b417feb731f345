"""Builds the native scanner when ELF is installed: a hook of hatchling, and a command: `python deploy/build_native.py`.

Uses the machine's C compiler, or else the one that the wheel `ziglang` brings. Where neither can build it, ELF is
installed without it, and parses in Python.
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
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a command
    BuildHookInterface = object  # type: ignore[assignment, misc]

ROOT = Path(__file__).parents[1]
FOLDER = Path("agent/parsing/native")
LIBRARY, SEAL = FOLDER / "_scan.so", FOLDER / "_scan.json"
OPTIONS = ("-O3", "-std=c11", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden", "-g0")
COMPILERS = ("cc", "gcc", "clang")
ZIG_MACHINES = ("x86_64", "AMD64", "aarch64", "arm64")
"""Machines for which `ziglang` has wheels."""


def system_compiler() -> str | None:
    """The machine's own C compiler."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def compiler() -> list[str]:
    """The command that compiles C."""
    found = system_compiler()
    return [found] if found else [sys.executable, "-m", "ziglang", "cc"]


def build(root: Path, command: list[str]) -> None:
    """Builds the library beside its sources, and writes what it has to be. Raises what the compiler ends with."""
    target, made = root / LIBRARY, root / LIBRARY.with_suffix(f".{os.getpid()}")
    try:
        sources = sorted((root / FOLDER).glob("*.c"))
        subprocess.run([*command, *OPTIONS, "-o", made, *sources], check=True, capture_output=True, text=True)
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)
    seal = {"sha256": digest, "machine": platform.machine(), "system": sys.platform}
    (root / SEAL).write_text(json.dumps(seal) + "\n")


def try_to_build(root: Path) -> str:
    """Builds the library; returns why there is none, "" if there is one."""
    try:
        build(root, compiler())
    except subprocess.CalledProcessError as error:
        return error.stderr.strip() or f"the compiler ended with {error.returncode}"
    except OSError as error:
        return str(error)
    return ""


class NativeBuildHook(BuildHookInterface):
    """Adds the library to wheels, which are then of one platform, and builds it in place where ELF is editable."""

    def dependencies(self) -> list[str]:
        return [] if system_compiler() or platform.machine() not in ZIG_MACHINES else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        reason = try_to_build(Path(self.root))
        if reason:
            self.app.display_warning(f"ELF is installed without its native scanner, and parses in Python: {reason}")
        elif version != "editable":
            tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{tag}"
            build_data["pure_python"] = False
            build_data["artifacts"] += [str(LIBRARY), str(SEAL)]


if __name__ == "__main__":
    sys.exit(try_to_build(ROOT) or 0)
