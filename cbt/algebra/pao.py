"""The algebra of partial aggregation objects (PAOs), column-wise: lift, combine, lower.

A PAO is one key's mergeable state (paper, section 2.2). Here it is a row, and one aggregate's part of it a few *state
columns* named `{aggregate}.{part}`. `lift` makes states from a block of raw values, within the one group-by that the
block goes through anyway; `combine` merges the states of one key; `lower` turns states into results. Combining is
associative and commutative, so that it does not matter which agent has which events or in which order their trees
merge. Where an aggregate is invertible, `subtract` takes a part out again: a window's states are then an earlier
window's with panes added and taken off.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

LESS = ":less"  # ends the names of a subtrahend's state columns


class Lifted(NamedTuple):
    """Expressions that turn a block's raw values into states: `rows` beside the block's columns, `groups` inside the
    group-by, `states` over its result.

    The split keeps wide integers out of the group-by wherever the block's values provably fit narrow ones.
    """

    rows: list[pl.Series | pl.Expr]
    groups: list[pl.Expr]
    states: list[pl.Expr]


class Addition(NamedTuple):
    """An addition of one row of a block to its group's states: the kernel's operation, by name, and the state columns
    that it changes. The operations are listed in `cbt.native.library`.
    """

    operation: str
    states: tuple[str, ...]


class StateAlgebra(ABC):
    """The algebra of one aggregate's states, in the columns `state` (full name -> type): merging and subtracting."""

    state: dict[str, pl.DataType]
    sparse: tuple[str, ...] = ()
    """State columns in which NULL is neutral: merged with a state it leaves the state unchanged."""
    inputs: tuple[str, ...] = ()
    """Columns of a block that `lift`'s expressions read, besides the argument."""

    @abstractmethod
    def combine(self) -> list[pl.Expr]:
        """One aggregation for each state column, over the states of one identity: pane, key and, if any, item."""

    def subtract(self) -> list[pl.Expr] | None:
        """The states without a part of their events; None if the aggregate is not invertible.

        One expression for each state column, over a frame that also has the part's states, named with `:less`
        at the end. Exact: it gives the states of the events that are left. Where nothing is left, `n` is 0.

        >>> frame = pl.DataFrame({"hits.n": [5], "hits.n:less": [2]})
        >>> frame.select(CountRows("hits").subtract())["hits.n"].item()
        3
        """
        return None

    def whole(self) -> pl.Expr | None:
        """Whether a state's result is a whole number, for results that are whole in one frame and not in another."""
        return None


class Pao(StateAlgebra):
    """One aggregate's algebra over one row a key."""

    @abstractmethod
    def lift(self, argument: pl.Series) -> Lifted:
        """Expressions for a block whose argument column is `argument`; its physical type may differ from
        block to block.
        """

    @abstractmethod
    def lower(self, frame: pl.DataFrame) -> pl.Series:
        """The results of a frame of states; their type may depend on all of the frame's values."""

    def over(self, inner: "Pao", states: pl.DataFrame) -> list[pl.Series | pl.Expr] | None:  # noqa: ARG002 - of none
        """The states of this aggregate over the results of another one, `inner`, of one result each: what `lift` would
        make of them. None where it does not nest, or where only the results tell. O(n) over the frame of `inner`.
        """
        return None

    def additions(self, physical: pl.DataType) -> list[Addition] | None:  # noqa: ARG002 - of no type in general
        """`lift` and `combine` row by row, of an argument of this physical type; None if that is not possible.

        Doubles in it are 0 or of magnitude 2**-75 .. 2**63.
        """
        return None


class CountRows(Pao):
    """COUNT(*): one state `n`, Int64."""

    def __init__(self, name: str) -> None:
        self._n = f"{name}.n"
        self.state = {self._n: pl.Int64()}

    def lift(self, argument: pl.Series) -> Lifted:  # noqa: ARG002 - every row counts, whatever is in it
        return Lifted([], [pl.len().alias(self._n)], [pl.col(self._n).cast(pl.Int64)])

    def combine(self) -> list[pl.Expr]:
        return [pl.col(self._n).sum()]

    def subtract(self) -> list[pl.Expr]:
        return differences(self.state)

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return frame[self._n]

    def additions(self, physical: pl.DataType) -> list[Addition] | None:  # noqa: ARG002 - of every type
        return [Addition("rows", (self._n,))]


class CountValues(CountRows):
    """COUNT(x): values that are not NULL."""

    def lift(self, argument: pl.Series) -> Lifted:
        return Lifted([], [pl.col(argument.name).count().alias(self._n)], [pl.col(self._n).cast(pl.Int64)])

    def additions(self, physical: pl.DataType) -> list[Addition] | None:  # noqa: ARG002 - of every type
        return [Addition("values", (self._n,))]


def differences(columns: Iterable[str]) -> list[pl.Expr]:
    """`subtract` for states that are sums."""
    return [pl.col(name) - pl.col(name + LESS) for name in columns]
