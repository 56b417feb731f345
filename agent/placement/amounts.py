"""Amounts that were measured, checked where they come in: everything after it may count on finite numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
AMOUNT_MAX = 1e15
"""Upper bound on any amount: products of four of them stay far from the end of doubles."""


def check_amount(field: str, value: float, least: float = 0.0, most: float = AMOUNT_MAX) -> None:
    """Raises ValueError, which names the field, for a number out of bounds; NaN is out of all.

    >>> check_amount("moves", -1)
    Traceback (most recent call last):
    ValueError: moves is -1: it is a number from 0 to 1e+15
    """
    if not least <= value <= most:
        raise ValueError(f"{field} is {value}: it is a number from {least:g} to {most:g}")


def checked_amounts(
    field: str, values: Sequence[float] | Floats, length: int, least: float = 0.0, most: float = AMOUNT_MAX
) -> Floats:
    """The values as an array. Raises ValueError, which names the field, for another length or a number out of bounds.

    O(n).
    """
    amounts = np.array(values, np.float64)
    if amounts.shape != (length,):
        raise ValueError(f"{field} has the shape {amounts.shape}: it is a list of {length:,} numbers")
    wrong = ~((amounts >= least) & (amounts <= most))
    if wrong.any():
        place = int(wrong.argmax())
        check_amount(f"{field}[{place}]", float(amounts[place]), least, most)
    return amounts
