"""The graph that fusion works on: operators with the attributes they may be partitioned by, and rates between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

Edge: TypeAlias = tuple[int, int, float]
"""Number of an operator, of one downstream of it, and the rate of rows between them."""
Partitioning: TypeAlias = tuple[int, ...]
"""Number of the component of each operator, from 0 in the order of their first operators."""


@dataclass(frozen=True, slots=True)
class FusionGraph:
    """Operators by their numbers. `attributes`: the partition attributes PA of each, a bit for each attribute; 0 is an
    operator that fuses with none. `edges`: each pair of operators once, in the order of the operators.
    """

    attributes: tuple[int, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        """Raises ValueError for an edge to an operator that is not there, or a rate below 0."""
        for upstream, downstream, rate in self.edges:
            if not (min(upstream, downstream) >= 0 and max(upstream, downstream) < len(self.attributes)):
                raise ValueError(f"there is no operator {max(upstream, downstream)}")
            if not rate >= 0 or upstream == downstream:
                raise ValueError(f"{rate} rows from operator {upstream} to {downstream} are no traffic")

    @property
    def neighbours(self) -> list[list[tuple[int, float]]]:
        """The operators at the other ends of each operator's edges, with the rates. O(operators + edges)."""
        found: list[list[tuple[int, float]]] = [[] for _ in self.attributes]
        for upstream, downstream, rate in self.edges:
            found[upstream].append((downstream, rate))
            found[downstream].append((upstream, rate))
        return found


class Groups:
    """Disjoint groups of operators, which are merged (union-find). Nearly O(1) for each step.

    >>> groups = Groups(3)
    >>> groups.merge(0, 2), groups.root(2), groups.numbered()
    (0, 0, (0, 1, 0))
    """

    def __init__(self, operators: int) -> None:
        self._parents = list(range(operators))

    def root(self, operator: int) -> int:
        """The operator that stands for the group of this one."""
        parents = self._parents
        while (parent := parents[operator]) != operator:
            parents[operator] = operator = parents[parent]
        return operator

    def merge(self, one: int, other: int) -> int:
        """Merges the groups of two operators; gives the operator that stands for the new one."""
        first, second = self.root(one), self.root(other)
        self._parents[second] = first
        return first

    def numbered(self) -> Partitioning:
        """The number of each operator's group."""
        numbers: dict[int, int] = {}
        return tuple(numbers.setdefault(self.root(one), len(numbers)) for one in range(len(self._parents)))


def traffic_between(graph: FusionGraph, components: Sequence[int]) -> float:
    """The rate of rows that go from a component to another one. O(edges)."""
    return sum(rate for one, other, rate in graph.edges if components[one] != components[other])


def has_circle(graph: FusionGraph, components: Sequence[int]) -> bool:
    """Whether components send rows to each other in a circle. O(operators + edges).

    >>> has_circle(FusionGraph((1, 2, 1), ((0, 1, 5.0), (1, 2, 5.0), (0, 2, 9.0))), (0, 1, 0))
    True
    """
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for one, other, _ in graph.edges:
        if components[one] != components[other]:
            sorter.add(components[other], components[one])
    try:
        sorter.prepare()
    except CycleError:
        return True
    return False
