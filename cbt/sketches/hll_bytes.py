"""HLL sketches as bytes of Apache DataSketches, type HLL_8, which Spark's `hll_*` functions read and write.

In one of its three forms: up to 7 coupons as a list, more as a set, or an array of registers, which is written as out
of order, in 40 + 2**lg_k bytes. A coupon is 26 bits of address below 6 bits of rank.
"""

import math
import struct

import numpy as np
import polars as pl

from cbt.sketches.hll import ADDRESS_BITS, RANK_MAX, HllSketch
from cbt.sketches.wire import SketchReader, check, rows_of

_SERIAL_VERSION, _FAMILY = 1, 7
_PREAMBLE_INTS = {0: 2, 1: 3, 2: 10}  # by mode
_LIST, _SET, _ARRAY = range(3)
_HLL_8 = 2
_EMPTY, _COMPACT, _OUT_OF_ORDER = 4, 8, 16
_LIST_MAX, _LG_LIST, _LG_SET_MIN = 7, 3, 5
_LOW_RANK_MAX = 31
_NONE = np.zeros(0, dtype=np.uint8)

Slots = np.ndarray[tuple[int], np.dtype[np.int64]]
Ranks = np.ndarray[tuple[int], np.dtype[np.uint8]]


def to_bytes(sketch: HllSketch, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """The sketch of each group: its columns, and a Binary column named as the aggregate. O(groups · 2**lg_k)."""
    present = pl.col(sketch.slot, sketch.rank).filter(pl.col(sketch.slot).is_not_null())
    slots = sketch.compact(rows, group).sort(sketch.slot, descending=True).group_by(group).agg(present)
    sketches = [
        _serialise(sketch.lg_k, slots_.to_numpy(), ranks.to_numpy().astype(np.uint8))
        for slots_, ranks in zip(slots[sketch.slot], slots[sketch.rank], strict=True)
    ]
    return slots.select(group).with_columns(pl.Series(sketch.name, sketches, dtype=pl.Binary))


def from_bytes(sketch: HllSketch, frame: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """The rows of sketches in the Binary column named as the aggregate; NULL is an empty one. O(bytes).

    Raises SketchError for bytes that are no HLL_8 sketch of 2**lg_k registers.
    """
    rows = rows_of(sketch, frame.select(group), [_rows(sketch, data) for data in frame[sketch.name]])
    return sketch.compact(rows, group)


def _serialise(lg_k: int, slots: Slots, ranks: Ranks) -> bytes:
    if len(slots) and slots[0] >= 0:
        return _array(lg_k, slots, ranks)
    coupons = ((-1 - slots) | ranks.astype(np.int64) << ADDRESS_BITS).astype("<u4").tobytes()
    flags = _COMPACT | (0 if len(slots) else _EMPTY)
    if len(slots) <= _LIST_MAX:
        return _head(_LIST, lg_k, _LG_LIST, flags, len(slots)) + coupons
    lg_array = max(_LG_SET_MIN, math.ceil(math.log2(len(slots) / 0.75)))
    return _head(_SET, lg_k, lg_array, flags, 0) + struct.pack("<i", len(slots)) + coupons


def _array(lg_k: int, slots: Slots, ranks: Ranks) -> bytes:
    registers = np.zeros(2**lg_k, dtype=np.uint8)
    registers[slots] = ranks
    counts = np.bincount(registers, minlength=RANK_MAX + 1)
    powers = np.ldexp(counts.astype(np.float64), -np.arange(RANK_MAX + 1))
    low, high = powers[: _LOW_RANK_MAX + 1].sum(), powers[_LOW_RANK_MAX + 1 :].sum()
    sums = struct.pack("<3d2i", 0.0, low, high, counts[0], 0)
    return _head(_ARRAY, lg_k, 0, _OUT_OF_ORDER, 0) + sums + registers.tobytes()


def _head(mode: int, lg_k: int, lg_array: int, flags: int, count: int) -> bytes:
    mode_byte = _HLL_8 << 2 | mode
    return bytes([_PREAMBLE_INTS[mode], _SERIAL_VERSION, _FAMILY, lg_k, lg_array, flags, count, mode_byte])


def _rows(sketch: HllSketch, data: bytes | None) -> pl.DataFrame:
    slots, ranks = _parse(data, sketch.lg_k) if data is not None else (_NONE, _NONE)
    schema = {**sketch.items, **sketch.state}
    if not len(slots):
        return pl.DataFrame({sketch.slot: [None], sketch.rank: [None]}, schema=schema)
    return pl.DataFrame({sketch.slot: slots.astype(np.int64), sketch.rank: ranks.astype(np.int8)}, schema=schema)


def _parse(data: bytes, lg_k: int) -> tuple[Slots, Ranks]:
    reader = SketchReader(data)
    ints, version, family, their_lg_k, lg_array, flags, count, mode_byte = reader.fields("8B")
    mode = mode_byte & 3
    check(version == _SERIAL_VERSION and family == _FAMILY, f"version {version}, family {family}: no HLL sketch")
    check(mode_byte >> 2 == _HLL_8 and mode in _PREAMBLE_INTS, f"an HLL sketch of mode {mode_byte}, not of type HLL_8")
    check(ints == _PREAMBLE_INTS[mode], f"an HLL sketch of mode {mode} with a preamble of {ints} integers")
    check(their_lg_k == lg_k, f"an HLL sketch of 2**{their_lg_k} registers, where 2**{lg_k} are expected")
    if mode == _ARRAY:
        return _parse_array(reader, lg_k)
    if mode == _SET:
        (count,) = reader.fields("i")
    places = count if flags & _COMPACT else 2**lg_array
    check(0 <= count <= places <= 2**ADDRESS_BITS, f"an HLL sketch of {count} coupons in {places} places")
    coupons = np.frombuffer(reader.take(4 * places), dtype="<u4")
    coupons = coupons[coupons != 0]
    check(len(coupons) == count, f"an HLL sketch with {len(coupons)} coupons says that it has {count}")
    ranks = coupons >> ADDRESS_BITS
    check(bool((ranks > 0).all()), "an HLL sketch with a coupon of no rank")
    return -1 - (coupons & (2**ADDRESS_BITS - 1)).astype(np.int64), ranks.astype(np.uint8)


def _parse_array(reader: SketchReader, lg_k: int) -> tuple[Slots, Ranks]:
    reader.skip_to(4 * _PREAMBLE_INTS[_ARRAY])
    registers = np.frombuffer(reader.take(2**lg_k), dtype=np.uint8)
    check(int(registers.max()) <= RANK_MAX, f"an HLL sketch with a rank above {RANK_MAX}")
    slots = registers.nonzero()[0]
    return slots, registers[slots]
