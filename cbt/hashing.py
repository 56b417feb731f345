"""The key hash that the tree, partitions and the archive share; stable between versions, machines and runs.

One column hashes to `element`: strings to xxh3-64 of their UTF-8 bytes under the seed; integers, booleans (0
and 1) and floats to splitmix64 of 64 bits, where an integral float takes the bits of its integer; NULL to a
constant. Columns are chained from the left: `hash = splitmix64(hash ^ element)`, starting with the seed.
Golden vectors in the tests keep it so. It is not cryptographic: whoever chooses keys can make hashes collide,
so equal hashes are told apart by keys.
"""

from collections.abc import Sequence

import polars as pl
import polars_hash as plh

_NULL_ELEMENT = 0x6E_75_6C_6C_2D_65_6C_66  # "null-elf"
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
    frame = pl.DataFrame([column.alias(str(index)) for index, column in enumerate(series)])
    chained = _u64(seed)
    for name, dtype in frame.schema.items():
        chained = splitmix64(chained ^ _element(name, dtype, seed))
    return frame.select(chained.alias("hash")).to_series()


def splitmix64(bits: pl.Expr) -> pl.Expr:
    """One step of splitmix64 (Steele, Lea and Flood, 2014) on UInt64. Polars has no shift: division by a
    power of two is.
    """
    bits = bits + _u64(0x9E3779B97F4A7C15)  # UInt64 arithmetic wraps, as the algorithm wants
    bits = (bits ^ (bits // _u64(1 << 30))) * _u64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits // _u64(1 << 27))) * _u64(0x94D049BB133111EB)
    return bits ^ (bits // _u64(1 << 31))


def _element(name: str, dtype: pl.DataType, seed: int) -> pl.Expr:
    column = pl.col(name)
    if dtype == pl.Null:
        return column.cast(pl.UInt64).fill_null(_u64(_NULL_ELEMENT))
    if dtype == pl.String:
        element: pl.Expr = plh.col(name).nchash.xxh3_64(seed=seed)
    elif dtype == pl.Int64:
        element = splitmix64(column.reinterpret(dtype=pl.UInt64))
    elif dtype == pl.Boolean:
        element = splitmix64(column.cast(pl.UInt64))
    elif dtype == pl.Float64:
        element = splitmix64(_float_bits(column))
    else:
        raise ValueError(f"a key column cannot be {dtype}")
    return element.fill_null(_u64(_NULL_ELEMENT))


def _float_bits(column: pl.Expr) -> pl.Expr:
    """Bits by value: 1.0 has those of the integer 1, -0.0 those of 0, every NaN the same."""
    integral = (column == column.floor()) & (column >= -(2.0**63)) & (column < 2.0**63)
    return (
        pl.when(integral)
        .then(column.cast(pl.Int64, strict=False).reinterpret(dtype=pl.UInt64))
        .when(column.is_nan())
        .then(_u64(_NAN_BITS))
        .otherwise(column.reinterpret(dtype=pl.UInt64))
    )


def _u64(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.UInt64)
