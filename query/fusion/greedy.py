"""Algorithm 1 of Enorm (section 4.4.1) with both of its scores, and the baseline that it is measured against (7.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from query.fusion.graph import FusionGraph, Groups, Partitioning


def fused_by_rate(graph: FusionGraph) -> Partitioning:
    """The components of Algorithm 1 with score COMM: the two operators with the highest rate between them whose
    components have an attribute in common are fused, again and again.

    Common attributes only become fewer, so a pair that cannot be fused never can: one pass over the edges in descending
    order of rates is all it takes. O(edges · log edges).

    >>> fused_by_rate(FusionGraph((0b01, 0b11, 0b10), ((0, 1, 5.0), (1, 2, 9.0))))
    (0, 1, 1)
    """
    groups, common = Groups(len(graph.attributes)), list(graph.attributes)
    for upstream, downstream, rate in sorted(graph.edges, key=lambda edge: -edge[2]):
        one, other = groups.root(upstream), groups.root(downstream)
        if one != other and rate > 0 and common[one] & common[other]:
            common[groups.merge(one, other)] = common[one] & common[other]
    return groups.numbered()


def fused_by_attributes(graph: FusionGraph) -> Partitioning:
    """The components of Algorithm 1 with score PA, which needs no rates: the score of two components is the sum, over
    the attributes that they have in common, of the number of components that have it.

    O(operators · edges · attributes) at most, in numpy.

    >>> fused_by_attributes(FusionGraph((0b011, 0b111, 0b100), ((0, 1, 5.0), (1, 2, 9.0))))
    (0, 0, 1)
    """
    groups = Groups(len(graph.attributes))
    common = _bits(graph.attributes)
    ends = np.array([edge[:2] for edge in graph.edges], np.int64).reshape(-1, 2)
    while len(ends):
        shared = common[ends[:, 0]] * common[ends[:, 1]]
        scores = shared @ common.sum(axis=0)
        best = int(scores.argmax())
        if not scores[best]:
            break
        one, other = map(int, ends[best])
        kept = groups.merge(one, other)
        common[kept] = shared[best]
        common[other if kept == one else one] = 0
        ends = ends[scores > 0]
        ends[ends == (other if kept == one else one)] = kept
        ends = ends[ends[:, 0] != ends[:, 1]]
    return groups.numbered()


def _bits(attributes: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """A row for each operator, a column for each attribute: 1 where it has it. Sums are whole, and so are products."""
    width = max((one.bit_length() for one in attributes), default=0)
    return np.array([[one >> bit & 1 for bit in range(width)] for one in attributes], bool).reshape(
        len(attributes), width
    )


def fused_from_first(graph: FusionGraph, choose: Callable[[Sequence[int]], int]) -> Partitioning:
    """The components of the baseline of section 7.6: from an operator on, the downstream operator that has most
    attributes in common with the component is fused, until none has any; then it goes on with another operator.

    The first operator comes first; `choose` picks each next one of those that are not fused. O(operators · edges).

    >>> fused_from_first(FusionGraph((0b01, 0b11, 0b10), ((0, 1, 5.0), (1, 2, 9.0))), min)
    (0, 0, 1)
    """
    downstream: list[list[int]] = [[] for _ in graph.attributes]
    for one, other, _ in graph.edges:
        downstream[one].append(other)
    groups, left = Groups(len(graph.attributes)), list(range(len(graph.attributes)))
    while left:
        first = left[0] if len(left) == len(graph.attributes) else choose(left)
        left.remove(first)
        common, reached = graph.attributes[first], list(downstream[first])
        while found := [one for one in reached if one in left and graph.attributes[one] & common]:
            best = max(found, key=lambda one: (graph.attributes[one] & common).bit_count())
            groups.merge(first, best)
            left.remove(best)
            common &= graph.attributes[best]
            reached += downstream[best]
    return groups.numbered()
