"""Frequent items as bytes of Apache DataSketches: `ItemsSketch` of longs for `integer`, of strings for other types.

Values of types other than `integer` and `string` are written as canonical JSON text.

The state that Spark's `approx_top_k_accumulate` makes, and that its `approx_top_k_combine` and `approx_top_k_estimate`
take, is a struct: `sketch`, these bytes followed by the number of NULLs as a long; `maxItemsTracked`; `itemDataType`,
a NULL of the items' type; `itemDataTypeDDL`, such as `item BIGINT NOT NULL`. Those bytes can be read here, too.
"""

import json
import math
import struct

import numpy as np
import polars as pl

from cbt.algebra.kinds import any_kind, kind_texts
from cbt.sketches.frequent import FrequentItems
from cbt.sketches.wire import SketchError, SketchReader, check, rows_of

_FULL, _SHORT = 4, 1  # preambles, in longs
_SERIAL_VERSION, _FAMILY = 1, 10
_EMPTY = 1 | 4
_LG_SIZE_MIN = 3
_NULL_COUNT_BYTES = 8

Longs = np.ndarray[tuple[int], np.dtype[np.int64]]


def to_bytes(sketch: FrequentItems, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """The sketch of each group: its columns, and a Binary column named as the aggregate. O(characters)."""
    item, count, offset, weight = (f"{sketch.name}.{part}" for part in ("item", "count", "offset", "all"))
    is_item = any_kind(sketch.items) & (pl.col(sketch.n) > 0)
    texts = _item_column(sketch, rows).alias(item)
    sketches = (
        rows.with_columns(texts)
        .sort(-pl.col(sketch.n), item)
        .group_by(group)
        .agg(
            pl.col(item).filter(is_item),
            pl.col(sketch.n).filter(is_item).alias(count),
            pl.col(sketch.n).filter(~any_kind(sketch.items)).sum().alias(offset),
            pl.col(sketch.weight).sum().alias(weight),
        )
    )
    columns = (sketches[name] for name in (item, count, offset, weight))
    serialised = [_serialise(sketch.lg_size, *parts) for parts in zip(*columns, strict=True)]
    return sketches.select(group).with_columns(pl.Series(sketch.name, serialised, dtype=pl.Binary))


def from_bytes(sketch: FrequentItems, frame: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """The rows of sketches in the Binary column named as the aggregate; NULL is an empty one. O(bytes).

    The library purges more at a time: a sketch of its own may have an offset of 3.5 / 2**lg_size of its values. Raises
    SketchError for bytes that are no such sketch, or one of fewer items (Spark merges in larger ones than it is told).
    """
    rows = rows_of(sketch, frame.select(group), [_parse(data, sketch) for data in frame[sketch.name]])
    return sketch.compact(rows, group)


def _item_column(sketch: FrequentItems, rows: pl.DataFrame) -> pl.Series:
    kinds = rows.select(*sketch.items).get_columns()
    return kinds[0] if sketch.type in ("integer", "string") else kind_texts(kinds)


def _serialise(lg_size: int, items: pl.Series, counts: pl.Series, offset: int, weight: int) -> bytes:
    if weight == 0:
        return struct.pack("<8B", _SHORT, _SERIAL_VERSION, _FAMILY, lg_size, _LG_SIZE_MIN, _EMPTY, 0, 0)
    lg_now = max(_LG_SIZE_MIN, math.ceil(math.log2(max(len(items), 1) / 0.75)))
    head = struct.pack("<8B2i", _FULL, _SERIAL_VERSION, _FAMILY, lg_size, lg_now, 0, 0, 0, len(items), 0)
    head += struct.pack("<2q", weight, offset) + counts.to_numpy().astype("<i8").tobytes()
    if items.dtype == pl.Int64:
        return head + items.to_numpy().astype("<i8").tobytes()
    texts = [text.encode() for text in items]
    return head + b"".join(part for text in texts for part in (struct.pack("<I", len(text)), text))


def _parse(data: bytes | None, sketch: FrequentItems) -> pl.DataFrame:
    """Item and state columns; the last row is that of the offset."""
    if data is None:
        return _rows(sketch, pl.DataFrame(schema=sketch.items), np.zeros(0, dtype=np.int64), 0, 0)
    reader = SketchReader(data)
    longs, version, family, lg_size, _, flags, _, _ = reader.fields("8B")
    check(family == _FAMILY and version == _SERIAL_VERSION, f"version {version}, family {family}: no frequent items")
    check(lg_size >= sketch.lg_size, f"frequent items of size 2**{lg_size}, where 2**{sketch.lg_size} is expected")
    if longs == _SHORT and flags & _EMPTY:
        return _parse(None, sketch)
    check(longs == _FULL and not flags & _EMPTY, f"frequent items with a preamble of {longs} longs")
    active, _, weight, offset = reader.fields("2i2q")
    check(active >= 0, f"{active} frequent items")
    counts = np.frombuffer(reader.take(8 * active), dtype="<i8").astype(np.int64)
    check(bool((counts > 0).all()), "frequent items with a count below 1")
    counted = sum(map(int, counts))
    check(offset >= 0 and counted + offset <= weight, f"frequent items of {weight} values that count {counted}")
    items = _read_items(reader, active, sketch)
    check(len(reader.rest()) in (0, _NULL_COUNT_BYTES), "frequent items with something behind them")
    return _rows(sketch, items, counts, offset, weight - counted)


def _rows(sketch: FrequentItems, items: pl.DataFrame, counts: Longs, offset: int, others: int) -> pl.DataFrame:
    kept = items.with_columns(pl.Series(sketch.n, counts), pl.Series(sketch.weight, counts))
    lost = pl.DataFrame({sketch.n: [offset], sketch.weight: [others]}, schema=sketch.state)
    return pl.concat([kept, lost], how="diagonal")


def _read_items(reader: SketchReader, count: int, sketch: FrequentItems) -> pl.DataFrame:
    """The items, in the columns of their kinds."""
    if sketch.type == "integer":
        items = np.frombuffer(reader.take(8 * count), dtype="<i8").astype(np.int64)
        return pl.DataFrame(dict.fromkeys(sketch.items, items), schema=sketch.items)
    texts = [_read_text(reader) for _ in range(count)]
    values = texts if sketch.type == "string" else [_scalar(text) for text in texts]
    columns = {name: [_if_of(dtype, value) for value in values] for name, dtype in sketch.items.items()}
    frame = pl.DataFrame(columns, schema=sketch.items)
    check(frame.select(any_kind(sketch.items).all()).item(), f"frequent items that are no {sketch.type}")
    return frame


def _read_text(reader: SketchReader) -> str:
    (length,) = reader.fields("I")
    try:
        return reader.take(length).decode()
    except UnicodeDecodeError as error:
        raise SketchError(f"a frequent item is no UTF-8: {error.reason}") from error


def _scalar(text: str) -> object:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SketchError(f"a frequent item is no JSON: {text[:40]!r}") from error
    canonical = not isinstance(value, float) or not value.is_integer() or not -(2.0**63) <= value < 2.0**63
    check(canonical, f"a frequent item is no canonical JSON: {text[:40]!r}")
    return value


def _if_of(dtype: pl.DataType, value: object) -> object:
    if type(value) is not dtype.to_python():
        return None
    return value if not isinstance(value, int) or -(2**63) <= value < 2**63 else None
