"""The key hash that the tree, partitions and the archive share; stable between versions, machines and runs.

One column hashes to `element`: strings to xxh3-64 of their UTF-8 bytes under the seed; integers, booleans (0 and 1) and
floats to splitmix64 of 64 bits, where an integral float takes the bits of its integer; NULL to a constant. Columns are
chained from the left: `hash = splitmix64(hash ^ element)`, starting with the seed. Golden vectors in the tests keep the
hash stable. It is not cryptographic: a sender who chooses the keys can make hashes collide, so keys with equal hashes
are told apart by the keys themselves.
"""

from collections.abc import Callable, Sequence
from ctypes import byref
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import polars_hash as plh

from cbt.native.arrow import FORMATS, STORED, arrays_of, read_all
from cbt.native.library import Column, KernelBlock, load

Words = npt.NDArray[np.uint64]
_NULL_ELEMENT = 0x6E_75_6C_6C_2D_65_6C_66  # "null-elf"
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MIXING = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST_SHIFT = np.uint64(31)
_CHUNK = 2**14  # so that all steps are in the processor's cache
_NAN_BITS = 0x7FF8_0000_0000_0000


def key_hash(columns: pl.DataFrame | Sequence[pl.Series], seed: int) -> pl.Series:
    """The 64-bit hash of each row's key: a UInt64 series named `hash`, as long as the columns. O(rows ·
    columns).

    Columns are String, Int64, Float64, Boolean or Null; `seed` is 0 <= seed < 2**64. The names do not matter,
    the order does. Raises ValueError for no columns or another type.

    >>> key_hash([pl.Series(["a", None]), pl.Series([1, 2])], seed=0).dtype
    UInt64
    """
    series = columns.get_columns() if isinstance(columns, pl.DataFrame) else list(columns)
    if not series:
        raise ValueError("a key needs at least one column to hash")
    library = load().library
    if library is not None and all(one.dtype in STORED and len(one) == len(series[0]) for one in series):
        keys = columns if isinstance(columns, pl.DataFrame) else _numbered(series)
        hashes = np.empty(keys.height, np.uint64)
        _read_keys(keys, seed, lambda block: library.elf_key_hashes(block, hashes.ctypes.data))
        return pl.Series("hash", hashes)
    chained = _u64(seed)
    for column in series:
        chained = splitmix64(chained ^ _element(column, seed))
    return chained.alias("hash")


def key_places(keys: pl.DataFrame, seed: int, bits: int) -> npt.NDArray[np.uint16]:
    """The upper bits of the hashes of keys, at most 16. O(rows · columns)."""
    library = load().library
    if library is None or not all(dtype in STORED for dtype in keys.dtypes):
        return (key_hash(keys, seed).to_numpy() >> np.uint64(64 - bits)).astype(np.uint16)
    places = np.empty(keys.height, np.uint16)
    _read_keys(keys, seed, lambda block: library.elf_key_places(block, bits, places.ctypes.data))
    return places


def key_identities(keys: pl.DataFrame, secret: Words) -> tuple[Words, Words]:
    """Two hashes of 64 bits for each key, the same within a process: under a secret of two words nobody can make two
    keys have the same. O(rows · columns)."""
    library = load().library
    if library is None or not all(dtype in STORED for dtype in keys.dtypes):
        return keys.hash_rows(int(secret[0])).to_numpy(), keys.hash_rows(int(secret[1])).to_numpy()
    hashes, checks = np.empty((2, keys.height), np.uint64)
    addresses = secret.ctypes.data, hashes.ctypes.data, checks.ctypes.data
    _read_keys(keys, 0, lambda block: library.elf_key_identities(block, *addresses))
    return hashes, checks


def _numbered(series: Sequence[pl.Series]) -> pl.DataFrame:
    return pl.DataFrame([column.alias(str(number)) for number, column in enumerate(series)])


def _read_keys(keys: pl.DataFrame, seed: int, read: Callable[[Any], int]) -> None:
    """Lets the kernel read all keys, of types that it stores. O(bytes)."""
    if keys.height:
        with arrays_of(keys) as arrays:
            formats = zip(arrays.columns.values(), keys.dtypes, strict=True)
            columns = [Column(array, FORMATS[dtype], STORED[dtype]) for array, dtype in formats]
            block = KernelBlock(keys=(Column * len(columns))(*columns), keys_count=len(columns), rows=keys.height)
            block.seed = seed
            read_all(block, lambda: read(byref(block)))


def splitmix64(bits: pl.Series) -> pl.Series:
    """One step of splitmix64 (Steele, Lea and Flood, 2014) on each UInt64; NULL stays NULL."""
    whole = bits.fill_null(0) if bits.null_count() else bits
    mixed = whole.to_numpy() + _INCREMENT  # UInt64 arithmetic wraps, as the algorithm wants
    shifted = np.empty(min(_CHUNK, len(mixed)), np.uint64)
    for start in range(0, len(mixed), _CHUNK):
        _mix(mixed[start : start + _CHUNK], shifted)
    result = pl.Series(bits.name, mixed)
    return result.set(bits.is_null(), None) if bits.null_count() else result


def _mix(bits: npt.NDArray[np.uint64], shifted: npt.NDArray[np.uint64]) -> None:
    """Mixes `bits` in place; `shifted` is scratch space of at least the same length."""
    shifted = shifted[: len(bits)]
    for shift, factor in _MIXING:
        np.right_shift(bits, shift, out=shifted)
        bits ^= shifted
        bits *= factor
    np.right_shift(bits, _LAST_SHIFT, out=shifted)
    bits ^= shifted


def _element(column: pl.Series, seed: int) -> pl.Series:
    if column.dtype == pl.Null:
        element = column.cast(pl.UInt64)
    elif column.dtype == pl.String:
        element = column.to_frame("key").select(plh.col("key").nchash.xxh3_64(seed=seed)).to_series()
    elif column.dtype == pl.Int64:
        element = splitmix64(column.reinterpret(dtype=pl.UInt64))
    elif column.dtype == pl.Boolean:
        element = splitmix64(column.cast(pl.UInt64))
    elif column.dtype == pl.Float64:
        element = splitmix64(_float_bits(column))
    else:
        raise ValueError(f"a key column cannot be {column.dtype}")
    return element.fill_null(_NULL_ELEMENT) if element.null_count() else element


def _float_bits(column: pl.Series) -> pl.Series:
    """The bits of each value: 1.0 has the bits of the integer 1, -0.0 those of 0, and all NaNs have the same."""
    integral = (column == column.floor()) & (column >= -(2.0**63)) & (column < 2.0**63)
    integers = column.set(~integral, None).cast(pl.Int64).reinterpret(dtype=pl.UInt64)
    doubles = _u64(_NAN_BITS).zip_with(column.is_nan(), column.reinterpret(dtype=pl.UInt64))
    return integers.zip_with(integral, doubles)


def _u64(value: int) -> pl.Series:
    return pl.Series([value], dtype=pl.UInt64)
