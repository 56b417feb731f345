"""Looks for examples that break the algebra of a PAO: a check for authors of user-defined functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise

import polars as pl

from cbt.aggregates.user_code import UserDefinedPao, attempt
from cbt.algebra.pao import LESS, Pao

_PARTS = (2, 3, 5, 7)
_RELATIVE_ERROR = 5e-15  # of two doubles that have the same 15 digits
_ARGUMENT = "argument"


class AlgebraError(Exception):
    """A PAO's result depends on how events are distributed among agents; the message gives an example."""


def check_algebra(pao: Pao, values: pl.Series, **inputs: pl.Series) -> None:
    """Raises AlgebraError if some way to distribute these values among agents, or to merge their states, changes the
    result.

    `values` is an argument column in a physical form of its type, NULL among them, the more telling the better;
    `inputs` has the columns that the PAO names in `inputs`. The values are distributed among two, three, five and seven
    agents; states are merged in several orders, and subtracted if they can be. States are the same if their results
    are, and doubles if their 15 digits are. Finding no example proves nothing. Raises UserDefinedError for code that
    fails. O(n) for n values.

    >>> from cbt.aggregates.sums import NumberSum
    >>> check_algebra(NumberSum("total"), pl.Series([0.1, 1e300, None, -1e300, 3.0]))
    """
    block = pl.DataFrame({_ARGUMENT: values, **inputs})
    if block.is_empty():
        return
    whole = _lift(pao, block)
    for parts in _PARTS:
        states = [_lift(pao, block.gather_every(parts, part)) for part in range(min(parts, block.height))]
        for how, state in _merged(pao, states):
            _compare(pao, f"{parts} agents' values merged {how}", state, "lifted at once", whole)
        for left, right in pairwise(states):
            _check_pair(pao, left, right)


def _merged(pao: Pao, states: Sequence[pl.DataFrame]) -> Iterator[tuple[str, pl.DataFrame]]:
    yield "together", _combine(pao, states)
    yield "together, backwards", _combine(pao, states[::-1])
    yield "one by one from the first", reduce(lambda left, right: _combine(pao, [left, right]), states)
    yield "one by one from the last", reduce(lambda right, left: _combine(pao, [left, right]), states[::-1])


def _check_pair(pao: Pao, left: pl.DataFrame, right: pl.DataFrame) -> None:
    both = _combine(pao, [left, right])
    _compare(pao, "two states merged", both, "the other way round", _combine(pao, [right, left]))
    differences = pao.subtract()
    if differences is not None:
        pair = pl.concat([both, right.rename(lambda name: name + LESS)], how="horizontal")
        rest = attempt([pao], "subtract", lambda _: pair.select(differences))
        _compare(pao, "a state added and taken off again", rest, "the state", left)


def _lift(pao: Pao, block: pl.DataFrame) -> pl.DataFrame:
    lifted = pao.lift(block[_ARGUMENT])
    key = pl.lit(0).alias("key")

    def states(_: Sequence[Pao]) -> pl.DataFrame:
        return block.with_columns(lifted.rows).group_by(key).agg(lifted.groups).select("key", *lifted.states)

    return attempt([pao], "lift", states).select(*pao.state)


def _combine(pao: Pao, states: Sequence[pl.DataFrame]) -> pl.DataFrame:
    every = pl.concat(states)
    key = pl.lit(0).alias("key")
    return attempt([pao], "combine", lambda _: every.group_by(key).agg(pao.combine())).select(*pao.state)


def _compare(pao: Pao, what: str, left: pl.DataFrame, other: str, right: pl.DataFrame) -> None:
    if left.equals(right):
        return
    results = pao.lower(left).item(), pao.lower(right).item()
    if _alike(*results):
        return
    name = f"function {pao.function!r}" if isinstance(pao, UserDefinedPao) else type(pao).__name__
    states = f"states {left.row(0)!r} and {right.row(0)!r}"
    raise AlgebraError(f"{name}: {what} gives {results[0]!r}, {other} {results[1]!r} ({states})")


def _alike(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=_RELATIVE_ERROR) or (math.isnan(left) and math.isnan(right))
    return left == right
