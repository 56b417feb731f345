"""Fusion: Algorithm 1 is the paper's, the labelling is the best there is, and what both give are components."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_jobs import algorithm_1, common, graphs, least_traffic, members

from query.fusion.elimination import cheapest_labels
from query.fusion.graph import FusionGraph, traffic_between
from query.fusion.greedy import fused_by_attributes, fused_by_rate, fused_from_first
from query.fusion.labelling import GAIN_MIN, connected, expanded, fused_by_labels
from query.fusion.min_cut import Network


def by_labels(graph: FusionGraph) -> tuple[int, ...]:
    return fused_by_labels(graph).components


def from_first(graph: FusionGraph) -> tuple[int, ...]:
    return fused_from_first(graph, random.Random(7).choice)


def by_cuts(graph: FusionGraph) -> tuple[int, ...]:
    return connected(graph, expanded(graph).labels)


@settings(max_examples=150)
@given(graphs(10))
def test_algorithm_1_is_the_one_of_the_paper(graph: FusionGraph) -> None:
    assert set(map(frozenset, members(fused_by_rate(graph)))) == algorithm_1(graph, "COMM")
    assert set(map(frozenset, members(fused_by_attributes(graph)))) == algorithm_1(graph, "PA")


@pytest.mark.parametrize("fused", [fused_by_rate, fused_by_attributes, from_first, by_labels, by_cuts])
@settings(max_examples=80)
@given(graphs())
def test_each_operator_is_in_one_component_that_an_attribute_may_partition(fused, graph: FusionGraph) -> None:
    found = fused(graph)
    assert len(found) == len(graph.attributes)
    for operators in members(found):
        assert common(graph, operators) or len(operators) == 1
        reached, left = {operators[0]}, True
        while left:
            left = {other for one, other, _ in graph.edges if one in reached} | {
                one for one, other, _ in graph.edges if other in reached
            }
            left = (left & set(operators)) - reached
            reached |= left
        assert reached == set(operators)


@settings(max_examples=150)
@given(graphs(7, 4))
def test_no_labels_of_a_small_job_are_better(graph: FusionGraph) -> None:
    least = least_traffic(graph)
    assert traffic_between(graph, by_labels(graph)) == pytest.approx(least, abs=1e-9)


@settings(max_examples=150)
@given(graphs(14, 6), st.booleans())
def test_cuts_are_never_worse_than_algorithm_1(graph: FusionGraph, are_measured: bool) -> None:
    if not are_measured:
        graph = FusionGraph(graph.attributes, tuple((one, other, 1.0) for one, other, _ in graph.edges))
    scores = [fused_by_rate] if are_measured else [fused_by_rate, fused_by_attributes]
    greedy = min(traffic_between(graph, fused(graph)) for fused in scores)
    for found in (by_labels(graph), by_cuts(graph), fused_by_labels(graph, steps_max=1).components):
        assert traffic_between(graph, found) <= greedy + 1e-9 * sum(rate for *_, rate in graph.edges)


@settings(max_examples=100)
@given(graphs(10, 2))
def test_cuts_of_two_labels_are_exact(graph: FusionGraph) -> None:
    assert traffic_between(graph, by_cuts(graph)) == pytest.approx(least_traffic(graph), abs=1e-9)


def test_cuts_are_within_a_hundredth_of_the_best_where_that_is_known() -> None:
    draw, found, least = random.Random(11), 0.0, 0.0
    for _ in range(40):
        masks = tuple(draw.randrange(1, 32) for _ in range(12))
        edges = tuple((one, one + step, draw.random()) for one in range(10) for step in (1, 2))
        graph = FusionGraph(masks, edges)
        exact = cheapest_labels(graph, [[bit for bit in range(5) if mask >> bit & 1] for mask in masks])
        assert exact is not None
        found += traffic_between(graph, by_cuts(graph))
        least += traffic_between(graph, connected(graph, exact))
    assert least <= found <= 1.01 * least


@settings(max_examples=100)
@given(graphs(7, 3, empty=False))
def test_a_minimum_cut_is_the_cheapest_of_all(graph: FusionGraph) -> None:
    count = len(graph.attributes)
    terminals = [(mask, 5 - mask) for mask in graph.attributes]
    arcs = [(one, other, round(rate), round(rate) // 2) for one, other, rate in graph.edges]
    network = Network(count)
    for node, (beside_sink, beside_source) in enumerate(terminals):
        network.add_terminals(node, beside_sink, max(beside_source, 0))
    for arc in arcs:
        network.add_arc(*arc)

    def cost(sinks: set[int]) -> int:
        ends = sum(one if node in sinks else max(other, 0) for node, (one, other) in enumerate(terminals))
        ways = sum(rate * (one not in sinks and other in sinks) + back * (one in sinks and other not in sinks)
                   for one, other, rate, back in arcs)  # fmt: skip
        return ends + ways

    cheapest = min(cost({node for node in range(count) if places >> node & 1}) for places in range(2**count))
    assert network.minimum_cut() == cheapest
    assert cost({node for node in range(count) if network.beside_sink(node)}) == cheapest


def test_two_labels_are_cut_where_it_is_cheapest() -> None:
    chain = FusionGraph((0b01, 0b11, 0b11, 0b10), ((0, 1, 9.0), (1, 2, 2.0), (2, 3, 5.0)))
    assert by_labels(chain) == by_cuts(chain) == (0, 0, 1, 1)


def test_components_in_force_stay_until_others_are_worth_it() -> None:
    def chain(first: float, second: float) -> FusionGraph:
        return FusionGraph((0b01, 0b11, 0b10), ((0, 1, first), (1, 2, second)))

    now = by_labels(chain(10, 5))
    assert now == (0, 0, 1)
    assert fused_by_labels(chain(10, 10 * (1 + GAIN_MIN / 2)), now).components == now
    assert fused_by_labels(chain(10, 20), now).components == (0, 1, 1)


def test_components_in_force_go_where_their_attribute_is_gone() -> None:
    changed = FusionGraph((0b01, 0b10, 0b10), ((0, 1, 10.0), (1, 2, 1.0)))
    assert fused_by_labels(changed, (0, 0, 1)).components == (0, 1, 1)


def test_planning_that_has_no_steps_left_says_so() -> None:
    draw = random.Random(5)
    masks = tuple(draw.randrange(1, 2**20) for _ in range(40))
    edges = tuple((one, other, draw.random()) for one in range(20) for other in range(20, 40))
    graph = FusionGraph(masks, edges)
    short, whole = fused_by_labels(graph, steps_max=500), fused_by_labels(graph)
    assert (short.is_cut_short, whole.is_cut_short) == (True, False)
    assert traffic_between(graph, whole.components) < traffic_between(graph, short.components)
    assert traffic_between(graph, short.components) <= traffic_between(graph, fused_by_rate(graph))


@pytest.mark.parametrize("edge", [(0, 2, 1.0), (0, 1, -1.0), (1, 1, 1.0), (0, 1, float("nan"))])
def test_a_graph_that_is_none_is_refused(edge: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match="operator"):
        FusionGraph((1, 1), (edge,))
