"""Scans blocks of lines in the combined and common log formats by the compiled scanner."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence

import numpy as np

from agent.parsing.native.library import Scan, load
from agent.parsing.native.scan_tests import KINDS, Clauses, ScanTests
from agent.parsing.native.scanned_lines import ScannedLines

TIME_FIELD = "time"

COMBINED_FIELDS = (
    "remote_addr",
    "remote_user",
    TIME_FIELD,
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

    def __init__(self, library: ctypes.CDLL, fields: Sequence[str], tests: ScanTests) -> None:
        self._library = library
        self._columns = 1 + len(fields)
        self._tests = tests
        places = {field: column for column, field in enumerate((TIME_FIELD, *fields))}
        self._places = np.array([places.get(field, -1) for field in COMBINED_FIELDS], np.int32)

    def scan(self, data: bytes) -> ScannedLines | None:
        """Scans whole lines; None if there are too many for it. O(bytes), without the interpreter's lock."""

        def run(scan: Scan) -> None:
            self._library.elf_scan_combined(ctypes.byref(scan), int(self._places.ctypes.data), data, len(data))

        return ScannedLines.of(self._library, data, self._columns, 0, self._tests, run)


def combined_scanner(fields: Sequence[str], clauses: Clauses = ()) -> CombinedScanner | None:
    """The scanner for some fields, each once, that passes over lines that fail `clauses`; None where there is no
    library."""
    library = load().library
    if library is None:
        return None
    places = {field: column for column, field in enumerate(fields, start=1)}
    fitting: list[Collection[type]] = [{int}, *([KINDS] * len(fields))]
    return CombinedScanner(library, fields, ScanTests(clauses, places, 0, fitting))
