"""VARIANCE and STDDEV, of a population or a sample: the states are the exact sums of the values and of their squares.

The spread n·Σx² - (Σx)² is then an exact integer in some unit, rounded once, so that results have all their
digits however close together or far from zero the values are, and whatever way they were grouped. Merging means
and deviations (Chan, Golub and LeVeque, 1979) would also be stable, but every order of merges rounds its own way,
and nothing could be taken off again.

* `integer`: sums as `IntegerSum` keeps them, and the squares in two integers of 128 bits: `s1` counts 2**72 and
  `s0` counts 1. A square is at most 2**126: 2**54 units of `s1`.
* `number`: sums as `NumberSum` keeps them, and the squares, at most 2**126 and with no bit below 2**-256, in four:
  `s3` counts 2**32, `s2` 2**-64, `s1` 2**-160, `s0` 2**-256. A square is at most 2**94 units of `s3`, and less than
  2**96 of each of the others. Where the sum has its `wide`, that holds the squares as well.

As with sums, a state overflows from 2**31 values of the greatest magnitude in one key and pane on.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from cbt.aggregates.outliers import UNIT_BITS, Outliers, quotient
from cbt.aggregates.sums import IntegerSum, NumberSum, divided
from cbt.algebra.pao import Addition, Lifted, Pao, differences

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


_INT64_LIMIT = 2**63
_CHUNK_ROWS = 2**12  # so that all digits of a chunk stay in the processor's cache
_N_LIMBS = 3  # hold any n
_SPLITTER = 2.0**27 + 1


class Variance(Pao):
    """The states that all variances share: a sum's, and the squares' columns, named from the greatest part to the
    least.

    `sample` divides by n - 1, else by n. `deviation` lowers to the square root. Both lower to Float64, NULL where
    there are too few values.
    """

    def __init__(
        self, name: str, total: IntegerSum | NumberSum, squares: int, *, sample: bool, deviation: bool
    ) -> None:
        self._total, self._sample, self._deviation = total, sample, deviation
        self._n = f"{name}.n"
        self._squares = [f"{name}.s{part}" for part in reversed(range(squares))]
        self.state = total.state | dict.fromkeys(self._squares, pl.Int128())
        self.sparse = total.sparse

    def lift(self, argument: pl.Series) -> Lifted:
        total = self._total.lift(argument)
        parts = {} if argument.dtype == pl.Null else self._square_parts(argument)
        rows = [part.alias(name) for name, (part, _) in parts.items()]
        groups = [pl.col(name).sum() for name in parts]
        states = [pl.col(name).cast(pl.Int128) * _i128(scale) for name, (_, scale) in parts.items()]
        states += [_i128(0).alias(name) for name in self._squares if name not in parts]
        return Lifted([*total.rows, *rows], [*total.groups, *groups], [*total.states, *states])

    def additions(self, physical: pl.DataType) -> list[Addition] | None:
        total = self._total.additions(physical)
        return total if total is None or physical == pl.Null else [*total, self._square_addition(physical)]

    @abstractmethod
    def _square_addition(self, physical: pl.DataType) -> Addition:
        """The addition of a value's square."""

    @abstractmethod
    def _square_parts(self, argument: pl.Series) -> dict[str, tuple[pl.Series, int]]:
        """The squares' columns that are not all 0: integers, and what one of them counts in the state."""

    def combine(self) -> list[pl.Expr]:
        return [*self._total.combine(), *(pl.col(name).sum() for name in self._squares)]

    def subtract(self) -> list[pl.Expr]:
        return [*self._total.subtract(), *differences(self._squares)]

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        n = frame[self._n]
        variances = self._spreads(frame) / n / (n - int(self._sample))
        results = self._corrected(variances.sqrt() if self._deviation else variances, frame)
        return results.set(n <= int(self._sample), None)

    def _spreads(self, frame: pl.DataFrame) -> pl.Series:
        """n·Σx² - (Σx)²."""
        chunks = [self._spread(chunk) for chunk in frame.iter_slices(_CHUNK_ROWS)]
        return pl.Series(np.concatenate(chunks) if chunks else [], dtype=pl.Float64)

    @abstractmethod
    def _spread(self, frame: pl.DataFrame) -> npt.NDArray[np.float64]:
        """The spreads of a few rows."""

    def _corrected(self, results: pl.Series, frame: pl.DataFrame) -> pl.Series:  # noqa: ARG002
        return results


class IntegerVariance(Variance):
    """Variance of integers: states `sum` Int128, `n` Int64, `s1` and `s0` Int128."""

    def __init__(self, name: str, *, sample: bool, deviation: bool) -> None:
        super().__init__(name, IntegerSum(name), 2, sample=sample, deviation=deviation)
        self._sum = f"{name}.sum"

    def _square_parts(self, argument: pl.Series) -> dict[str, tuple[pl.Series, int]]:
        return _named(self._squares, _integer_squares(argument, 2**72), (1, 1))

    def _square_addition(self, physical: pl.DataType) -> Addition:  # noqa: ARG002 - integers only
        return Addition("squares", tuple(self._squares))

    def _spread(self, frame: pl.DataFrame) -> npt.NDArray[np.float64]:
        s1, s0 = (frame[name] for name in self._squares)
        n, total = limbs([(frame[self._n], 0)])[:_N_LIMBS], limbs([(frame[self._sum], 0)])
        return doubles(difference(product(n, limbs([(s1, 72 // BITS), (s0, 0)])), product(total, total)))


class NumberVariance(Variance):
    """Variance of numbers: states `hi`, `lo` Int128, `wide` String, `n` Int64, `s3`, `s2`, `s1` and `s0` Int128.

    NaN where a value is not finite. A variance beyond all doubles is Infinity, though its deviation is none.
    """

    def __init__(self, name: str, *, sample: bool, deviation: bool) -> None:
        super().__init__(name, NumberSum(name, powers=2), 4, sample=sample, deviation=deviation)
        self._hi, self._lo, self._wide = (f"{name}.{part}" for part in ("hi", "lo", "wide"))
        self._outliers = Outliers(self._wide, powers=2)

    def _square_parts(self, argument: pl.Series) -> dict[str, tuple[pl.Series, int]]:
        if argument.dtype == pl.Int64:
            return _named(self._squares, _integer_squares(argument, 2**32), (1, 2**64))
        ordinary, _ = divided(argument)
        return _named(self._squares, _double_squares(ordinary), (1, 1, 1, 1))

    def _square_addition(self, physical: pl.DataType) -> Addition:
        if physical == pl.Float64:
            return Addition("double squares", tuple(self._squares))
        return Addition("unit squares", tuple(self._squares[:2]))

    def _spread(self, frame: pl.DataFrame) -> npt.NDArray[np.float64]:
        places = (288 // BITS, 192 // BITS, 96 // BITS, 0)
        squares = limbs([(frame[name], place) for name, place in zip(self._squares, places, strict=True)])
        total = limbs([(frame[self._hi], 96 // BITS), (frame[self._lo], 0)])
        n = limbs([(frame[self._n], 0)])[:_N_LIMBS]
        return doubles(difference(product(n, squares), product(total, total))) * 2.0**-256

    def _corrected(self, results: pl.Series, frame: pl.DataFrame) -> pl.Series:
        rare = frame[self._wide].is_not_null().arg_true()
        sums = pl.col(self._n, self._hi, self._lo, *self._squares).fill_null(0)
        rows = frame[rare].select(self._wide, sums).iter_rows()
        return results.scatter(rare, [self._exact(*row) for row in rows])

    def _exact(self, wide: str, n: int, hi: int, lo: int, *squares: int) -> float:
        outliers = self._outliers.read(wide)
        if outliers.special is not None:
            return math.nan
        total = ((hi << 96) + lo << UNIT_BITS - 128) + outliers.powers[0]
        s3, s2, s1, s0 = squares
        of_squares = ((s3 << 288) + (s2 << 192) + (s1 << 96) + s0 << 2 * UNIT_BITS - 256) + outliers.powers[1]
        spread, divisor = n * of_squares - total * total, max(1, n * (n - int(self._sample)))
        if spread < 0:
            return math.nan
        return _root(spread, divisor) if self._deviation else quotient(spread, divisor << 2 * UNIT_BITS)


def _root(spread: int, divisor: int) -> float:
    """The square root of a fraction in units of 2**(-2·1074), also where no double could hold the fraction."""
    shift = (divisor.bit_length() - spread.bit_length()) // 2
    scaled = quotient(spread << 2 * max(0, shift), divisor << 2 * max(0, -shift))
    try:
        return math.ldexp(math.sqrt(scaled), -shift - UNIT_BITS)
    except OverflowError:
        return math.inf


def _named(
    names: list[str], parts: tuple[pl.Series | None, ...], scales: tuple[int, ...]
) -> dict[str, tuple[pl.Series, int]]:
    given = zip(names, parts, scales, strict=False)
    return {name: (part, scale) for name, part, scale in given if part is not None}


def _integer_squares(argument: pl.Series, unit: int) -> tuple[pl.Series | None, pl.Series]:
    """The squares of an Int64 column: how often `unit` goes into them, and the rest.

    Int64 if the block's sums surely fit, else Int128.
    """
    least, greatest = argument.min(), argument.max()
    magnitude = max(-least, greatest) if isinstance(least, int) and isinstance(greatest, int) else 0
    if magnitude**2 * len(argument) >= _INT64_LIMIT:
        argument = argument.cast(pl.Int128)
    squares = argument * argument
    if magnitude**2 < unit:
        return None, squares
    units = pl.Series([unit], dtype=squares.dtype)
    return squares // units, squares % units


def _double_squares(ordinary: pl.Series) -> tuple[pl.Series | None, ...]:
    """The squares of doubles of magnitude 2**-75 .. 2**63, or 0 or NULL, as counts of 2**32, 2**-64, 2**-160, 2**-256.

    A square is a double and its rounding error, which is a double too (Dekker, 1971).
    """
    values = ordinary.fill_null(0.0).to_numpy()
    squares = values * values
    upper = values * _SPLITTER
    upper -= upper - values
    lower = values - upper
    errors = ((upper * upper - squares) + 2 * upper * lower) + lower * lower
    parts = zip(_fixed_point(squares), _fixed_point(errors), strict=True)
    return tuple(_integers(square, error) for square, error in parts)


def _fixed_point(values: npt.NDArray[np.float64]) -> Iterator[npt.NDArray[np.float64]]:
    """Whole numbers of 2**32, 2**-64, 2**-160 and 2**-256 that add up to the values. Every step is exact."""
    rest = values * 2.0**-32
    for _ in range(4):
        whole = np.trunc(rest)
        yield whole
        rest -= whole
        rest *= 2.0**96


def _integers(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> pl.Series | None:
    """The sum of two columns of whole doubles; None if it is 0 everywhere."""
    parts = [pl.Series(part).cast(pl.Int128) for part in (left, right) if part.any()]
    return sum(parts[1:], parts[0]) if parts else None


def _i128(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int128)
