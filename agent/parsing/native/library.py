"""The calls between Python and the compiled scanner."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from cbt.native.loading import Interface, Loaded, load_library

FILE = Path(__file__).with_name("_scan.so")


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
        ("is_strict", ctypes.c_int64),
    )


INTERFACE = Interface(
    6,
    Scan,
    "elf_abi",
    {
        "elf_scan_json": (None, (ctypes.POINTER(Scan), ctypes.c_char_p, ctypes.c_int64)),
        "elf_scan_combined": (None, (ctypes.POINTER(Scan), ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)),
        "elf_export": (
            ctypes.c_int32,
            (ctypes.POINTER(Scan), ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p),
        ),
        "elf_count_lines": (ctypes.c_int64, (ctypes.c_char_p, ctypes.c_int64)),
    },
)


@cache
def load() -> Loaded:
    """Loads the library, once in a process."""
    return load_library(FILE, INTERFACE)


def count_lines(data: bytes) -> int:
    """The number of line breaks in a block."""
    library = load().library
    return data.count(b"\n") if library is None else int(library.elf_count_lines(data, len(data)))


def native_status() -> str:
    """A few words for people: whether lines are scanned natively, and why not."""
    library, reason = load()
    return "native" if library is not None else f"in Python: the native scanner is not used, {reason}"
