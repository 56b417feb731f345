"""Tests of columns that a scan makes while it reads: lines that certainly fail them make no row."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

KINDS: tuple[type, ...] = (type(None), bool, int, float, str)
"""Types of values, in the order of the scanners' kinds."""
TESTS_MAX = 64
"""Upper bound on tests of each line; beyond it clauses are left out, and their conditions tested on built columns."""
Comparison = Literal["=", "<>", "<", "<=", ">", ">=", "begins with"]
_COMPARISONS: tuple[Comparison, ...] = ("=", "<>", "<", "<=", ">", ">=", "begins with")
_INT64 = range(-(1 << 63), 1 << 63)


class ColumnTest(NamedTuple):
    """A comparison of a column with a constant, as `path >= 400`."""

    column: str
    comparison: Comparison
    constant: int | float | str


Clauses = Sequence[Sequence[ColumnTest]]
"""Tests one of which has to hold, for each of several clauses, all of which have to: other events are not needed."""


class _Test(ctypes.Structure):
    _fields_ = (
        ("clause", ctypes.c_int32),
        ("column", ctypes.c_int32),
        ("comparison", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("text", ctypes.c_int32),
        ("length", ctypes.c_int32),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
    )


class ScanTests:
    """The tests as the scanners take them: `places` has the column of each name that they can look at, `time` is that
    of the time, if there is one, and `fitting` the types that leave nothing else to know of a value."""

    def __init__(
        self, clauses: Clauses, places: Mapping[str, int], time: int | None, fitting: Sequence[Collection[type]]
    ) -> None:
        texts = b""
        tests: list[_Test] = []
        for number, clause in enumerate(clauses):
            if len(tests) + len(clause) > TESTS_MAX or not all(_is_known(test, places) for test in clause):
                continue
            for test in clause:
                text = test.constant.encode("utf-8", "surrogatepass") if isinstance(test.constant, str) else b""
                tests.append(_test(number, test, places[test.column], len(texts), len(text)))
                texts += text
        self.count = len(tests)
        self.texts = texts
        self.time = -1 if time is None else time
        self._tests = (_Test * max(1, len(tests)))(*tests)
        masks = [sum(1 << number for number, kind in enumerate(KINDS) if kind in kinds) for kinds in fitting]
        self._fitting = np.array(masks, np.uint32)

    @property
    def tests(self) -> int:
        """The address of the tests."""
        return ctypes.addressof(self._tests)

    @property
    def fitting(self) -> int:
        """The address of the types that fit, a set of bits for each column."""
        return int(self._fitting.ctypes.data)


def _is_known(test: ColumnTest, places: Mapping[str, int]) -> bool:
    """Whether the scanner can make a test: other integers than its own would be wrong, not just unknown."""
    is_integer = isinstance(test.constant, int) and not isinstance(test.constant, bool)
    return test.column in places and (not is_integer or test.constant in _INT64)


def _test(clause: int, test: ColumnTest, column: int, text: int, length: int) -> _Test:
    constant = test.constant
    integer, real = (
        (0, 0.0) if isinstance(constant, str) else (constant, 0.0) if isinstance(constant, int) else (0, constant)
    )
    return _Test(
        clause, column, _COMPARISONS.index(test.comparison), KINDS.index(type(constant)), text, length, integer, real
    )
