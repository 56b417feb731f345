"""Scans blocks of JSON lines by the compiled scanner."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.parsing.native.library import Scan, load

Path = tuple[str, ...]
KINDS: tuple[type, ...] = (type(None), bool, int, float, str)
"""Types of values, in the order of the scanner's kinds."""
CHILDREN_MAX = 64
"""Upper bound on the keys below one place; with more of them lines are parsed exactly."""
BLOCK_BYTES_MAX = 1 << 30
"""Upper bound on a block, whose places are 32-bit numbers; a larger one is parsed exactly."""
_VIEW_BYTES = 16


class _Schema(ctypes.Structure):
    _fields_ = (("head", ctypes.c_void_p * 3), ("counts", ctypes.c_int64 * 2), ("tail", ctypes.c_void_p * 4))


class _Array(ctypes.Structure):
    _fields_ = (("counts", ctypes.c_int64 * 5), ("tail", ctypes.c_void_p * 5))


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class _Exported:
    """An array that whoever imports it owns from then on (Arrow's PyCapsule interface)."""

    def __init__(self) -> None:
        self.array, self.schema = _Array(), _Schema()

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return (
            _capsule(ctypes.addressof(self.schema), b"arrow_schema", None),
            _capsule(ctypes.addressof(self.array), b"arrow_array", None),
        )


@dataclass(frozen=True, slots=True)
class ScannedLines:
    """The plain lines of a block as columns of the scanner's paths; `hard` are the other lines that are not blank."""

    rows: int
    hard: tuple[bytes, ...]
    _library: ctypes.CDLL
    _scan: Scan
    _memory: tuple[Any, ...]
    _present: npt.NDArray[np.uint32]

    def values(self, column: int) -> dict[type, pl.Series]:
        """The values at a path, by their type: one series for each type there is, NULL in all other rows."""
        return {
            kind: self._series(column, number)
            for number, kind in enumerate(KINDS)
            if number and self._present[column] >> number & 1
        }

    def _series(self, column: int, kind: int) -> pl.Series:
        exported = _Exported()
        pointers = ctypes.byref(exported.array), ctypes.byref(exported.schema)
        if not self._library.elf_export(ctypes.byref(self._scan), ctypes.c_int64(column), kind, *pointers):
            raise MemoryError("no memory for a column of scanned lines")
        return pl.Series(exported)


class JsonScanner:
    """Scans for these paths, each of which is one column."""

    def __init__(self, library: ctypes.CDLL, paths: Sequence[Path]) -> None:
        self._library = library
        self._columns = len(paths)
        nodes, children, self._keys = _flattened(paths)
        self._nodes = np.array(nodes, np.int32).reshape(-1)
        self._children = np.array(children, np.int32).reshape(-1)

    def scan(self, data: bytes) -> ScannedLines | None:
        """Scans whole lines; None if there are too many for it. O(bytes), without the interpreter's lock."""
        if len(data) > BLOCK_BYTES_MAX:
            return None
        rows = data.count(b"\n") + 1
        kinds = np.empty(self._columns * rows, np.uint8)
        numbers = np.empty(self._columns * rows, np.uint64)
        views = np.empty(self._columns * rows * _VIEW_BYTES, np.uint8)
        arena = np.empty(max(1, len(data)), np.uint8)
        present = np.zeros(max(1, self._columns), np.uint32)
        hard = np.empty(2 * rows, np.int64)
        memory = (self._nodes, self._children, kinds, numbers, views, arena, present, hard)
        nodes, children, *outputs = [int(array.ctypes.data) for array in memory[:6]]
        scan = Scan(nodes, children, self._keys, self._columns, rows, *outputs)
        scan.present, scan.hard = int(present.ctypes.data), int(hard.ctypes.data)
        self._library.elf_scan_json(ctypes.byref(scan), data, len(data))
        spans = hard[: 2 * scan.hard_lines].reshape(-1, 2).tolist()
        lines = tuple(data[start : start + length] for start, length in spans)
        return ScannedLines(scan.rows, lines, self._library, scan, memory, present)


def json_scanner(paths: Sequence[Path]) -> JsonScanner | None:
    """The scanner for some paths, each once; None where there is no library, or it cannot read them."""
    library = load().library
    fits = library is not None and all(paths) and not _has_nested(paths) and _widest(paths) <= CHILDREN_MAX
    return JsonScanner(library, paths) if library is not None and fits else None


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


def _flattened(paths: Sequence[Path]) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]], bytes]:
    """Nodes, children and keys as the scanner takes them."""
    below = _places(paths)
    numbers = {place: number for number, place in enumerate(below)}
    columns = {path: column for column, path in enumerate(paths)}
    nodes: list[tuple[int, int, int]] = []
    children: list[tuple[int, int, int]] = []
    keys = b""
    for place, inside in below.items():
        nodes.append((len(children), len(inside), columns.get(place, -1)))
        for child in inside:
            key = child[-1].encode("utf-8", "surrogatepass")
            children.append((len(keys), len(key), numbers[child]))
            keys += key
    return nodes, children, keys
