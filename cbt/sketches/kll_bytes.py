"""KLL sketches as bytes of Apache DataSketches, of doubles or of longs, which Spark's `kll_*_double` and
`kll_*_bigint` functions read and write. The bytes do not say of which.
"""

import struct

import numpy as np
import polars as pl

from cbt.sketches.halving import CAPACITY_MIN, LEVELS_MAX, sketch_capacity
from cbt.sketches.kll import GREATEST_LEVEL, LEAST_LEVEL, KllSketch
from cbt.sketches.wire import SketchReader, check, rows_of

_FAMILY = 15
_FULL, _SMALL = 5, 2  # preambles, in integers
_VERSION, _SINGLE_VERSION = 1, 2
_FORMS = {(_FULL, _VERSION), (_SMALL, _VERSION), (_SMALL, _SINGLE_VERSION)}
_EMPTY, _SORTED, _SINGLE = 1, 2, 4
_ITEM_BYTES = 8
_WEIGHT_LIMIT = 2**56  # so that merged counts fit into 64 bits

Items = np.ndarray[tuple[int], np.dtype[np.int64 | np.float64]]
Levels = np.ndarray[tuple[int], np.dtype[np.int64]]
_NONE = np.zeros(0, dtype=np.int64)


def to_bytes(sketch: KllSketch, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """The sketch of each group: its columns, and a Binary column named as the aggregate. O(n log n).

    Where values have counts, they first go up to the levels where one each has that weight; levels that then have too
    many are halved.
    """
    level, value = pl.col(sketch.level), pl.col(sketch.value)
    shrunk = sketch.shrink(rows, group, single=True).sort(sketch.level, sketch.value)
    sketches = shrunk.group_by(group).agg(level, value)
    serialised = [
        _serialise(sketch.k, levels.to_numpy(), values.to_numpy())
        for levels, values in zip(sketches[sketch.level], sketches[sketch.value], strict=True)
    ]
    made = sketches.select(group).with_columns(pl.Series(sketch.name, serialised, dtype=pl.Binary))
    all_groups = rows.select(group).unique().join(made, on=group, how="left", nulls_equal=True)
    return all_groups.with_columns(pl.col(sketch.name).fill_null(_empty(sketch.k)))


def from_bytes(sketch: KllSketch, frame: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """The rows of sketches in the Binary column named as the aggregate; NULL is an empty one. O(bytes).

    Raises SketchError for bytes that are no KLL sketch of this k.
    """
    return rows_of(sketch, frame.select(group), [_rows(sketch, data) for data in frame[sketch.name]])


def _rows(sketch: KllSketch, data: bytes | None) -> pl.DataFrame:
    dtype = np.dtype(np.float64) if sketch.value_type == pl.Float64 else np.dtype(np.int64)
    levels, values = _parse(data, sketch.k, dtype) if data is not None else (_NONE, _NONE)
    if not len(levels):
        return pl.DataFrame({sketch.level: [0], sketch.value: [None], sketch.n: [0]}, schema=_schema(sketch))
    counts = (levels >= 0).astype(np.int64)
    return pl.DataFrame({sketch.level: levels, sketch.value: values, sketch.n: counts}, schema=_schema(sketch))


def _schema(sketch: KllSketch) -> dict[str, pl.DataType]:
    return {**sketch.items, **sketch.state}


def _empty(k: int) -> bytes:
    return struct.pack("<4B2H", _SMALL, _VERSION, _FAMILY, _EMPTY, k, CAPACITY_MIN)


def _serialise(k: int, levels: Levels, values: Items) -> bytes:
    """`levels` ascend, and `values` on each; the first two are the greatest and the least value."""
    (greatest, least), levels, values = values[:2], levels[2:], values[2:]
    weight = int((np.int64(1) << levels).sum())
    if weight == 1:
        return struct.pack("<4B2H", _SMALL, _SINGLE_VERSION, _FAMILY, _SINGLE, k, CAPACITY_MIN) + values.tobytes()
    height = int(levels[-1]) + 1
    free = int(sketch_capacity(k)[height]) - len(levels)
    starts = free + np.searchsorted(levels, np.arange(height))
    head = struct.pack("<4B2HQH2B", _FULL, _VERSION, _FAMILY, _SORTED, k, CAPACITY_MIN, weight, k, height, 0)
    extremes = np.array([least, greatest], dtype=values.dtype)
    return head + starts.astype("<u4").tobytes() + extremes.tobytes() + values.tobytes()


def _parse(data: bytes, k: int, dtype: np.dtype[np.int64 | np.float64]) -> tuple[Levels, Items]:
    reader = SketchReader(data)
    ints, version, family, flags, their_k, least_capacity = reader.fields("4B2H")
    check(family == _FAMILY and (ints, version) in _FORMS, f"version {version}, family {family}: no KLL sketch")
    check(their_k == k, f"a KLL sketch of k = {their_k}, where {k} is expected")
    check(least_capacity == CAPACITY_MIN, f"a KLL sketch with levels of {least_capacity} items")
    if flags & _EMPTY:
        return _NONE, _NONE
    if (ints, version) == (_SMALL, _SINGLE_VERSION):
        return np.zeros(1, dtype=np.int64), _items(reader, 1, dtype)
    check(ints == _FULL, "a KLL sketch with a short preamble, but more than one item")
    return _parse_levels(reader, k, dtype)


def _parse_levels(reader: SketchReader, k: int, dtype: np.dtype[np.int64 | np.float64]) -> tuple[Levels, Items]:
    weight, _, height, _ = reader.fields("QH2B")
    check(1 <= height <= LEVELS_MAX, f"a KLL sketch of {height} levels")
    check(0 < weight < _WEIGHT_LIMIT, f"a KLL sketch of {weight} values")
    starts = np.frombuffer(reader.take(4 * height), dtype="<u4").astype(np.int64)
    sizes = np.diff(starts, append=sketch_capacity(k)[height])
    check(bool((sizes >= 0).all()), "a KLL sketch whose levels do not follow each other")
    levels = np.repeat(np.arange(height), sizes)
    extremes = _items(reader, 2, dtype)
    values = _items(reader, len(levels), dtype)
    check(sum(int(size) << level for level, size in enumerate(sizes)) == weight, "a KLL sketch that miscounts itself")
    check(bool(extremes[0] <= values.min() and values.max() <= extremes[1]), "a KLL sketch beyond its own extremes")
    return np.concatenate([[LEAST_LEVEL, GREATEST_LEVEL], levels]), np.concatenate([extremes, values])


def _items(reader: SketchReader, count: int, dtype: np.dtype[np.int64 | np.float64]) -> Items:
    items = np.frombuffer(reader.take(_ITEM_BYTES * count), dtype=dtype.newbyteorder("<")).astype(dtype)
    check(not np.isnan(items).any(), "a KLL sketch of values that are NaN")
    items[items == 0] = 0  # which makes 0.0 of -0.0
    return items
