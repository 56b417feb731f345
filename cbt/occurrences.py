"""FIRST and LAST: the value of the earliest or the latest event that has one (NULL does not count).

Of several values at that very time FIRST takes the least and LAST the greatest, in the order of MIN and MAX, so
that it does not matter which agent's event is looked at first.
"""

import polars as pl

from cbt.extremes import Extreme, extreme
from cbt.pao import Lifted, Pao


class Occurrence(Pao):
    """FIRST or LAST by the block's column `time` (Int64 without NULL): states `t` Int64, the time, and those of an
    `Extreme` of the values at that time. Lowers as an `Extreme` does.
    """

    def __init__(self, name: str, type_: str, *, latest: bool, time: str = "time") -> None:
        self._latest, self._time = latest, f"{name}.t"
        self._values = Extreme(name, type_, greatest=latest)
        self.inputs = (time,)
        self.state = {self._time: pl.Int64(), **self._values.state}

    def lift(self, argument: pl.Series) -> Lifted:
        (time,) = self.inputs
        values = self._values.lift(argument)
        timed = pl.when(pl.col(argument.name).is_not_null()).then(pl.col(time)).alias(self._time)
        groups = [self._latest_or_earliest(), *(self._of_one_kind(group.meta.output_name()) for group in values.groups)]
        return Lifted([*values.rows, timed], groups, [pl.col(self._time), *values.states])

    def combine(self) -> list[pl.Expr]:
        parts = self._values.state
        if len(parts) == 1:
            return [self._latest_or_earliest(), *map(self._of_one_kind, parts)]
        return [self._latest_or_earliest(), *(self._of_kind(part, dtype) for part, dtype in parts.items())]

    def _latest_or_earliest(self) -> pl.Expr:
        return extreme(pl.col(self._time), pl.Int64(), greatest=self._latest)

    def _of_one_kind(self, part: str) -> pl.Expr:
        # The same as `_of_kind` where every value is of this kind, and four times as fast for small groups.
        return pl.col(part).sort_by(self._time, part, descending=self._latest, nulls_last=True).first()

    def _of_kind(self, part: str, dtype: pl.DataType) -> pl.Expr:
        at_that_time = pl.col(part).filter(pl.col(self._time) == self._latest_or_earliest())
        return extreme(at_that_time, dtype, greatest=self._latest)

    def whole(self) -> pl.Expr | None:
        return self._values.whole()

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return self._values.lower(frame)
