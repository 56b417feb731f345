"""FIRST and LAST: the value of the earliest or the latest event that has one (NULL does not count).

Of several values at that very time FIRST takes the least and LAST the greatest, in the order of MIN and MAX, so
that it does not matter which agent's event is looked at first.
"""

import polars as pl

from cbt.extremes import Extreme
from cbt.kinds import KINDS_OF_TYPE, value_order
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
        self._order = value_order(name, KINDS_OF_TYPE[type_], latest=latest)

    def lift(self, argument: pl.Series) -> Lifted:
        (time,) = self.inputs
        values = self._values.lift(argument)
        timed = pl.when(pl.col(argument.name).is_not_null()).then(pl.col(time)).alias(self._time)
        parts = [group.meta.output_name() for group in values.groups]  # none or one: a block's values are of one kind
        groups = [self._edge(), *(self._winner(part, [pl.col(part)]) for part in parts)]
        return Lifted([*values.rows, timed], groups, [pl.col(self._time), *values.states])

    def combine(self) -> list[pl.Expr]:
        return [self._edge(), *(self._winner(part, self._order) for part in self._values.state)]

    def _edge(self) -> pl.Expr:
        return pl.col(self._time).max() if self._latest else pl.col(self._time).min()

    def _winner(self, part: str, order: list[pl.Expr]) -> pl.Expr:
        """This part of the group's first row by time, then in the order of values."""
        return pl.col(part).sort_by(self._time, *order, descending=self._latest, nulls_last=True).first()

    def whole(self) -> pl.Expr | None:
        return self._values.whole()

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return self._values.lower(frame)
