"""Random jobs for fusion, and Algorithm 1 as the paper prints it, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from operator import and_

from hypothesis import strategies as st

from query.fusion.graph import FusionGraph


@st.composite
def graphs(draw: st.DrawFn, operators: int = 12, attributes: int = 5, *, empty: bool = True) -> FusionGraph:
    """Jobs of so many operators at most; rates are often equal, and sometimes 0."""
    count = draw(st.integers(1, operators))
    masks = draw(st.lists(st.integers(0 if empty else 1, 2**attributes - 1), min_size=count, max_size=count))
    pairs = [(one, other) for other in range(count) for one in range(other)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3 * count)) if pairs else []
    rate = st.one_of(st.integers(0, 4).map(float), st.floats(0, 100))
    return FusionGraph(tuple(masks), tuple((one, other, draw(rate)) for one, other in sorted(chosen)))


def common(graph: FusionGraph, operators: Sequence[int]) -> int:
    """The attributes that operators have in common."""
    return reduce(and_, (graph.attributes[one] for one in operators))


def members(components: Sequence[int]) -> list[list[int]]:
    """The operators of each component."""
    return [[one for one, has in enumerate(components) if has == number] for number in sorted(set(components))]


def algorithm_1(graph: FusionGraph, score: str) -> set[frozenset[int]]:
    """Lines 1 to 25 of Algorithm 1, with score COMM or PA."""
    fused = {one: frozenset([one]) for one in range(len(graph.attributes))}
    rates = {(one, other): rate for one, other, rate in graph.edges}

    def scored(i: int, j: int) -> float:
        if score == "COMM":
            return rates[i, j]
        shared = common(graph, [*fused[i], *fused[j]])
        return sum(
            sum(common(graph, list(component)) >> bit & 1 for component in set(fused.values()))
            for bit in range(shared.bit_length())
            if shared >> bit & 1
        )

    while True:
        max_score, src, dst = 0.0, -1, -1
        for i in range(len(graph.attributes)):
            for j in sorted(other for one, other in rates if one == i):
                if j in fused[i] or not common(graph, list(fused[i])) & common(graph, list(fused[j])):
                    continue
                if (found := scored(i, j)) > max_score:
                    max_score, src, dst = found, i, j
        if max_score <= 0:
            return set(fused.values())
        together = fused[src] | fused[dst]
        for one in together:
            fused[one] = together


def least_traffic(graph: FusionGraph) -> float:
    """The least traffic between components, of all labels that operators may have."""
    choices = [
        [bit for bit in range(mask.bit_length()) if mask >> bit & 1] or [-1 - operator]
        for operator, mask in enumerate(graph.attributes)
    ]
    return min(
        sum(rate for one, other, rate in graph.edges if labels[one] != labels[other]) for labels in product(*choices)
    )
