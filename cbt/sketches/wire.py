"""Reads and writes what the formats of Apache DataSketches have in common: little-endian, one value for each sketch,
from untrusted senders."""

import struct
from typing import Any

import numpy as np
import polars as pl

from cbt.algebra.items import ItemPao


class SketchError(Exception):
    """Bytes that should be a sketch cannot be read; the message says why."""


class SketchReader:
    """Reads a sketch's bytes from the start; past their end it raises SketchError."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def fields(self, form: str) -> tuple[Any, ...]:
        """The next fields, as `struct` names them, without gaps."""
        size = struct.calcsize("<" + form)
        return struct.unpack("<" + form, self.take(size))

    def take(self, size: int) -> bytes:
        """The next `size` bytes, at least 0."""
        if size > len(self._data) - self._at:
            raise SketchError(
                f"a sketch of {len(self._data)} bytes ends early: it should go on for {size} at {self._at}"
            )
        self._at += size
        return self._data[self._at - size : self._at]

    def skip_to(self, at: int) -> None:
        """Goes on at byte `at`."""
        self._at = 0
        self.take(at)

    def rest(self) -> bytes:
        """All bytes that are left."""
        return self.take(len(self._data) - self._at)


def check(holds: bool, complaint: str) -> None:
    """Raises SketchError with the complaint unless the condition holds."""
    if not holds:
        raise SketchError(complaint)


def rows_of(pao: ItemPao, groups: pl.DataFrame, parts: list[pl.DataFrame]) -> pl.DataFrame:
    """The rows of sketches, one group each, as merged item rows. `parts`: the item and state columns of each, at least
    one row. A group may have several sketches. O(n).
    """
    owners = np.repeat(np.arange(len(parts)), [part.height for part in parts])
    none = pl.DataFrame(schema={**pao.items, **pao.state})
    rows = pl.concat([groups[owners], pl.concat([none, *parts])], how="horizontal")
    return rows.group_by(*groups.columns, *pao.items).agg(pao.combine())
