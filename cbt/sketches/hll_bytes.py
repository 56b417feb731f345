"""HLL sketches as bytes of Apache DataSketches, type HLL_8, which Spark's `hll_*` functions read and write.

Written: always the full array of registers, out of order: 40 + 2**lg_k bytes. Read: that, and the small forms, lists
and sets of coupons (a coupon is 26 bits of address below 6 bits of rank).
"""

import struct

import numpy as np
import polars as pl

from cbt.sketches.hll import RANK_MAX, HllSketch
from cbt.sketches.wire import Reader, check, rows_of

_SERIAL_VERSION, _FAMILY = 1, 7
_PREAMBLE_INTS = {0: 2, 1: 3, 2: 10}  # by mode
_LIST, _SET, _ARRAY = range(3)
_HLL_8 = 2
_EMPTY, _COMPACT, _OUT_OF_ORDER = 4, 8, 16
_ADDRESS_BITS = 26
_LOW_RANK_MAX = 31

Ranks = np.ndarray[tuple[int], np.dtype[np.uint8]]


def to_bytes(sketch: HllSketch, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """The sketch of each group: its columns, and a Binary column named as the aggregate. O(groups · 2**lg_k)."""
    slots = rows.group_by(group).agg(pl.col(sketch.slot, sketch.rank).filter(pl.col(sketch.slot).is_not_null()))
    sketches = [
        _array(slots_.to_numpy(), ranks.to_numpy(), sketch.lg_k)
        for slots_, ranks in zip(slots[sketch.slot], slots[sketch.rank], strict=True)
    ]
    return slots.select(group).with_columns(pl.Series(sketch.name, sketches, dtype=pl.Binary))


def from_bytes(sketch: HllSketch, frame: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """The rows of sketches in the Binary column named as the aggregate; NULL is an empty one. O(bytes).

    Raises SketchError for bytes that are no HLL_8 sketch of 2**lg_k registers.
    """
    return rows_of(sketch, frame.select(group), [_parse(sketch, data) for data in frame[sketch.name]])


def _parse(sketch: HllSketch, data: bytes | None) -> pl.DataFrame:
    registers = _registers(data, sketch.lg_k) if data is not None else np.zeros(0, dtype=np.uint8)
    slots = registers.nonzero()[0]
    if not len(slots):
        return pl.DataFrame(
            [pl.Series(name, [None], dtype) for name, dtype in {**sketch.items, **sketch.state}.items()]
        )
    return pl.DataFrame(
        {sketch.slot: slots.astype(np.int64), sketch.rank: registers[slots].astype(np.int8)},
    )


def _array(slots: np.ndarray, ranks: np.ndarray, lg_k: int) -> bytes:
    registers = np.zeros(2**lg_k, dtype=np.uint8)
    registers[slots] = ranks
    counts = np.bincount(registers, minlength=RANK_MAX + 1)
    powers = np.ldexp(counts.astype(np.float64), -np.arange(RANK_MAX + 1))
    low, high = powers[: _LOW_RANK_MAX + 1].sum(), powers[_LOW_RANK_MAX + 1 :].sum()
    flags = _OUT_OF_ORDER | (0 if len(slots) else _EMPTY)
    mode = _HLL_8 << 2 | _ARRAY
    head = (_PREAMBLE_INTS[_ARRAY], _SERIAL_VERSION, _FAMILY, lg_k, 0, flags, 0, mode)
    return struct.pack("<8B3d2i", *head, 0.0, low, high, counts[0], 0) + registers.tobytes()


def _registers(data: bytes, lg_k: int) -> Ranks:
    reader = Reader(data)
    ints, version, family, their_lg_k, lg_array, flags, count, mode = reader.fields("8B")
    check(version == _SERIAL_VERSION and family == _FAMILY, f"version {version}, family {family}: no HLL sketch")
    check(mode >> 2 == _HLL_8 and mode & 3 in _PREAMBLE_INTS, f"an HLL sketch of mode {mode}, not of type HLL_8")
    check(ints == _PREAMBLE_INTS[mode & 3], f"an HLL sketch of mode {mode} with a preamble of {ints} integers")
    check(their_lg_k == lg_k, f"an HLL sketch of 2**{their_lg_k} registers, where 2**{lg_k} are expected")
    if mode & 3 == _ARRAY:
        reader.skip_to(4 * ints)
        registers = np.frombuffer(reader.take(2**lg_k), dtype=np.uint8)
        check(int(registers.max()) <= RANK_MAX, f"an HLL sketch with a rank above {RANK_MAX}")
        return registers
    if mode & 3 == _SET:
        (count,) = reader.fields("i")
    slots = count if flags & _COMPACT else 2**lg_array
    check(0 <= count <= slots <= 2**_ADDRESS_BITS, f"an HLL sketch of {count} coupons in {slots} places")
    coupons = np.frombuffer(reader.take(4 * slots), dtype="<u4")
    coupons = coupons[coupons != 0]
    check(len(coupons) == count, f"an HLL sketch with {len(coupons)} coupons says that it has {count}")
    registers = np.zeros(2**lg_k, dtype=np.uint8)
    np.maximum.at(registers, coupons & (2**lg_k - 1), (coupons >> _ADDRESS_BITS).astype(np.uint8))
    return registers
