"""Exact sums of the doubles that fixed point has no room for: the huge, the tiny, NaN and the infinities.

They are too rare to deserve columns of their own, so one String column describes them, NULL where there are none, and
Python does the arithmetic. The text is `{NaNs} {infinities} {negative infinities} {sum}`, and the sum of squares
follows where one is kept. A sum is `{hex}p{n}`: that hexadecimal number times 2**n units, where a unit is the least
double, 2**-1074, and for squares its square. So the text depends on the values alone, and an addition can be undone.

Text from elsewhere that is not of this form counts as a NaN: it is a false state like any other.
"""

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import polars as pl

from cbt.algebra.pao import LESS

UNIT_BITS = 1074
_COUNT = r"(-?[0-9]{1,19})"
_SUM = r"(-?[0-9a-f]{1,1200})p([0-9]{1,4})"


class Sums(NamedTuple):
    """Counts of values that are not finite, and the sums of the finite ones' powers, in units of 2**(-1074·power)."""

    nans: int
    infinities: int
    negative_infinities: int
    powers: tuple[int, ...]

    @property
    def special(self) -> float | None:
        """The sum if not all values are finite, else None."""
        if self.nans or (self.infinities and self.negative_infinities):
            return math.nan
        if self.infinities:
            return math.inf
        return -math.inf if self.negative_infinities else None


class Outliers:
    """The state column `column`, with the sums of the first `powers` powers."""

    def __init__(self, column: str, powers: int) -> None:
        self.column, self._powers = column, powers
        self._form = re.compile(" ".join([_COUNT] * 3 + [_SUM] * powers))

    def group(self) -> pl.Expr:
        """A group's outliers, from a Float64 column of this name that is NULL where values are ordinary."""
        return pl.col(self.column).drop_nulls().implode()

    def lift(self) -> pl.Expr:
        """The state of each group of values in the frame."""
        return self._texts(pl.col(self.column), lambda values: self._sum(map(self._of_double, values)))

    def combine(self) -> pl.Expr:
        """The aggregation of this column over the states of one key."""
        return self._texts(self.group(), lambda texts: self._sum(map(self.read, texts)))

    def subtract(self) -> pl.Expr:
        """This column without its subtrahend."""
        whole, part = pl.col(self.column), pl.col(self.column + LESS)
        pairs = pl.when(whole.is_not_null() | part.is_not_null()).then(pl.concat_list(whole, part))
        return self._texts(pairs, self._difference)

    def read(self, text: str | None) -> Sums:
        """The sums that a state stands for."""
        if text is None:
            return Sums(0, 0, 0, (0,) * self._powers)
        match = self._form.fullmatch(text)
        if match is None:
            return Sums(1, 0, 0, (0,) * self._powers)
        nans, infinities, negative_infinities = map(int, match.groups()[:3])
        sums = match.groups()[3:]
        powers = (int(digits, 16) << int(shift) for digits, shift in zip(sums[::2], sums[1::2], strict=True))
        return Sums(nans, infinities, negative_infinities, tuple(powers))

    def _texts(self, lists: pl.Expr, text: Callable[[list[Any]], Sums]) -> pl.Expr:
        """One Python call for each list that holds anything."""

        def texts(column: pl.Series) -> pl.Series:
            none = pl.Series([None], dtype=pl.String).new_from_index(0, len(column))
            filled = (column.list.len() > 0).arg_true()
            written = [_write(text(values)) for values in column.gather(filled)] if len(filled) else []
            return none.scatter(filled, pl.Series(written, dtype=pl.String)) if written else none

        return lists.map_batches(texts, return_dtype=pl.String(), is_elementwise=True).alias(self.column)

    def _of_double(self, value: float) -> Sums:
        zeros = (0,) * self._powers
        if math.isnan(value):
            return Sums(1, 0, 0, zeros)
        if math.isinf(value):
            return Sums(0, int(value > 0), int(value < 0), zeros)
        numerator, denominator = value.as_integer_ratio()
        units = (numerator << UNIT_BITS) // denominator
        return Sums(0, 0, 0, tuple(units**power for power in range(1, self._powers + 1)))

    def _sum(self, parts: Iterable[Sums]) -> Sums:
        nans, infinities, negative_infinities, powers = zip(*parts, strict=True)
        totals = tuple(map(sum, zip(*powers, strict=True)))
        return Sums(sum(nans), sum(infinities), sum(negative_infinities), totals)

    def _difference(self, texts: list[str | None]) -> Sums:
        whole, part = map(self.read, texts)
        powers = tuple(a - b for a, b in zip(whole.powers, part.powers, strict=True))
        return Sums(
            whole.nans - part.nans,
            whole.infinities - part.infinities,
            whole.negative_infinities - part.negative_infinities,
            powers,
        )


def quotient(numerator: int, denominator: int) -> float:
    """The double nearest to a fraction with a positive denominator; an infinity where it is beyond all doubles."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def _write(sums: Sums) -> str | None:
    if not any((*sums[:3], *sums.powers)):
        return None
    counts = f"{sums.nans} {sums.infinities} {sums.negative_infinities}"
    return " ".join([counts, *map(_shortened, sums.powers)])


def _shortened(units: int) -> str:
    zeros = max(0, (units & -units).bit_length() - 1)
    return f"{units >> zeros:x}p{zeros}"
