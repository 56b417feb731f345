"""The columns that a scan has found, and the memory it writes them to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.parsing.native.library import Scan, count_lines
from agent.parsing.native.scan_tests import KINDS, ScanTests
from cbt.native.arrow import Exported

BLOCK_BYTES_MAX = 1 << 30
"""Upper bound on a block, whose places are 32-bit numbers; a larger one is parsed exactly."""
_VIEW_BYTES = 16
_SAMPLE_BYTES = 32 << 10
_ROWS_SPARE = 64


@dataclass(frozen=True, slots=True)
class ScannedLines:
    """The plain lines of a block as columns; `hard` are the other lines that are not blank, at `hard_starts`.

    Lines that fail the tests are in no column: `rows_over` is their number. `malformed` is that of lines that are
    certainly none.
    """

    rows: int
    hard: tuple[bytes, ...]
    hard_starts: npt.NDArray[np.int64]
    rows_over: int
    malformed: int
    _library: ctypes.CDLL
    _memory: ScanMemory

    @classmethod
    def of(
        cls,
        library: ctypes.CDLL,
        data: bytes,
        columns: int,
        arena_bytes: int,
        tests: ScanTests,
        run: Callable[[Scan], None],
    ) -> ScannedLines | None:
        """Reads what a scan of a block finds; `run` makes the scan in the memory it is given. None if the block is too
        large for it."""
        if len(data) > BLOCK_BYTES_MAX:
            return None
        memory = ScanMemory(data, columns, arena_bytes, tests, _probable_lines(data))
        run(memory.scan)
        if memory.scan.consumed < len(data):  # more lines than its beginning has made expect
            memory = ScanMemory(data, columns, arena_bytes, tests, count_lines(data) + 1)
            run(memory.scan)
        scan, starts = memory.scan, memory.hard_spans()[:, 0]
        return cls(scan.rows, memory.hard(), starts, scan.rows_over, scan.malformed, library, memory)

    def times_over(self) -> pl.Series | None:
        """The times (epoch ms) of the lines that fail the tests; None where they have none of their own."""
        return self._memory.times_over()

    def kinds_over(self, column: int) -> list[type]:
        """The types of a column's values in the lines that fail the tests."""
        return [kind for number, kind in enumerate(KINDS) if self._memory.present_over[column] >> number & 1]

    def values(self, column: int) -> dict[type, pl.Series]:
        """The values of a column, by their type: one series for each type there is, NULL in all other rows."""
        return {
            kind: self._series(column, number)
            for number, kind in enumerate(KINDS)
            if number and self._memory.present[column] >> number & 1
        }

    def _series(self, column: int, kind: int) -> pl.Series:
        exported = Exported()
        pointers = ctypes.byref(exported.array), ctypes.byref(exported.schema)
        if not self._library.elf_export(ctypes.byref(self._memory.scan), column, kind, *pointers):
            raise MemoryError("no memory for a column of scanned lines")
        return pl.Series(exported)


class ScanMemory:
    """Memory for the lines of a block: all that a scan of so many columns and lines can write."""

    def __init__(self, data: bytes, columns: int, arena_bytes: int, tests: ScanTests, rows: int) -> None:
        self.data = data
        cells = columns * rows
        sizes = ((cells, np.uint8), (cells, np.uint64), (cells * _VIEW_BYTES, np.uint8), (arena_bytes, np.uint8))
        self._arrays = [np.empty(max(1, size), kind) for size, kind in sizes]
        self.present, self.present_over = np.zeros(columns, np.uint32), np.zeros(columns, np.uint32)
        self._hard = np.empty(2 * rows, np.int64)
        self._over = np.empty(rows if tests.count else 0, np.int64)
        self._tests = tests
        self.scan = Scan(columns=columns, capacity=rows)
        for name, array in zip(("kinds", "numbers", "views", "arena"), self._arrays, strict=True):
            setattr(self.scan, name, int(array.ctypes.data))
        self.scan.present, self.scan.hard = int(self.present.ctypes.data), int(self._hard.ctypes.data)
        self.scan.tests, self.scan.tests_count, self.scan.texts = tests.tests, tests.count, tests.texts
        self.scan.time, self.scan.fitting = tests.time, tests.fitting
        self.scan.passed_over = int(self._over.ctypes.data)
        self.scan.present_over = int(self.present_over.ctypes.data)

    def times_over(self) -> pl.Series | None:
        """The times of the lines that fail the tests."""
        return pl.Series(self._over[: self.scan.rows_over].copy()) if self.scan.time >= 0 else None

    def hard(self) -> tuple[bytes, ...]:
        """The lines that are left to the exact parser."""
        return tuple(self.data[start : start + length] for start, length in self.hard_spans().tolist())

    def hard_spans(self) -> npt.NDArray[np.int64]:
        """The offset and the length of each of them."""
        return self._hard[: 2 * self.scan.hard_lines].reshape(-1, 2)


def _probable_lines(data: bytes) -> int:
    """The number of lines that a block probably has at most, as its beginning tells."""
    sample = data[:_SAMPLE_BYTES]
    return (len(data) * (count_lines(sample) + 1) // max(1, len(sample))) * 5 // 4 + _ROWS_SPARE
