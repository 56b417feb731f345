"""Loads the compiled scanner, if there is one that fits this machine and this version of ELF."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

ABI = 5
"""Version of the calls between Python and the library, also stated in its source."""
FILE = Path(__file__).with_name("_scan.so")
SEAL = ".json"
"""Suffix of the file beside the library that says what it has to be: loading a damaged one could end the process."""
SWITCH = "ELF_NATIVE"
"""Environment variable that turns the library off where it is 0."""
_ABI_FACTOR = 1000


class Scan(ctypes.Structure):
    """The memory of one scan; see `Scan` in scan.h."""

    _fields_ = (
        ("nodes", ctypes.c_void_p),
        ("children", ctypes.c_void_p),
        ("keys", ctypes.c_char_p),
        ("columns", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("kinds", ctypes.c_void_p),
        ("numbers", ctypes.c_void_p),
        ("views", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("arena_used", ctypes.c_int64),
        ("present", ctypes.c_void_p),
        ("hard", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("hard_lines", ctypes.c_int64),
        ("consumed", ctypes.c_int64),
        ("tests", ctypes.c_void_p),
        ("texts", ctypes.c_char_p),
        ("tests_count", ctypes.c_int64),
        ("time", ctypes.c_int64),
        ("fitting", ctypes.c_void_p),
        ("passed_over", ctypes.c_void_p),
        ("present_over", ctypes.c_void_p),
        ("rows_over", ctypes.c_int64),
        ("malformed", ctypes.c_int64),
    )


class Loaded(NamedTuple):
    """The library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str


@cache
def load() -> Loaded:
    """Loads the library, once in a process."""
    if os.environ.get(SWITCH) == "0":
        return Loaded(None, f"{SWITCH}=0 turns it off")
    return load_file(FILE)


def load_file(file: Path) -> Loaded:
    """Loads a library, unless it is of another machine or version, or damaged."""
    reason = _unfit(file)
    if reason:
        return Loaded(None, reason)
    try:
        library = ctypes.CDLL(str(file))
        library.elf_abi.restype = ctypes.c_int32
        abi = library.elf_abi()
        library.elf_scan_json.argtypes = (ctypes.POINTER(Scan), ctypes.c_char_p, ctypes.c_int64)
        library.elf_scan_json.restype = None
        library.elf_scan_combined.argtypes = (ctypes.POINTER(Scan), ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)
        library.elf_scan_combined.restype = None
        library.elf_export.restype = ctypes.c_int32
        library.elf_count_lines.argtypes = (ctypes.c_char_p, ctypes.c_int64)
        library.elf_count_lines.restype = ctypes.c_int64
    except (OSError, AttributeError) as error:
        return Loaded(None, f"it cannot be loaded: {error}")
    if abi != ABI * _ABI_FACTOR + ctypes.sizeof(Scan):
        return Loaded(None, "it was built for another version of ELF")
    return Loaded(library, "")


def _unfit(file: Path) -> str:
    """The reason why a library must not even be opened, "" if there is none."""
    try:
        content, seal = file.read_bytes(), json.loads(file.with_suffix(SEAL).read_bytes())
        digest, built_for = seal["sha256"], (seal["machine"], seal["system"])
    except (OSError, ValueError, KeyError, TypeError):
        return "it was not built when ELF was installed"
    if built_for != (platform.machine(), sys.platform):
        return f"it was built for {' '.join(map(str, built_for))}"
    return "" if hashlib.sha256(content).hexdigest() == digest else "it is damaged"


def count_lines(data: bytes) -> int:
    """The number of line breaks in a block."""
    library = load().library
    return data.count(b"\n") if library is None else int(library.elf_count_lines(data, len(data)))


def native_status() -> str:
    """A few words for people: whether lines are scanned natively, and why not."""
    library, reason = load()
    return "native" if library is not None else f"in Python: the native scanner is not used, {reason}"
