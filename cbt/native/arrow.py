"""Columns of a frame as the arrays of Arrow's C data interface, in place."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from cbt.native.library import STORED_BOOLEAN, STORED_INTEGER, STORED_TEXT, Array, KernelBlock

FORMATS: dict[pl.DataType, int] = {
    pl.Null(): ord("n"),
    pl.Boolean(): ord("b"),
    pl.Int64(): ord("l"),
    pl.Float64(): ord("g"),
    pl.String(): ord("v"),
}
"""The kernel's names of physical types."""

STORED = {pl.String(): STORED_TEXT, pl.Int64(): STORED_INTEGER, pl.Boolean(): STORED_BOOLEAN}
"""The kernel's names of the ways in which keys of a physical type are stored, as they are."""
_SCRATCH_BYTES = 2**16

_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


class _Stream(ctypes.Structure):
    _fields_ = (
        ("get_schema", ctypes.c_void_p),
        ("get_next", _NEXT),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


class _Schema(ctypes.Structure):
    _fields_ = (("head", ctypes.c_void_p * 3), ("counts", ctypes.c_int64 * 2), ("tail", ctypes.c_void_p * 4))


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Exported:
    """An array that whoever imports it owns from then on (Arrow's PyCapsule interface)."""

    def __init__(self) -> None:
        self.array, self.schema = Array(), _Schema()

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return (
            _capsule(ctypes.addressof(self.schema), b"arrow_schema", None),
            _capsule(ctypes.addressof(self.array), b"arrow_array", None),
        )


class Arrays(NamedTuple):
    """The arrays of some columns, all of `rows` rows, by name."""

    rows: int
    columns: dict[str, ctypes._Pointer[Array]]


@contextmanager
def arrays_of(frame: pl.DataFrame) -> Iterator[Arrays]:
    """The columns of a frame, which are in one piece each, until the block ends. O(columns)."""
    capsule = frame.rechunk().__arrow_c_stream__(None)
    stream = _pointer(capsule, b"arrow_array_stream")
    whole = Array()
    failed = _Stream.from_address(stream).get_next(stream, ctypes.addressof(whole))
    if failed or not whole.release or whole.n_children != frame.width:
        raise MemoryError("no arrays of a frame")
    try:
        yield Arrays(whole.length, {name: whole.children[at] for at, name in enumerate(frame.columns)})
    finally:
        _RELEASE(whole.release)(ctypes.addressof(whole))


def read_all(block: KernelBlock, read: Callable[[], int]) -> None:
    """Reads the keys of all rows of a block. `read` does, and returns the first row that had no room."""
    scratch = np.empty(_SCRATCH_BYTES, np.uint8)
    while block.row < block.rows:
        block.scratch, block.scratch_bytes = scratch.ctypes.data, len(scratch)
        if read() < block.rows:
            scratch = np.empty(2 * len(scratch), np.uint8)  # a key is larger
