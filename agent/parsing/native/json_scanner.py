"""Scans blocks of JSON lines by the compiled scanner."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from agent.parsing.native.library import Scan, load
from agent.parsing.native.scan_tests import ScanTests
from agent.parsing.native.scanned_lines import ScannedLines

Path = tuple[str, ...]
CHILDREN_MAX = 64
"""Upper bound on the keys below one place; with more of them lines are parsed exactly."""


class JsonScanner:
    """Scans for these paths, each of which is one column, and after them for the times at `time_paths`.

    A strict scanner finds only lines plain that have no keys but those that the paths lead through, and counts none as
    malformed.
    """

    def __init__(
        self, library: ctypes.CDLL, paths: Sequence[Path], time_paths: Sequence[Path], tests: ScanTests, is_strict: bool
    ) -> None:
        self._library = library
        self._is_strict = is_strict
        self._columns = len(paths) + len(time_paths)
        self._tests = tests
        nodes, children, self._keys = _flattened(paths, time_paths)
        self._nodes = np.array(nodes, np.int32).reshape(-1)
        self._children = np.array(children, np.int32).reshape(-1)

    def scan(self, data: bytes) -> ScannedLines | None:
        """Scans whole lines; None if there are too many for it. O(bytes), without the interpreter's lock."""

        def run(scan: Scan) -> None:
            scan.nodes, scan.children = int(self._nodes.ctypes.data), int(self._children.ctypes.data)
            scan.keys, scan.is_strict = self._keys, self._is_strict
            self._library.elf_scan_json(ctypes.byref(scan), data, len(data))

        return ScannedLines.of(self._library, data, self._columns, len(data), self._tests, run)


NO_TESTS = ScanTests((), {}, None, ())


def json_scanner(
    paths: Sequence[Path], time_paths: Sequence[Path] = (), tests: ScanTests = NO_TESTS, *, is_strict: bool = False
) -> JsonScanner | None:
    """The scanner for some paths, each once; None where there is no library, or it cannot read them."""
    library, places = load().library, list(dict.fromkeys((*paths, *time_paths)))
    fits = library is not None and all(places) and not _has_nested(places) and _widest(places) <= CHILDREN_MAX
    return JsonScanner(library, paths, time_paths, tests, is_strict) if library is not None and fits else None


def _has_nested(paths: Sequence[Path]) -> bool:
    """Whether a path goes on below another one."""
    known = set(paths)
    return any(path[:length] in known for path in paths for length in range(1, len(path)))


def _places(paths: Sequence[Path]) -> dict[Path, list[Path]]:
    """All places that the paths lead through, the root first, with those right below them."""
    below: dict[Path, list[Path]] = {(): []}
    for path in paths:
        for length in range(1, len(path) + 1):
            if path[:length] not in below:
                below[path[:length]] = []
                below[path[: length - 1]].append(path[:length])
    return below


def _widest(paths: Sequence[Path]) -> int:
    return max(map(len, _places(paths).values()))


def _flattened(
    paths: Sequence[Path], time_paths: Sequence[Path]
) -> tuple[list[tuple[int, int, int, int]], list[tuple[int, int, int]], bytes]:
    """Nodes, children and keys as the scanner takes them."""
    below = _places([*paths, *time_paths])
    numbers = {place: number for number, place in enumerate(below)}
    columns = {path: column for column, path in enumerate(paths)}
    times = {path: len(paths) + column for column, path in enumerate(time_paths)}
    nodes: list[tuple[int, int, int, int]] = []
    children: list[tuple[int, int, int]] = []
    keys = b""
    for place, inside in below.items():
        nodes.append((len(children), len(inside), columns.get(place, -1), times.get(place, -1)))
        for child in inside:
            key = child[-1].encode("utf-8", "surrogatepass")
            children.append((len(keys), len(key), numbers[child]))
            keys += key
    return nodes, children, keys
