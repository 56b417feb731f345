"""The keys of a leaf as compressed bytes, in the order in which they came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import zstandard

_LEVEL = 1
_CHUNK_ROWS, _CHUNK_BYTES = 1024, 2**16

Array = npt.NDArray[np.generic]
Shape = tuple[tuple[str, bool, int], ...]
"""For each column: the type of its values, whether there are NULLs, and the bytes of text."""


@dataclass(frozen=True, slots=True)
class EncodedKeys:
    """Rows of key columns as arrays: for each column its validity (None: no NULL), its values, and for strings
    the lengths and all bytes."""

    columns: tuple[_Column, ...]
    rows: int

    @classmethod
    def of(cls, keys: pl.DataFrame) -> EncodedKeys:
        """Encodes key columns. O(bytes)."""
        return cls(tuple(_encode(column) for column in keys.get_columns()), keys.height)

    def part(self, start: int, end: int) -> EncodedKeys:
        return EncodedKeys(tuple(column.part(start, end) for column in self.columns), end - start)

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns)


@dataclass(frozen=True, slots=True)
class _Column:
    valid: npt.NDArray[np.bool_] | None
    values: Array  # a string's value is its length
    ends: npt.NDArray[np.int64] | None  # the end of each string in `text`
    text: bytes

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + len(self.text) + (0 if self.valid is None else self.valid.nbytes)

    def part(self, start: int, end: int) -> _Column:
        valid = None if self.valid is None else self.valid[start:end]
        values = self.values[start:end]
        if self.ends is None:
            return _Column(valid, values, None, b"")
        first = int(self.ends[start - 1]) if start else 0
        last = int(self.ends[end - 1]) if end else 0
        return _Column(valid, values, self.ends[start:end] - first, self.text[first:last])


class KeyStore:
    """Appends keys, and yields all of them. The last keys wait uncompressed for a chunk to fill."""

    def __init__(self, schema: pl.Schema) -> None:
        self._schema = schema
        self._chunks: list[tuple[bytes, Shape, int]] = []
        self._tail: list[EncodedKeys] = []
        self._tail_rows = self._tail_bytes = 0
        self.raw_bytes = 0
        """Bytes of the keys, uncompressed."""

    @property
    def nbytes(self) -> int:
        return sum(len(data) for data, _, _ in self._chunks) + self._tail_bytes

    def append(self, keys: EncodedKeys) -> None:
        """Appends keys. O(bytes)."""
        if not self._schema:
            return
        self._tail.append(keys)
        self._tail_rows += keys.rows
        self._tail_bytes += keys.nbytes
        self.raw_bytes += keys.nbytes
        if self._tail_rows >= _CHUNK_ROWS or self._tail_bytes >= _CHUNK_BYTES:
            self._compress_tail()

    def frame(self, rows: int) -> pl.DataFrame:
        """All `rows` keys. O(bytes)."""
        if not self._schema:
            return pl.DataFrame(height=rows)
        keys = _joined([*(_decode(*chunk) for chunk in self._chunks), *self._tail])
        assert keys is not None
        pairs = zip(self._schema.items(), keys.columns, strict=True)
        return pl.DataFrame([_series(name, dtype, column) for (name, dtype), column in pairs])

    def _compress_tail(self) -> None:
        keys = _joined(self._tail)
        assert keys is not None
        parts: list[bytes] = []
        shape: list[tuple[str, bool, int]] = []
        for column in keys.columns:
            values = _narrowed(column.values)
            shape.append((values.dtype.str, column.valid is not None, len(column.text)))
            if column.valid is not None:
                parts.append(np.packbits(column.valid).tobytes())
            parts += [values.tobytes(), column.text]
        data = zstandard.ZstdCompressor(level=_LEVEL).compress(b"".join(parts))
        self._chunks.append((data, tuple(shape), keys.rows))
        self._tail, self._tail_rows, self._tail_bytes = [], 0, 0


def _decode(data: bytes, shape: Shape, rows: int) -> EncodedKeys:
    raw = zstandard.ZstdDecompressor().decompress(data)
    columns, at = [], 0
    for dtype, has_nulls, text_bytes in shape:
        valid = None
        if has_nulls:
            size = -(-rows // 8)
            valid = np.unpackbits(np.frombuffer(raw, np.uint8, size, at), count=rows).astype(bool)
            at += size
        values = np.frombuffer(raw, np.dtype(dtype), rows, at)
        at += values.nbytes
        text = raw[at : at + text_bytes]
        at += text_bytes
        columns.append(_Column(valid, values, None, text))
    return EncodedKeys(tuple(columns), rows)


def _encode(column: pl.Series) -> _Column:
    valid = column.is_not_null().to_numpy() if column.null_count() else None
    if column.dtype == pl.String:
        lengths = column.str.len_bytes().fill_null(0).to_numpy().astype(np.int64)
        text = (column.str.join("").item() or "").encode()
        return _Column(valid, lengths, np.cumsum(lengths), text)
    if column.dtype == pl.Boolean:
        column = column.cast(pl.Int8)
    return _Column(valid, column.fill_null(0).to_numpy(), None, b"")


def _series(name: str, dtype: pl.DataType, column: _Column) -> pl.Series:
    if dtype == pl.String:
        lengths = column.values.astype(np.int64)
        starts = pl.lit(pl.Series(np.cumsum(lengths) - lengths))
        pieces = pl.lit(column.text).bin.slice(starts, pl.lit(pl.Series(lengths.astype(np.uint64))))
        series = pl.select(pieces.cast(pl.String).alias(name)).to_series()
    else:
        series = pl.Series(name, column.values).cast(dtype)
    return series if column.valid is None else series.set(pl.Series(~column.valid), None)


def _joined(parts: list[EncodedKeys]) -> EncodedKeys | None:
    if len(parts) <= 1:
        return parts[0] if parts else None
    columns = []
    for same in zip(*(part.columns for part in parts), strict=True):
        valid = None
        if any(column.valid is not None for column in same):
            valid = np.concatenate([np.ones(len(c.values), bool) if c.valid is None else c.valid for c in same])
        values = np.concatenate([column.values for column in same])
        columns.append(_Column(valid, values, None, b"".join(column.text for column in same)))
    return EncodedKeys(tuple(columns), sum(part.rows for part in parts))


def _narrowed(values: Array) -> Array:
    """Integers in the narrowest type that holds them all; other values unchanged."""
    if values.dtype.kind != "i":
        return values
    least, most = int(values.min()), int(values.max())
    for width in (np.int8, np.int16, np.int32):
        if np.iinfo(width).min <= least and most <= np.iinfo(width).max:
            return values.astype(width)
    return values
