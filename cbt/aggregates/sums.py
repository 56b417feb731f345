"""SUM and AVG, exact: the state is the sum itself and not a rounded one, so grouping cannot change the
result.

A `number` sum is kept in fixed point, in two integers of 128 bits: `hi` counts units of 2**-32 and `lo` units
of 2**-128. Every double x with 2**-75 <= |x| < 2**63 is `trunc(x·2**32)` units of the first kind plus a whole
number of the second, since its lowest bit is at least 2**-128. What lies outside, and NaN and the infinities,
goes into `wide`, exactly as well, but slowly (see `cbt.aggregates.outliers`). So a sum can also be taken off another.

Int128 arithmetic of Polars wraps silently. It cannot here:
* |x·2**32| <= 2**95 for a value, |lo| < 2**96: a state overflows from 2**31 values of the greatest magnitude in
  one key and pane on.
* an `integer` sum takes 2**64 values of the greatest magnitude.
A peer that lies about its states can make its sum wrap: a false sum, which it could have sent as well.
"""

import polars as pl

from cbt.aggregates.outliers import UNIT_BITS, Outliers, quotient
from cbt.algebra.pao import Addition, CountRows, Lifted, Pao, differences

_HI_UNIT = 2**32
_LO_UNITS = 2**96  # units of `lo` in one of `hi`
_LO_BITS = 128  # a unit of `lo` is 2**-128
_TINY, _HUGE = 2.0**-75, 2.0**63
_INT64_LIMIT = 2**63
_NARROW_LO_UNIT = 2**40  # for blocks of values with few bits below 2**-32, such as prices


class IntegerSum(Pao):
    """SUM of integers: states `sum` Int128 and `n` Int64, the values that are not NULL. Lowers to Int128,
    NULL if n = 0.
    """

    def __init__(self, name: str) -> None:
        self._sum, self._n = f"{name}.sum", f"{name}.n"
        self.state = {self._sum: pl.Int128(), self._n: pl.Int64()}

    def lift(self, argument: pl.Series) -> Lifted:
        if argument.dtype == pl.Null:
            return Lifted([], [], [_zero(name, dtype) for name, dtype in self.state.items()])
        groups = [_integer_sum(argument).alias(self._sum), pl.col(argument.name).count().alias(self._n)]
        return Lifted([], groups, [pl.col(self._sum).cast(pl.Int128), pl.col(self._n).cast(pl.Int64)])

    def over(self, inner: Pao, states: pl.DataFrame) -> list[pl.Series | pl.Expr] | None:
        sums = _whole_sums(inner, states)
        return None if sums is None else [sums.fill_null(0).alias(self._sum), _present(sums).alias(self._n)]

    def combine(self) -> list[pl.Expr]:
        return [pl.col(name).sum() for name in self.state]

    def additions(self, physical: pl.DataType) -> list[Addition] | None:
        count = Addition("values", (self._n,))
        return [count] if physical == pl.Null else [Addition("integers", (self._sum,)), count]

    def subtract(self) -> list[pl.Expr]:
        return differences(self.state)

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return _null_where_empty(frame[self._sum], frame[self._n])


class IntegerAverage(IntegerSum):
    """AVG of integers: the exact sum as the nearest double, divided by n. Lowers to Float64."""

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return super().lower(frame).cast(pl.Float64) / frame[self._n]


class NumberSum(Pao):
    """SUM of numbers: states `hi`, `lo` Int128, `wide` String, `n` Int64.

    Lowers to Int128 if every sum of the frame is a whole number and has no `wide` part, else to Float64: the
    exact sum, correctly rounded. NaN and opposite infinities sum up to NaN. `powers` is 2 where `wide` is to hold
    the squares as well.
    """

    def __init__(self, name: str, powers: int = 1) -> None:
        self._hi, self._lo, self._wide, self._n = (f"{name}.{part}" for part in ("hi", "lo", "wide", "n"))
        self._outliers = Outliers(self._wide, powers)
        self.state = {
            self._hi: pl.Int128(),
            self._lo: pl.Int128(),
            self._wide: pl.String(),
            self._n: pl.Int64(),
        }
        self.sparse = (self._wide,)

    def lift(self, argument: pl.Series) -> Lifted:
        if argument.dtype == pl.Null:
            return Lifted([], [], [_zero(self._hi), _zero(self._lo), _none(self._wide), _zero(self._n, pl.Int64())])
        count = pl.col(argument.name).count().alias(self._n)
        n = pl.col(self._n).cast(pl.Int64)
        if argument.dtype == pl.Int64:
            hi = pl.col(self._hi).cast(pl.Int128) * _i128(_HI_UNIT)
            return Lifted(
                [], [_integer_sum(argument).alias(self._hi), count], [hi, _zero(self._lo), _none(self._wide), n]
            )
        ordinary, outliers = divided(argument)
        hi_values, lo_values, lo_scale = fixed_point(ordinary)
        rows: list[pl.Series | pl.Expr] = [hi_values.alias(self._hi), lo_values.alias(self._lo)]
        groups = [pl.col(self._hi).sum(), pl.col(self._lo).sum(), count]
        states = [pl.col(self._hi).cast(pl.Int128), pl.col(self._lo).cast(pl.Int128) * _i128(lo_scale), n]
        if outliers is None:
            return Lifted(rows, groups, [*states, _none(self._wide)])
        rows.append(outliers.alias(self._wide))
        return Lifted(rows, [*groups, self._outliers.group()], [*states, self._outliers.lift()])

    def over(self, inner: Pao, states: pl.DataFrame) -> list[pl.Series | pl.Expr] | None:
        sums = _whole_sums(inner, states)
        if sums is None:
            return None
        units = pl.lit(sums.fill_null(0)) * _i128(_HI_UNIT)
        return [units.alias(self._hi), _zero(self._lo), _none(self._wide), _present(sums).alias(self._n)]

    def combine(self) -> list[pl.Expr]:
        return [pl.col(self._hi).sum(), pl.col(self._lo).sum(), self._outliers.combine(), pl.col(self._n).sum()]

    def additions(self, physical: pl.DataType) -> list[Addition] | None:
        count = Addition("values", (self._n,))
        if physical == pl.Float64:
            return [Addition("doubles", (self._hi, self._lo)), count]
        return [count] if physical == pl.Null else [Addition("units", (self._hi,)), count]

    def subtract(self) -> list[pl.Expr]:
        hi, lo, n = differences([self._hi, self._lo, self._n])
        return [hi, lo, self._outliers.subtract(), n]

    def whole(self) -> pl.Expr:
        hi, lo, wide = pl.col(self._hi), pl.col(self._lo), pl.col(self._wide)
        return (lo == 0) & wide.is_null() & (hi % _i128(_HI_UNIT) == 0)

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        if frame.select(self.whole().all()).item():
            units = frame.select(pl.col(self._hi) // _i128(_HI_UNIT)).to_series()
            return _null_where_empty(units, frame[self._n])
        return self._per(pl.lit(1, dtype=pl.Int64), frame)

    def _per(self, divisor: pl.Expr, frame: pl.DataFrame) -> pl.Series:
        """The sums divided by something that is not 0 where there is a value; NULL where there is none."""
        divisors = frame.select(divisor.alias("divisor"), self._n)["divisor"]
        results = nearest_double(frame[self._hi], frame[self._lo]) / divisors
        rare = frame[self._wide].is_not_null().arg_true()
        sums = frame.select(pl.col(self._hi, self._lo).fill_null(0), self._wide, divisors.fill_null(0))[rare]
        exact = [self._quotient(hi, lo, wide, divisor) for hi, lo, wide, divisor in sums.iter_rows()]
        return _null_where_empty(results.scatter(rare, exact), frame[self._n])

    def _quotient(self, hi: int, lo: int, wide: str, divisor: int) -> float:
        outliers = self._outliers.read(wide)
        if outliers.special is not None:
            return outliers.special
        units = ((hi * _LO_UNITS + lo) << UNIT_BITS - _LO_BITS) + outliers.powers[0]
        return quotient(units, max(1, divisor) << UNIT_BITS)


class NumberAverage(NumberSum):
    """AVG of numbers: the sum as a double, divided by n. Lowers to Float64."""

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return self._per(pl.col(self._n), frame)


def divided(values: pl.Series) -> tuple[pl.Series, pl.Series | None]:
    """The values that fixed point has room for, 0.0 in place of the others; and the others, NULL in place of
    these, or None if there are none.
    """
    ordinary = ((values.abs() >= _TINY) & (values.abs() < _HUGE)) | (values == 0)
    if ordinary.all():
        return values, None
    zero, null = pl.Series([0.0]), pl.Series([None], dtype=pl.Float64)
    return values.zip_with(ordinary, zero), null.zip_with(ordinary, values)


def fixed_point(values: pl.Series) -> tuple[pl.Series, pl.Series, int]:
    """Splits doubles that are 0 or of magnitude 2**-75 .. 2**63: whole units of 2**-32, the rest, and the
    rest's scale.

    `hi·2**-32 + lo·scale·2**-128` is the value, exactly. Both are Int64 if neither can overflow it when all
    values of the series are summed, else Int128. Scaling by a power of two and taking the fraction off are
    exact in doubles.
    """
    scaled = values * float(_HI_UNIT)
    greatest = scaled.abs().max()
    narrow = not isinstance(greatest, float) or greatest * len(values) < _INT64_LIMIT
    hi = scaled.cast(pl.Int64 if narrow else pl.Int128)
    rest = scaled - hi.cast(pl.Float64)
    narrow_rest = rest * float(_NARROW_LO_UNIT)
    if len(values) < _INT64_LIMIT // _NARROW_LO_UNIT and (narrow_rest == narrow_rest.floor()).all():
        return hi, narrow_rest.cast(pl.Int64), _LO_UNITS // _NARROW_LO_UNIT
    return hi, (rest * float(_LO_UNITS)).cast(pl.Int128), 1


def nearest_double(hi: pl.Series, lo: pl.Series) -> pl.Series:
    """The doubles nearest to `hi·2**-32 + lo·2**-128` (both Int128, |hi| < 2**126), ties to even. O(n).

    Converting an Int128 rounds once and correctly, and scaling by a power of two does not round. So it is
    enough to find an Int128 that rounds alike: the value in the finest unit that fits, and where bits are
    left below that unit, its last bit set (rounding to odd), which is exact as long as at least two more bits
    are kept than a double has.
    """
    carried = pl.DataFrame({"hi": hi, "lo": lo}).select(
        hi=pl.col("hi") + pl.col("lo") // _i128(_LO_UNITS),
        lo=pl.col("lo") % _i128(_LO_UNITS),  # floored, as the division: 0 <= lo < 2**96
    )
    hi_, lo_ = pl.col("hi"), pl.col("lo")
    fine = hi_ * _i128(2**96) + lo_
    medium = _to_odd(hi_ * _i128(2**64) + lo_ // _i128(2**32), lo_ % _i128(2**32) != 0)
    coarse = _to_odd(hi_, lo_ != 0)
    nearest = (
        pl.when(hi_.is_between(_i128(-(2**30)), _i128(2**30)))
        .then(fine.cast(pl.Float64) * 2.0**-128)
        .when(hi_.is_between(_i128(-(2**62)), _i128(2**62)))
        .then(medium.cast(pl.Float64) * 2.0**-96)
        .otherwise(coarse.cast(pl.Float64) * 2.0**-32)
    )
    return carried.select(nearest).to_series()


def _to_odd(value: pl.Expr, inexact: pl.Expr) -> pl.Expr:
    even = value % _i128(2) == 0
    return pl.when(inexact & even).then(value + _i128(1)).otherwise(value)


def _integer_sum(argument: pl.Series) -> pl.Expr:
    """The sum of an Int64 column, in Int64 unless the block's sum might not fit."""
    column = pl.col(argument.name)
    least, greatest = argument.min(), argument.max()
    magnitude = max(-least, greatest) if isinstance(least, int) and isinstance(greatest, int) else 0
    return (column if magnitude * len(argument) < _INT64_LIMIT else column.cast(pl.Int128)).sum()


def _null_where_empty(results: pl.Series, n: pl.Series) -> pl.Series:
    """SQL: the sum and the average of no value are NULL."""
    return results.set(n == 0, None)


def _whole_sums(inner: Pao, states: pl.DataFrame) -> pl.Series | None:
    """The results of counts or sums as Int128, NULL of no values; None where some are no whole numbers of 64 bits, and
    of other aggregates."""
    if isinstance(inner, CountRows):
        return inner.lower(states).cast(pl.Int128)
    if type(inner) not in (IntegerSum, NumberSum):
        return None
    sums = inner.lower(states)
    fits = sums.dtype == pl.Int128 and sums.cast(pl.Int64, strict=False).null_count() == sums.null_count()
    return sums if fits else None


def _present(values: pl.Series) -> pl.Series:
    """1 where there is a value, else 0."""
    return values.is_not_null().cast(pl.Int64)


def _zero(name: str, dtype: pl.DataType | None = None) -> pl.Expr:
    return pl.lit(0, dtype=dtype or pl.Int128()).alias(name)


def _none(name: str) -> pl.Expr:
    return pl.lit(None, dtype=pl.String).alias(name)


def _i128(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int128)
