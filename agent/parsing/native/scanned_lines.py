"""The columns that a scan has found, and the memory it writes them to."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from agent.parsing.native.library import Scan, count_lines

KINDS: tuple[type, ...] = (type(None), bool, int, float, str)
"""Types of values, in the order of the scanners' kinds."""
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
    """The plain lines of a block as columns; `hard` are the other lines that are not blank."""

    rows: int
    hard: tuple[bytes, ...]
    _library: ctypes.CDLL
    _memory: ScanMemory

    @classmethod
    def of(cls, library: ctypes.CDLL, memory: ScanMemory) -> ScannedLines:
        """Reads what a scan into this memory has found."""
        return cls(memory.scan.rows, memory.hard(), library, memory)

    def values(self, column: int) -> dict[type, pl.Series]:
        """The values of a column, by their type: one series for each type there is, NULL in all other rows."""
        return {
            kind: self._series(column, number)
            for number, kind in enumerate(KINDS)
            if number and self._memory.present[column] >> number & 1
        }

    def _series(self, column: int, kind: int) -> pl.Series:
        exported = _Exported()
        pointers = ctypes.byref(exported.array), ctypes.byref(exported.schema)
        if not self._library.elf_export(ctypes.byref(self._memory.scan), ctypes.c_int64(column), kind, *pointers):
            raise MemoryError("no memory for a column of scanned lines")
        return pl.Series(exported)


class ScanMemory:
    """Memory for the lines of a block: all that a scan of so many columns can write."""

    def __init__(self, data: bytes, columns: int, arena_bytes: int) -> None:
        self.data = data
        rows = count_lines(data) + 1
        cells = columns * rows
        sizes = ((cells, np.uint8), (cells, np.uint64), (cells * _VIEW_BYTES, np.uint8), (arena_bytes, np.uint8))
        self._arrays = [np.empty(max(1, size), kind) for size, kind in sizes]
        self.present = np.zeros(columns, np.uint32)
        self._hard = np.empty(2 * rows, np.int64)
        self.scan = Scan(columns=columns, capacity=rows)
        for name, array in zip(("kinds", "numbers", "views", "arena"), self._arrays, strict=True):
            setattr(self.scan, name, int(array.ctypes.data))
        self.scan.present, self.scan.hard = int(self.present.ctypes.data), int(self._hard.ctypes.data)

    def hard(self) -> tuple[bytes, ...]:
        """The lines that are left to the exact parser."""
        spans = self._hard[: 2 * self.scan.hard_lines].reshape(-1, 2).tolist()
        return tuple(self.data[start : start + length] for start, length in spans)
