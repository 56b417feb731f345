"""MurmurHash3 x64-128 (Austin Appleby, public domain) under the seed of Apache DataSketches.

Hashes are UInt128, the first word below the second, as the library has them for `update(long)` and `update(String)`.
"""

import polars as pl
import polars_hash as plh

SEED = 9001
_LONG_BYTES = 8


def hash_strings(values: pl.Series) -> pl.Series:
    """The hash of each string's UTF-8 bytes; NULL stays NULL. O(characters)."""
    return values.to_frame("value").select(plh.col("value").nchash.murmur128(seed=SEED)).to_series()


def hash_longs(values: pl.Series) -> pl.Series:
    """The hash of each Int64's 8 bytes, the lowest first; NULL stays NULL. O(n)."""
    word = values.reinterpret(dtype=pl.UInt64) * _u64(0x87C3_7B91_1142_53D5)
    word = (word * _u64(1 << 31) ^ word // _u64(1 << 33)) * _u64(0x4CF5_AD43_2745_937F)
    first, second = word ^ _u64(SEED ^ _LONG_BYTES), _u64(SEED ^ _LONG_BYTES)
    first = first + second
    second = first + second
    first, second = _final_mix(first), _final_mix(second)
    first = first + second
    second = first + second
    return second.cast(pl.UInt128) * pl.Series([2**64], dtype=pl.UInt128) + first.cast(pl.UInt128)


def _final_mix(word: pl.Series) -> pl.Series:
    word = (word ^ word // _u64(1 << 33)) * _u64(0xFF51_AFD7_ED55_8CCD)
    word = (word ^ word // _u64(1 << 33)) * _u64(0xC4CE_B9FE_1A85_EC53)
    return word ^ word // _u64(1 << 33)


def _u64(value: int) -> pl.Series:
    return pl.Series([value], dtype=pl.UInt64)
