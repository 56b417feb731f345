"""The cheapest labels of a narrow graph, exactly: one operator after the other is eliminated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from query.fusion.graph import FusionGraph

CELLS_MAX = 1 << 17
"""Upper bound on the numbers in all tables of an elimination, about a quarter of the time that planning may take."""
Costs: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class _Table:
    """The costs of a part of the graph for all labels of some of its operators, one axis for each."""

    operators: tuple[int, ...]
    costs: Costs


@dataclass(frozen=True, slots=True)
class _Eliminated:
    """An operator, and the place of its best label for all labels of the others that it had to do with."""

    operator: int
    others: tuple[int, ...]
    best: np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def cheapest_labels(graph: FusionGraph, choices: Sequence[Sequence[int]]) -> list[int] | None:
    """A label for each operator, out of its choices, such that the rates between operators of different labels are the
    least possible in all; None where this takes more than CELLS_MAX numbers.

    >>> cheapest_labels(FusionGraph((0b01, 0b11, 0b10), ((0, 1, 5.0), (1, 2, 9.0))), ([0], [0, 1], [1]))
    [0, 1, 1]
    """
    order = _order(graph, choices)
    if order is None:
        return None
    tables = [_Table((one, other), _costs(choices[one], choices[other], rate)) for one, other, rate in graph.edges]
    eliminated = []
    for operator in order:
        own = [table for table in tables if operator in table.operators]
        tables = [table for table in tables if operator not in table.operators]
        gone, rest = _eliminate(operator, own, len(choices[operator]))
        eliminated.append(gone)
        tables.append(rest)
    places = [0] * len(choices)
    for gone in reversed(eliminated):
        places[gone.operator] = int(gone.best[tuple(places[one] for one in gone.others)])
    return [chosen[place] for chosen, place in zip(choices, places, strict=True)]


def _order(graph: FusionGraph, choices: Sequence[Sequence[int]]) -> list[int] | None:
    """Operators in the order in which each makes the smallest table next; None if tables grow too large."""
    near = [{other for other, _ in one} for one in graph.neighbours]
    sizes = [float(len(one)) for one in choices]
    left, order, cells = set(range(len(choices))), [], 0.0
    while left:
        cost, operator = min((_product(sizes, near[one]) * sizes[one], one) for one in left)
        cells += cost
        if cells > CELLS_MAX:
            return None
        for one in near[operator]:
            near[one] |= near[operator]
            near[one] -= {one, operator}
        left.remove(operator)
        order.append(operator)
    return order


def _product(sizes: Sequence[float], operators: set[int]) -> float:
    product = 1.0
    for one in operators:
        product *= sizes[one]
    return product


def _costs(labels: Sequence[int], others: Sequence[int], rate: float) -> Costs:
    return np.where(np.array(labels)[:, None] != np.array(others)[None, :], rate, 0.0)


def _eliminate(operator: int, tables: Sequence[_Table], choices: int) -> tuple[_Eliminated, _Table]:
    """The operator's best labels, and the costs with these, for all labels of the others in its tables."""
    others = sorted({one for table in tables for one in table.operators} - {operator})
    axes = (*others, operator)
    costs: Costs = np.zeros((1,) * len(others) + (choices,))
    for table in tables:
        costs = costs + _spread(table, axes)
    return _Eliminated(operator, tuple(others), costs.argmin(axis=-1)), _Table(tuple(others), costs.min(axis=-1))


def _spread(table: _Table, axes: tuple[int, ...]) -> Costs:
    """The costs of a table with an axis for each of these operators, in their order; of length 1 for other ones."""
    ordered = sorted(table.operators, key=axes.index)
    costs = table.costs.transpose([table.operators.index(one) for one in ordered])
    lengths = dict(zip(ordered, costs.shape, strict=True))
    return costs.reshape([lengths.get(one, 1) for one in axes])
