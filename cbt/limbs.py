"""Integers of any width, one for each row of a frame: arrays of 24-bit digits.

An array is (digits, rows) Int64, the least digit first; its numbers are the sums of digit·2**(24·place). Digits
may be out of range and of either sign until `carried`: sums of a few, and products of two, stay exact in 64 bits.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

Limbs = npt.NDArray[np.int64]

BITS = 24
_MASK = 2**BITS - 1


def limbs(columns: Sequence[tuple[pl.Series, int]]) -> Limbs:
    """The sums over Int128 or Int64 columns of column·2**(24·place), for places in any order; NULL is 0.

    O(columns · rows).

    >>> doubles(limbs([(pl.Series([3, 2**24]), 0), (pl.Series([1, -1]), 1)])).tolist()
    [16777219.0, 0.0]
    """
    places = 6 + max(place for _, place in columns)
    result = np.zeros((places, len(columns[0][0])), dtype=np.int64)
    for column, place in columns:
        for offset, digit in enumerate(_digits(column.cast(pl.Int128).fill_null(0))):
            result[place + offset] += digit
    return result


def _digits(column: pl.Series) -> Iterator[Limbs]:
    """Six digits of 128 bits: five of 24 and the highest, with the sign, of 8."""
    low = column.cast(pl.UInt64, wrap_numerical=True).to_numpy()
    high = (column // pl.Series([2**64], dtype=pl.Int128)).cast(pl.Int64).to_numpy()
    for shift in (0, 24):
        yield ((low >> np.uint64(shift)) & np.uint64(_MASK)).astype(np.int64)
    yield (low >> np.uint64(48)).astype(np.int64) | ((high & 0xFF) << 16)
    for shift in (8, 32):
        yield (high >> shift) & _MASK
    yield high >> 56


def product(left: Limbs, right: Limbs) -> Limbs:
    """The products, row by row, of numbers whose digits are nearly in range. O(digits² · rows).

    >>> number = limbs([(pl.Series([2**100]), 0)])
    >>> doubles(difference(product(number, number), number)).item() == 2.0**200
    True
    """
    result = np.zeros((len(left) + len(right), left.shape[1]), dtype=np.int64)
    for place, digits in enumerate(left):
        result[place : place + len(right)] += digits * right
    return result


def difference(left: Limbs, right: Limbs) -> Limbs:
    """`left` minus `right`, row by row."""
    result = np.zeros((max(len(left), len(right)), left.shape[1]), dtype=np.int64)
    result[: len(left)] += left
    result[: len(right)] -= right
    return result


def doubles(numbers: Limbs) -> npt.NDArray[np.float64]:
    """The numbers as doubles, within one unit in the last place; NaN for negative ones. O(digits · rows)."""
    carried = _carried(numbers)
    result = np.zeros(numbers.shape[1])
    for digits in carried:
        result = result * 2.0**-BITS + digits
    return np.where(carried[-1] < 0, np.nan, result * 2.0 ** (BITS * (len(carried) - 1)))


def _carried(numbers: Limbs) -> Limbs:
    """All digits but the highest in range."""
    result = numbers.copy()
    for place in range(len(result) - 1):
        result[place + 1] += result[place] >> BITS
        result[place] &= _MASK
    return result
