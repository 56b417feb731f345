"""The C++ hash maps that the tree is measured against, compiled where there is a compiler and Google's headers."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from benchmarks.environment import NotAvailable

from .runs import Program

SOURCE = Path(__file__).with_name("hash_map.cpp")
_FLAGS = ("-O3", "-march=native", "-std=c++17")
_COMPILE_TIMEOUT_S = 120


def hash_map(name: str, map_: str, folder: Path) -> Program:
    """The program that counts keys in one of the maps of `hash_map.cpp`; it is compiled into the folder."""
    return Program(name, lambda: [str(compiled(folder)), map_])


@cache
def compiled(folder: Path) -> Path:
    """The program, compiled into the folder once. Raises NotAvailable with what is missing."""
    candidates = [os.environ.get("CXX"), "c++", "g++"]
    compiler = next((path for name in candidates if name and (path := shutil.which(name))), None)
    if compiler is None:
        raise NotAvailable("no C++ compiler")
    program = folder / "hash_map"
    command = [compiler, *_FLAGS, "-o", str(program), str(SOURCE)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailable(f"cannot be compiled: {error}") from error
    if done.returncode != 0:
        missing = "sparsehash/" in done.stderr and "No such file" in done.stderr
        why = "no headers of libsparsehash-dev" if missing else f"cannot be compiled by {compiler}"
        raise NotAvailable(why)
    return program
