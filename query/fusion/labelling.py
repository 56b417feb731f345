"""Fusion as a labelling: each operator picks one of its attributes, and rows between equal ones cost nothing.

A component needs one common attribute, no more. So the components with the least traffic between them are the connected
operators of equal labels, for the labels with the least rates between unequal ones: a multiway cut. Of a narrow graph,
as those of jobs are, it is found exactly (`elimination`). Otherwise Algorithm 1's components, whose common attributes
are labels, are made cheaper by one minimum cut after the other: each *expands* a label to the operators that gain by it
(Boykov, Veksler, Zabih), until none does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from query.fusion.elimination import cheapest_labels
from query.fusion.graph import FusionGraph, Groups, Partitioning, traffic_between
from query.fusion.greedy import fused_by_attributes, fused_by_rate
from query.fusion.min_cut import Network

STEPS_MAX = 150_000
"""Upper bound on the arcs that minimum cuts look at for one job: half of the 50 ms that planning may take."""
_STEPS_OF_EDGE = 3
"""Number of arcs that could be looked at in the time in which an edge becomes one."""
GAIN_MIN = 0.05
"""Least part of the traffic between the components in force by which other ones are to be better to replace them."""
_UNITS = 1 << 40
"""Total of all rates as whole numbers, so that cuts are exact."""


@dataclass(frozen=True, slots=True)
class Labelling:
    """The component of each operator, and whether planning ended before it found nothing better any more."""

    components: Partitioning
    is_cut_short: bool = False


def fused_by_labels(graph: FusionGraph, current: Partitioning | None = None, steps_max: int = STEPS_MAX) -> Labelling:
    """The components with the least traffic between them that can be found, which is never more than between those of
    Algorithm 1: with score COMM and, as long as no rates are known and all are equal, with either score.

    `current`: the components in force, which stay while others would save less than GAIN_MIN of the traffic between
    them, unless one has no attribute in common any more.

    >>> fused_by_labels(FusionGraph((0b01, 0b11, 0b10), ((0, 1, 5.0), (1, 2, 9.0)))).components
    (0, 1, 1)
    """
    choices = _choices(graph)
    found = cheapest_labels(graph, choices)
    cut_short = False
    if found is None:
        expansion = expanded(graph, steps_max)
        found, cut_short = expansion.labels, expansion.is_cut_short
    components = connected(graph, found)
    if (
        current is not None
        and common_labels(graph, current) is not None
        and traffic_between(graph, components) >= (1 - GAIN_MIN) * traffic_between(graph, current)
    ):
        return Labelling(current)
    return Labelling(components, cut_short)


def expanded(graph: FusionGraph, steps_max: int = STEPS_MAX) -> LabelExpansion:
    """The labels of Algorithm 1's components by score COMM, made better by minimum cuts, or where steps are left those
    that come of its components by score PA, if they are better. As long as all rates are equal both are tried.
    """
    by_rate = LabelExpansion(graph, fused_by_rate(graph), steps_max)
    if by_rate.is_cut_short and len({rate for *_, rate in graph.edges}) > 1:
        return by_rate
    by_attributes = LabelExpansion(graph, fused_by_attributes(graph), by_rate.steps_left)
    return min(by_rate, by_attributes, key=lambda one: traffic_between(graph, one.labels))


def connected(graph: FusionGraph, labels: Sequence[int]) -> Partitioning:
    """The components that labels make: operators of equal labels that edges connect. Nearly O(edges)."""
    groups = Groups(len(labels))
    for one, other, _ in graph.edges:
        if labels[one] == labels[other]:
            groups.merge(one, other)
    return groups.numbered()


def _choices(graph: FusionGraph) -> list[list[int]]:
    """The labels that each operator may have: attributes that it shares with a neighbour, or one of its own."""
    width = max((one.bit_length() for one in graph.attributes), default=0)
    choices = []
    for operator, near in enumerate(graph.neighbours):
        shared = graph.attributes[operator] & reduce(lambda all_, one: all_ | graph.attributes[one[0]], near, 0)
        choices.append([bit for bit in range(width) if shared >> bit & 1] or [width + operator])
    return choices


def common_labels(graph: FusionGraph, components: Partitioning) -> list[int] | None:
    """A label for each operator: the first common attribute of its component, or one of its own where it is alone and
    has none; None where a component has no attribute in common.

    >>> common_labels(FusionGraph((0b11, 0b10), ()), (0, 0)), common_labels(FusionGraph((0b01, 0b10), ()), (0, 0))
    ([1, 1], None)
    """
    members: dict[int, list[int]] = {}
    for operator, component in enumerate(components):
        members.setdefault(component, []).append(operator)
    width = max((one.bit_length() for one in graph.attributes), default=0)
    labels = [0] * len(components)
    for operators in members.values():
        common = reduce(and_, (graph.attributes[one] for one in operators))
        if not common and len(operators) > 1:
            return None
        for one in operators:
            labels[one] = (common & -common).bit_length() - 1 if common else width + one
    return labels


class LabelExpansion:
    """Labels that minimum cuts improve. Capacities are whole numbers: no rounding hides a gain, or feigns one."""

    def __init__(self, graph: FusionGraph, components: Partitioning, steps_max: int) -> None:
        labels = common_labels(graph, components)
        assert labels is not None, "Algorithm 1 fuses what has an attribute in common"
        self._attributes = graph.attributes
        total = sum(rate for *_, rate in graph.edges) or 1.0
        self._edges = [(one, other, round(rate / total * _UNITS)) for one, other, rate in graph.edges]
        self.steps_left = steps_max
        self.labels = labels
        self._improve(max((one.bit_length() for one in graph.attributes), default=0))

    @property
    def is_cut_short(self) -> bool:
        """Whether the steps were used up."""
        return self.steps_left <= 0

    def _improve(self, labels: int) -> None:
        """Expands each label in turn until none has gained anything since its last turn."""
        label, unchanged = 0, 0
        while unchanged < labels and not self.is_cut_short:
            unchanged = 0 if self._expand(label) else unchanged + 1
            label = (label + 1) % labels

    def _expand(self, label: int) -> bool:
        """Gives a label to all operators that may have it and gain by it together; whether any did."""
        able = [one for one, has in enumerate(self._attributes) if has >> label & 1 and self.labels[one] != label]
        nodes = {operator: node for node, operator in enumerate(able)}
        network, taking = Network(len(able)), [0] * len(able)
        for one, other, rate in self._edges:
            node, neighbour = nodes.get(one), nodes.get(other)
            saved = rate * (self.labels[one] != self.labels[other])
            if node is not None and neighbour is not None:
                # Both take it: nothing. One takes it: the rate. Neither does: as now.
                network.add_arc(node, neighbour, rate, rate - saved)
                taking[neighbour] -= saved
            elif node is not None:
                taking[node] += rate * (self.labels[other] != label) - saved
            elif neighbour is not None:
                taking[neighbour] += rate * (self.labels[one] != label) - saved
        for node, cost in enumerate(taking):
            network.add_terminals(node, max(cost, 0), max(-cost, 0))
        gain = -(network.minimum_cut() + sum(cost for cost in taking if cost < 0))
        self.steps_left -= network.steps + _STEPS_OF_EDGE * len(self._edges)
        for operator, node in nodes.items():
            if gain > 0 and network.beside_sink(node):
                self.labels[operator] = label
        return gain > 0
