"""Checks the messages of an Arrow IPC stream before a reader sees them.

Polars' reader trusts the lengths in a message: a flipped bit can make it allocate petabytes, which aborts the process,
and compressed bodies could grow beyond any bound. Therefore only streams of the form that our own writer makes are let
through: the schema message, byte for byte, then record batches without compression whose columns and buffers lie within
their bodies and suffice for their rows, then the end. The contents of buffers (offsets, UTF-8) are checked by the
reader itself.

A message is: 0xFFFFFFFF, length of the metadata (int32), metadata (a flatbuffer), body. Layouts: Arrow's
`Message.fbs`.
"""

import struct
from typing import NamedTuple

import polars as pl

_CONTINUATION = b"\xff\xff\xff\xff"
END = _CONTINUATION + b"\0\0\0\0"
_RECORD_BATCH = 3
_BATCH_BYTES_MIN = 2**20  # our writer starts a new batch after some 250,000 rows; many small ones would cost time
_WIDTH_BYTES: dict[type[pl.DataType], int] = {
    pl.Int8: 1,
    pl.Int64: 8,
    pl.UInt64: 8,
    pl.Float64: 8,
    pl.Int128: 16,
}


class StreamError(Exception):
    """The bytes are not a stream as our writer makes it."""


class _Message(NamedTuple):
    metadata: bytes
    body_bytes: int
    end: int


def schema_message_end(stream: bytes) -> int:
    """The end of a stream's first message, its schema. Raises StreamError."""
    return _message(stream, 0).end


def check_record_batches(stream: bytes, start: int, schema: pl.Schema) -> None:
    """Raises StreamError unless sound record batches of the schema, and then the end, follow from `start`.

    O(batches · columns).
    """
    if not stream.endswith(END):
        raise StreamError("the Arrow stream has no end")
    end = len(stream) - len(END)
    for _ in range(1 + len(stream) // _BATCH_BYTES_MIN):
        if start >= end:
            break
        batch = _message(stream, start)
        _RecordBatch(batch).check(schema)
        start = batch.end
    if start != end:
        raise StreamError("the Arrow stream has more record batches than its size calls for")


def _message(stream: bytes, position: int) -> _Message:
    if stream[position : position + 4] != _CONTINUATION:
        raise StreamError(f"no Arrow message at byte {position}")
    metadata_bytes = _read("<i", stream, position + 4)
    body_start = position + 8 + metadata_bytes
    if metadata_bytes < 8 or body_start > len(stream):
        raise StreamError(f"an Arrow message at byte {position} claims {metadata_bytes} bytes of metadata")
    metadata = stream[position + 8 : body_start]
    body_bytes = _Table.root(metadata).scalar(3, "<q")
    if not 0 <= body_bytes <= len(stream) - body_start:
        raise StreamError(f"an Arrow message at byte {position} claims a body of {body_bytes} bytes")
    return _Message(metadata, body_bytes, body_start + body_bytes)


class _Table:
    """A flatbuffer's table: fields are found through the offsets in its vtable, 0 for an absent one."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._position = data, position
        self._vtable = position - _read("<i", data, position)
        self._vtable_bytes = _read("<H", data, self._vtable)

    @classmethod
    def root(cls, data: bytes) -> "_Table":
        return cls(data, _read("<I", data, 0))

    def _field(self, index: int) -> int | None:
        entry = 4 + 2 * index
        offset = _read("<H", self._data, self._vtable + entry) if entry < self._vtable_bytes else 0
        return self._position + offset if offset else None

    def scalar(self, index: int, form: str) -> int:
        field = self._field(index)
        return 0 if field is None else _read(form, self._data, field)

    def has(self, index: int) -> bool:
        return self._field(index) is not None

    def table(self, index: int) -> "_Table":
        field = self._field(index)
        if field is None:
            raise StreamError("an Arrow message lacks its header")
        return _Table(self._data, field + _read("<I", self._data, field))

    def pairs(self, index: int) -> list[tuple[int, int]]:
        """A vector of structs of two int64."""
        field = self._field(index)
        if field is None:
            return []
        start = field + _read("<I", self._data, field)
        count = _read("<I", self._data, start)
        if start + 4 + 16 * count > len(self._data):
            raise StreamError("an Arrow message claims more columns than it has")
        return list(struct.iter_unpack("<qq", self._data[start + 4 : start + 4 + 16 * count]))


class _RecordBatch:
    def __init__(self, message: _Message) -> None:
        root = _Table.root(message.metadata)
        if root.scalar(1, "<B") != _RECORD_BATCH:
            raise StreamError("an Arrow message is no record batch")
        header = root.table(2)
        if header.has(3) or header.has(4):
            raise StreamError("an Arrow record batch is compressed or has views")
        self._rows = header.scalar(0, "<q")
        self._nodes, self._buffers = header.pairs(1), header.pairs(2)
        self._body_bytes = message.body_bytes

    def check(self, schema: pl.Schema) -> None:
        if len(self._nodes) != len(schema):
            raise StreamError(f"an Arrow record batch has {len(self._nodes)} columns of {len(schema)}")
        for offset, length in self._buffers:
            if offset < 0 or length < 0 or offset + length > self._body_bytes:
                raise StreamError("a buffer lies outside its Arrow record batch")
        lengths = iter([length for _, length in self._buffers])
        for (rows, nulls), (name, dtype) in zip(self._nodes, schema.items(), strict=True):
            validity, values = next(lengths, -1), next(lengths, -1)
            text = next(lengths, -1) if dtype == pl.String else 0
            masked = nulls == 0 or validity >= (rows + 7) // 8
            complete = masked and values >= _values_bytes(dtype, rows) and text >= 0
            if not (rows == self._rows and 0 <= nulls <= rows and complete):
                raise StreamError(f"column {name!r} of an Arrow record batch has no {self._rows} rows")
        if next(lengths, None) is not None:
            raise StreamError("an Arrow record batch has more buffers than its columns need")


def _values_bytes(dtype: pl.DataType, rows: int) -> int:
    """The least size of a column's second buffer: values, or a string column's offsets."""
    if dtype == pl.String:
        return 8 * (rows + 1) if rows else 0
    if dtype == pl.Boolean:
        return (rows + 7) // 8
    return _WIDTH_BYTES[type(dtype)] * rows


def _read(form: str, data: bytes, position: int) -> int:
    if not 0 <= position <= len(data) - struct.calcsize(form):
        raise StreamError("an Arrow message points outside itself")
    value: int = struct.unpack_from(form, data, position)[0]
    return value
