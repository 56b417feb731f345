"""Scans lines of logs outside the interpreter: blocks in, columns out, and the lines that need the exact parsers.

Comes as a few C sources without Python's ABI, built when ELF is installed. Where it cannot be built or loaded,
everything runs on the exact parsers in Python, which mean the same. May import nothing but libraries, and what
loads this one and hands its columns over: `cbt.native`.
"""

from agent.parsing.native.combined_scanner import COMBINED_FIELDS, CombinedScanner, combined_scanner
from agent.parsing.native.json_scanner import JsonScanner, json_scanner
from agent.parsing.native.library import native_status
from agent.parsing.native.scan_tests import KINDS, Clauses, ColumnTest, ScanTests
from agent.parsing.native.scanned_lines import ScannedLines

__all__ = [
    "COMBINED_FIELDS",
    "KINDS",
    "Clauses",
    "ColumnTest",
    "CombinedScanner",
    "JsonScanner",
    "ScanTests",
    "ScannedLines",
    "combined_scanner",
    "json_scanner",
    "native_status",
]
