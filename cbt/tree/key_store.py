"""The keys of a leaf as compressed bytes, in the order in which they came."""

from __future__ import annotations

from ctypes import CDLL, byref
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import zstandard

from cbt.algebra.kernel_index import KernelIndex, TextColumn
from cbt.algebra.key_index import Rows
from cbt.native.arrow import Exported
from cbt.native.library import Texts, load

_LEVEL = 1
CHUNK_ROWS, CHUNK_BYTES = 1024, 2**16
"""Keys that are compressed together, at least, or their bytes."""

Array = npt.NDArray[np.generic]
Shape = tuple[tuple[str, bool, int], ...]
"""For each column: the type of its values, whether there are NULLs, and the bytes of text."""


@dataclass(frozen=True, slots=True)
class EncodedKeys:
    """Rows of key columns as arrays: for each column its validity (None: no NULL), its values, and for strings
    the lengths and all bytes."""

    columns: tuple[EncodedColumn, ...]
    rows: int
    schema: pl.Schema

    @classmethod
    def of(cls, keys: pl.DataFrame) -> EncodedKeys:
        """Encodes key columns. O(bytes)."""
        return cls(tuple(_encode(column) for column in keys.get_columns()), keys.height, keys.schema)

    def part(self, start: int, end: int) -> EncodedKeys:
        return EncodedKeys(tuple(column.part(start, end) for column in self.columns), end - start, self.schema)

    def encoded(self, rows: Rows) -> EncodedKeys:
        """The keys of some rows. O(bytes)."""
        return EncodedKeys(tuple(column.of(rows) for column in self.columns), len(rows), self.schema)

    def frame(self, rows: Rows | None = None) -> pl.DataFrame:
        """The keys of some rows, or all, as columns. O(bytes)."""
        count = self.rows if rows is None else len(rows)
        if not self.columns:
            return pl.DataFrame(height=count)
        pairs = zip(self.schema.items(), self.columns, strict=True)
        return pl.DataFrame([_series(name, dtype, column, rows, count) for (name, dtype), column in pairs])

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns)


@dataclass(frozen=True, slots=True)
class FrameKeys:
    """Rows of key columns, as they came."""

    keys: pl.DataFrame

    def encoded(self, rows: Rows) -> EncodedKeys:
        """The keys of some rows. O(bytes)."""
        return EncodedKeys.of(self.frame(rows))

    def frame(self, rows: Rows) -> pl.DataFrame:
        """The keys of some rows as columns. O(rows)."""
        return self.keys[rows.astype(np.uint32)]


Keys = FrameKeys | EncodedKeys


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """A column of keys."""

    valid: npt.NDArray[np.bool_] | None
    values: Array  # a string's value is its length
    ends: npt.NDArray[np.int64] | None  # the end of each string in `text`
    text: bytes

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + len(self.text) + (0 if self.valid is None else self.valid.nbytes)

    @property
    def all_ends(self) -> npt.NDArray[np.int64]:
        """The end of each string in `text`. O(1), or O(n) where they are not at hand."""
        return np.cumsum(self.values, dtype=np.int64) if self.ends is None else self.ends

    def part(self, start: int, end: int) -> EncodedColumn:
        valid = None if self.valid is None else self.valid[start:end]
        values = self.values[start:end]
        if self.ends is None:
            return EncodedColumn(valid, values, None, b"")
        first = int(self.ends[start - 1]) if start else 0
        last = int(self.ends[end - 1]) if end else 0
        return EncodedColumn(valid, values, self.ends[start:end] - first, self.text[first:last])

    def of(self, rows: Rows) -> EncodedColumn:
        """The values of some rows."""
        valid, values = None if self.valid is None else self.valid[rows], self.values[rows]
        if not self.text:
            return EncodedColumn(valid, values, None if self.ends is None else np.cumsum(values), b"")
        all_ends, ends = self.all_ends, np.cumsum(values, dtype=np.int64)
        text = np.empty(int(ends[-1]) if len(rows) else 0, np.uint8)
        library = load().library
        assert library is not None, "only the kernel makes keys that are encoded and not appended at once"
        whole = np.frombuffer(self.text, np.uint8)
        texts = Texts(whole.ctypes.data, all_ends.ctypes.data)
        library.elf_gather(byref(texts), rows.ctypes.data, len(rows), text.ctypes.data)
        return EncodedColumn(valid, values, ends, text.tobytes())


class KeyCoder:
    """Compresses keys, for one thread at a time: its memory is used again and again."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)

    def compress(self, data: bytes) -> bytes:
        return self._compressor.compress(data)


def texts_of(keys: Keys) -> TextColumn | None:
    """Keys of one column of texts, as the kernel takes them."""
    if not isinstance(keys, EncodedKeys) or [*keys.schema.values()] != [pl.String()]:
        return None
    (column,) = keys.columns
    return TextColumn(column.text, column.all_ends, column.valid)


class KeyStore:
    """Appends keys, and yields all of them. The last keys wait uncompressed for a chunk to fill: in the kernel's
    `index` if they are texts."""

    def __init__(self, schema: pl.Schema, coder: KeyCoder, index: KernelIndex | None) -> None:
        self._schema, self._coder = schema, coder
        self._index = index if [*schema.values()] == [pl.String()] else None
        self._chunks: list[tuple[bytes, Shape, int]] = []
        self._tail: list[EncodedKeys] = []
        self._tail_rows = self._tail_bytes = self._raw_bytes = 0

    @property
    def nbytes(self) -> int:
        waiting = self._tail_bytes if self._index is None else self._index.texts_nbytes
        return sum(len(data) for data, _, _ in self._chunks) + waiting

    @property
    def raw_bytes(self) -> int:
        """Bytes of the keys, uncompressed."""
        return self._raw_bytes if self._index is None else self._raw_bytes + self._index.texts_nbytes

    def append(self, keys: EncodedKeys, *, compress: bool = True) -> None:
        """Appends keys. They may stay as they are where they are read again at once. O(bytes)."""
        if not self._schema:
            return
        if self._index is not None:
            texts = texts_of(keys)
            assert texts is not None
            self._index.append_texts(texts)
            if compress:
                self.settle(self._index.texts_count, self._index.texts_nbytes)
            return
        self._tail.append(keys)
        self._tail_rows += keys.rows
        self._tail_bytes += keys.nbytes
        self._raw_bytes += keys.nbytes
        if compress:
            self.settle(self._tail_rows, self._tail_bytes)

    def settle(self, rows: int, nbytes: int) -> None:
        """Compresses the keys that wait, which are so many, if they fill a chunk. O(bytes)."""
        if rows >= CHUNK_ROWS or nbytes >= CHUNK_BYTES:
            self._compress_tail()

    def all(self, rows: int) -> Keys:
        """All `rows` keys. O(bytes)."""
        if not self._schema:
            return EncodedKeys((), rows, self._schema)
        decompressor = zstandard.ZstdDecompressor()
        chunks = [
            _decode(decompressor.decompress(data), shape, count, self._schema) for data, shape, count in self._chunks
        ]
        keys = _joined([*chunks, *self._waiting()])
        assert keys is not None
        return keys if load().library is not None else FrameKeys(keys.frame())

    def _waiting(self) -> list[EncodedKeys]:
        """The keys that are not compressed."""
        if self._index is None:
            return self._tail
        valid, lengths, text = self._index.texts()
        return [EncodedKeys((EncodedColumn(valid, lengths, None, text),), len(lengths), self._schema)]

    def _compress_tail(self) -> None:
        keys = _joined(self._waiting())
        assert keys is not None
        if self._index is not None:
            self._raw_bytes += self._index.texts_nbytes
            self._index.clear_texts()
        parts: list[bytes] = []
        shape: list[tuple[str, bool, int]] = []
        for column in keys.columns:
            values = _narrowed(column.values)
            shape.append((values.dtype.str, column.valid is not None, len(column.text)))
            if column.valid is not None:
                parts.append(np.packbits(column.valid).tobytes())
            parts += [values.tobytes(), column.text]
        data = self._coder.compress(b"".join(parts))
        self._chunks.append((data, tuple(shape), keys.rows))
        self._tail, self._tail_rows, self._tail_bytes = [], 0, 0


def _decode(raw: bytes, shape: Shape, rows: int, schema: pl.Schema) -> EncodedKeys:
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
        columns.append(EncodedColumn(valid, values, None, text))
    return EncodedKeys(tuple(columns), rows, schema)


def _encode(column: pl.Series) -> EncodedColumn:
    valid = column.is_not_null().to_numpy() if column.null_count() else None
    if column.dtype == pl.String:
        lengths = column.str.len_bytes().fill_null(0).to_numpy().astype(np.int64)
        text = (column.str.join("").item() or "").encode()
        return EncodedColumn(valid, lengths, np.cumsum(lengths), text)
    if column.dtype == pl.Boolean:
        column = column.cast(pl.Int8)
    return EncodedColumn(valid, column.fill_null(0).to_numpy(), None, b"")


def _native_texts(library: CDLL, column: EncodedColumn, rows: Rows | None, count: int) -> pl.Series | None:
    """The texts of some rows, or all; None where the kernel cannot make them."""
    ends = column.all_ends
    valid = None if column.valid is None else column.valid.view(np.uint8)
    exported, text = Exported(), np.frombuffer(column.text, np.uint8)
    made = library.elf_texts(
        text.ctypes.data, ends.ctypes.data, None if valid is None else valid.ctypes.data,
        None if rows is None else rows.ctypes.data, count, byref(exported.array), byref(exported.schema),
    )  # fmt: skip
    return pl.Series(exported) if made else None


def _series(name: str, dtype: pl.DataType, column: EncodedColumn, rows: Rows | None, count: int) -> pl.Series:
    library = load().library
    if dtype == pl.String and library is not None:
        texts = _native_texts(library, column, rows, count)
        if texts is not None:
            return texts.alias(name)
    if rows is not None:
        column = column.of(rows)
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
        columns.append(EncodedColumn(valid, values, None, b"".join(column.text for column in same)))
    return EncodedKeys(tuple(columns), sum(part.rows for part in parts), parts[0].schema)


def _narrowed(values: Array) -> Array:
    """Integers in the narrowest type that holds them all; other values unchanged."""
    if values.dtype.kind != "i":
        return values
    least, most = int(values.min()), int(values.max())
    for width in (np.int8, np.int16, np.int32):
        if np.iinfo(width).min <= least and most <= np.iinfo(width).max:
            return values.astype(width)
    return values
