"""Predictions where trees and their links are known, where processors are full, and where all of it was measured."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.latency import (
    AgentClass,
    Distribution,
    LinearCost,
    Measured,
    Phase,
    Setting,
    Subtree,
    anchored,
    predict,
    tree_of,
)
from query.latency.distribution import greatest, last_shares
from query.latency.setting import LEVELS_MAX

SECONDS = st.floats(0.001, 5.0)
NO_GRACE = Setting(grace=0.0)


@given(st.lists(st.tuples(SECONDS, SECONDS, st.integers(1, 50)), min_size=1, max_size=6))
def test_shares_of_being_last_add_up_and_follow_order(drawn: list[tuple[float, float, int]]) -> None:
    several = [(Distribution.uniform(min(a, b), max(a, b)), float(number)) for a, b, number in drawn]
    shares = last_shares(several)
    assert sum(shares) == pytest.approx(1)
    longest = greatest(several)
    for (one, _), share in zip(several, shares, strict=True):
        assert share >= 0
        if one.quantile(0.9999) < longest.offset:
            assert share < 1e-3


def test_the_last_of_draws_is_as_often_each_as_its_share_says() -> None:
    rng = np.random.default_rng(3)
    draws = np.stack([rng.uniform(0.0, 1.0, 40_000), rng.uniform(0.4, 0.9, (3, 40_000)).max(axis=0)])
    shares = last_shares([(Distribution.uniform(0.0, 1.0), 1.0), (Distribution.uniform(0.4, 0.9), 3.0)])
    assert shares[0] == pytest.approx((draws[0] > draws[1]).mean(), abs=0.03)


def test_trees_are_made_of_parents_and_agents_alike_count_once() -> None:
    tree = tree_of([0, 0, 0, 1, 1], [0, 0, 1, 0, 0], [0.0, 0.1, 0.1, 0.02, 0.02])
    assert dict(tree.agents) == {0: 4, 1: 1}
    assert tree.levels == 2
    assert tree.longest_way == pytest.approx(0.12, rel=0.03)
    ((leaf, number),) = next(child for child, _ in tree.children if child.children).children
    assert (number, leaf.way) == (2, pytest.approx(0.02, rel=0.02))
    with pytest.raises(ValueError, match="does not come before"):
        tree_of([0, 2, 0], [0, 0, 0], [0.0, 0.1, 0.1])


def test_the_longest_known_way_is_waited_for() -> None:
    """Three ways of 10 ms and one of 400: no draw among all four, but the long one, each time."""
    phases = {phase: Distribution.constant(0.01) for phase in Phase}
    ways = LinearCost(spread=0.02, pieces=1_000)
    known = Measured(
        pane=1.0,
        setting=NO_GRACE,
        classes=(AgentClass(5, 10.0, phases),),
        phases=phases,
        costs={Phase.UPLINK: ways, Phase.COMBINE: LinearCost(0.001, spread=0.1, pieces=1_000)},
        tree=tree_of([0] * 5, [0] * 5, [0.0, 0.01, 0.01, 0.01, 0.4]),
    )
    found = predict(NO_GRACE, known)
    assert found.phases[Phase.UPLINK].mean == pytest.approx(0.4, rel=0.03)
    assert found.mean == pytest.approx(0.4 + 9 * 0.01, rel=0.05)
    shorter = Subtree(0, ((Subtree(0, way=0.01), 4),))
    assert measured_mean(known, trees=1) < measured_mean(known, trees=2)
    assert predict(NO_GRACE, Measured(1.0, classes=known.classes, phases=phases, costs=known.costs, tree=shorter,
                                      setting=NO_GRACE)).mean < 0.2  # fmt: skip


@pytest.mark.parametrize("place", ["tree", "more_trees"])
@pytest.mark.parametrize(
    ("levels", "kind", "fault"), [(LEVELS_MAX + 1, 0, "65 levels"), (1, 1, "no class")], ids=["deep", "of no class"]
)
def test_trees_that_cannot_be_are_refused(place: str, levels: int, kind: int, fault: str) -> None:
    node = Subtree(kind)
    for _ in range(levels):
        node = Subtree(0, ((node, 1),))
    trees = {"tree": node} if place == "tree" else {"more_trees": [node]}
    with pytest.raises(ValueError, match=fault):
        Measured(pane=1.0, **trees)


def measured_mean(known: Measured, trees: int) -> float:
    return predict(Setting(grace=0.0, trees=trees), known).mean


@pytest.mark.parametrize(("cuts", "is_bounded"), [(1, True), (16, False)])
def test_cuts_that_no_agent_can_seal_have_no_bound(cuts: int, is_bounded: bool) -> None:
    seals = {Phase.SEAL: LinearCost(0.1, spread=0.1, pieces=1_000)}
    known = Measured(pane=1.0, classes=(AgentClass(4, 100.0, share=1.0),), costs=seals)
    found = predict(Setting(grace=0.0, cuts=cuts), known)
    assert (found.quantile < math.inf) is is_bounded
    assert is_bounded or found.binding is Phase.SEAL_WAIT


def test_what_was_measured_as_a_whole_is_predicted_again_and_carried_on() -> None:
    """Phases that are not independent are longer together than their sum: half as long again, and twice as wide."""
    known = Measured(pane=1.0, setting=NO_GRACE, classes=(AgentClass(4, 100.0),))
    plain = predict(NO_GRACE, known)
    lived = plain.distribution.scaled(2.0).shifted(-0.5 * plain.mean).assumed(500)
    told = anchored(known, lived)
    found = predict(NO_GRACE, told)
    assert found.mean == pytest.approx(1.5 * plain.mean, rel=0.02)
    assert found.quantile == pytest.approx(lived.quantile(0.99), rel=0.02)
    later = predict(Setting(grace=1.0), told)
    assert later.quantile == pytest.approx(1.0 + found.quantile, rel=0.02)
    assert later.distribution.quantile(0.001) >= 1.0
    few = predict(NO_GRACE, anchored(known, lived.assumed(20)))
    assert few.mean == pytest.approx(plain.mean)


def test_a_latency_that_cannot_be_changes_little() -> None:
    known = Measured(pane=1.0, setting=Setting(grace=0.5), classes=(AgentClass(4, 100.0),))
    for lived in (Distribution.constant(0.0), Distribution.constant(math.inf), Distribution.constant(3_000.0)):
        found = predict(Setting(grace=0.5), anchored(known, lived.assumed(1_000)))
        assert 0.5 < found.mean < 4.1 * predict(Setting(grace=0.5), known).mean
