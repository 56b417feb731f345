"""Scans blocks of lines in the combined and common log formats by the compiled scanner."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from agent.parsing.native.library import load
from agent.parsing.native.scanned_lines import BLOCK_BYTES_MAX, ScanMemory, ScannedLines

COMBINED_FIELDS = (
    "remote_addr",
    "remote_user",
    "time",
    "request",
    "method",
    "path",
    "query_string",
    "protocol",
    "status",
    "body_bytes_sent",
    "http_referer",
    "http_user_agent",
)
"""The fields of a line under nginx's names, in the order of the scanner's."""


class CombinedScanner:
    """Scans for these fields, each of which is one column, behind that of the time."""

    def __init__(self, library: ctypes.CDLL, fields: Sequence[str]) -> None:
        self._library = library
        self._columns = 1 + len(fields)
        places = {field: column for column, field in enumerate(("time", *fields))}
        self._places = np.array([places.get(field, -1) for field in COMBINED_FIELDS], np.int32)

    def scan(self, data: bytes) -> ScannedLines | None:
        """Scans whole lines; None if there are too many for it. O(bytes), without the interpreter's lock."""
        if len(data) > BLOCK_BYTES_MAX:
            return None
        memory = ScanMemory(data, self._columns, 0)
        places = int(self._places.ctypes.data)
        self._library.elf_scan_combined(ctypes.byref(memory.scan), places, data, len(data))
        return ScannedLines.of(self._library, memory)


def combined_scanner(fields: Sequence[str]) -> CombinedScanner | None:
    """The scanner for some fields, each once; None where there is no library."""
    library = load().library
    return CombinedScanner(library, fields) if library is not None else None
