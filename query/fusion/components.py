"""The components of a job: its operators, and where each runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf, prod
from operator import and_
from types import MappingProxyType
from typing import Literal, TypeAlias

from query.fusion.graph import Edge, FusionGraph, Partitioning
from query.fusion.labelling import fused_by_labels
from query.operators.operator import OPERATORS_MAX, Attribute, DataOperator, OperatorGraph
from query.operators.tracing import least

Place: TypeAlias = Literal["agents", "owners", "one"]
"""Beside every agent, cut by place; at the owners of key groups; in one partition, which is at the master."""
Rates: TypeAlias = Mapping[str, float]
"""Rows in a second that each operator gives, by its name."""


@dataclass(frozen=True, slots=True)
class FusedComponent:
    """Operators between which no row leaves its agent. `attributes` say the partition of a row; () for any, or one.
    `owners`: the number of those who share the keys; one is the master, unless some of its keys have been moved."""

    operators: tuple[str, ...]
    place: Place
    attributes: Attribute
    owners: int = 1

    @property
    def is_at_master(self) -> bool:
        """Whether the master runs it, unless keys are moved to other owners."""
        return self.place == "one" or (self.place == "owners" and self.owners == 1)


@dataclass(frozen=True, slots=True)
class FusedJob:
    """The components of a job. `between`: each operator that is read from another component, and its reader. `note`: a
    remark for people where planning has ended early, or "".
    """

    components: tuple[FusedComponent, ...]
    between: tuple[tuple[str, str], ...]
    note: str = ""


def fused_job(
    graph: OperatorGraph,
    rates: Rates = MappingProxyType({}),
    *,
    owners: int = 1,
    cardinalities: Mapping[Attribute, int] = MappingProxyType({}),
    splits: bool = True,
    current: FusedJob | None = None,
) -> FusedJob:
    """The components with the least traffic between them. A function of the rates, so each period may fuse anew:
    `current`, the components in force, stay where others gain too little.

    Any operator may be in one partition, but for those beside agents, and those that merge what comes from there: these
    are for owners of keys to share. As long as a rate is not measured, all are taken to be equal. An attribute with
    fewer values than `owners` fuses nothing; `cardinalities` are the known numbers of values. `splits`: the operators
    beside agents are a component of their own, cut by place (Enorm, Figure 4); otherwise they are fused like others
    (Figure 2), which ships every event.
    """
    free = tuple(one for one in graph.operators if not (splits and one.is_placed))
    masks = _Masks(free, graph.gathering, owners, cardinalities)
    if len(graph.operators) > OPERATORS_MAX:
        note = f"not planned: {len(graph.operators):,} operators, and at most {OPERATORS_MAX} are planned"
        fused = masks.components(masks.unplanned)
    else:
        found = fused_by_labels(FusionGraph(masks.masks, _rated(graph, free, rates)), _in_force(free, current))
        note = "planning ended early: other components may save more" if found.is_cut_short else ""
        fused = masks.components(found.components)
    placed = tuple(one.name for one in graph.operators if splits and one.is_placed)
    components = (*([FusedComponent(placed, "agents", ())] if placed else []), *fused)
    where = {name: number for number, one in enumerate(components) for name in one.operators}
    between = tuple(edge for edge in graph.edges if where[edge[0]] != where[edge[1]])
    return FusedJob(components, between, note)


def _rated(graph: OperatorGraph, operators: Sequence[DataOperator], rates: Rates) -> tuple[Edge, ...]:
    """The edges between these operators with their rates, which are 1 for all where one is not known."""
    numbers = {one.name: number for number, one in enumerate(operators)}
    edges = [(one, other) for one, other in graph.edges if one in numbers and other in numbers]
    known = all(read in rates for read, _ in edges)
    return tuple(sorted((numbers[one], numbers[other], rates[one] if known else 1.0) for one, other in edges))


def _in_force(operators: Sequence[DataOperator], current: FusedJob | None) -> Partitioning | None:
    """The components in force as those of these operators; None where one is new."""
    if current is None:
        return None
    where = {name: number for number, one in enumerate(current.components) for name in one.operators}
    return tuple(where[one.name] for one in operators) if all(one.name in where for one in operators) else None


class _Masks:
    """The partition attributes of operators as bits: one for each attribute with enough values, and one for a single
    partition, which all may have but those beside agents and those that gather what comes from there, unless no
    attribute may partition them. A map has all."""

    def __init__(
        self,
        operators: Sequence[DataOperator],
        gathering: frozenset[str],
        owners: int,
        cardinalities: Mapping[Attribute, int],
    ) -> None:
        self._operators = operators
        self._shared = {one.name for one in operators if one.is_placed} | gathering
        known = sorted({one for operator in operators for one in operator.attributes or ()}, key=repr)
        self._attributes = [one for one in known if _values(one, cardinalities) >= owners]
        self._bits = {one: 1 << bit for bit, one in enumerate(self._attributes, start=1)}
        self.masks = tuple(map(self._mask, operators))

    def _mask(self, operator: DataOperator) -> int:
        if operator.attributes is None:
            return (2 << len(self._attributes)) - 1
        may_be_one = not operator.attributes or operator.name not in self._shared
        return sum(self._bits.get(one, 0) for one in operator.attributes) | may_be_one

    @property
    def unplanned(self) -> Partitioning:
        """The components where whatever may be in one partition is."""
        alone = len(self.masks)
        return tuple(alone if mask & 1 else one for one, mask in enumerate(self.masks))

    def components(self, found: Partitioning) -> list[FusedComponent]:
        """The components of the operators, where those that are partitioned alike are one, if they share an owner: with
        several, each query has its own."""
        members: dict[int, list[int]] = {}
        for operator, component in enumerate(found):
            members.setdefault(component, []).append(operator)
        alike: dict[object, list[int]] = {}
        for number, operators in members.items():
            common = reduce(and_, (self.masks[one] for one in operators))
            is_alike = common and self._owners(operators) == 1
            alike.setdefault(self._partition(operators, common) if is_alike else number, []).extend(operators)
        return [self.component(sorted(operators)) for operators in alike.values()]

    def component(self, operators: Sequence[int]) -> FusedComponent:
        """The component of these operators."""
        place, attributes = self._partition(operators, reduce(and_, (self.masks[one] for one in operators)))
        names = tuple(self._operators[one].name for one in operators)
        return FusedComponent(names, place, attributes, self._owners(operators))

    def _owners(self, operators: Sequence[int]) -> int:
        return max(self._operators[one].owners for one in operators)

    def _partition(self, operators: Sequence[int], common: int) -> tuple[Place, Attribute]:
        """The place of operators and the least expressions that say all that they have in common."""
        if common == 1:
            return "one", ()
        if all(self._operators[one].attributes is None for one in operators):
            return "owners", ()
        shared = [one for one, bit in self._bits.items() if common & bit]
        return "owners", least(shared or self._operators[operators[0]].attributes or ())


def _values(attribute: Attribute, cardinalities: Mapping[Attribute, int]) -> float:
    """Upper bound on the number of values of an attribute: as counted, or the product of those of its parts."""
    parts = prod(cardinalities.get((one,), inf) for one in attribute)
    return min(parts, cardinalities.get(attribute, inf))
