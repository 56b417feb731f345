"""The tree of deadlines answers as a list of all lots would, and Figure 5 is what the paper says."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.scheduling import CostClass, Lot, ScheduleTree


def lot(deadline: float, cost: float, events: int = 1) -> Lot:
    return Lot("job", "operator", deadline, CostClass.CHEAP, events, cost)


def tree_of(*lots: Lot) -> ScheduleTree:
    tree = ScheduleTree()
    for one in lots:
        tree.insert(one)
    return tree


def test_figure_5() -> None:
    """φ of the root, of the deadline 15, is 5: of 14 units of work 10 are due by 15."""
    tree = tree_of(lot(15, 3), lot(15, 1), lot(15, 2), lot(10, 2), lot(10, 2), lot(20, 4))
    assert tree.schedulable(5)
    assert not tree.schedulable(5.001)
    assert tree.cost == 14
    assert tree.min_unscheduled_group(6) == (15, 1)
    assert tree.min_unscheduled_group(7) == (10, 1)
    dearest = [tree.max_cost_in_groups(deadline) for deadline in (10, 15, 20)]
    assert [one and one.cost_s for one in dearest] == [2, 3, 4]


def test_an_empty_tree_has_nothing_to_say() -> None:
    tree = ScheduleTree()
    assert (tree.next(), tree.max_cost_in_groups(9), tree.min_unscheduled_group(9)) == (None, None, None)
    assert (tree.cost, tree.events, len(tree)) == (0, 0, 0)


def test_the_cheapest_of_the_first_deadline_is_next() -> None:
    dear, cheap = lot(10, 5), lot(10, 1)
    tree = tree_of(lot(20, 1), dear, cheap)
    assert tree.next() is cheap
    tree.delete(cheap)
    assert tree.next() is dear


def test_a_lot_is_in_a_tree_once() -> None:
    one = lot(10, 1)
    tree = tree_of(one)
    with pytest.raises(ValueError, match="in the tree already"):
        tree.insert(one)
    tree.delete(one)
    with pytest.raises(KeyError):
        tree.delete(one)


@pytest.mark.parametrize(("events", "cost", "deadline"), [(0, 1, 5), (1, 0, 5), (1, math.inf, 5), (1, 1, math.nan)])
def test_a_lot_without_events_costs_or_deadline_is_refused(events: int, cost: float, deadline: float) -> None:
    with pytest.raises(ValueError, match="a lot has events"):
        lot(deadline, cost, events)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "insert", "delete", "shrink"]),
        st.integers(0, 30),
        st.integers(1, 9),
        st.integers(1, 5),
    ),
    max_size=80,
)


@given(steps=STEPS, now=st.integers(-5, 60))
def test_it_answers_as_a_list_would(steps: list[tuple[str, int, int, int]], now: int) -> None:
    tree, lots = ScheduleTree(), list[Lot]()
    for step, number, cost, events in steps:
        if step == "insert" or not lots:
            lots.append(lot(number, cost, events))
            tree.insert(lots[-1])
        elif step == "delete":
            tree.delete(lots.pop(number % len(lots)))
        elif (one := lots[number % len(lots)]).events > 1:
            one.split_off(1)
            tree.shrunk(one, 1)
        check(tree, lots, now)


def check(tree: ScheduleTree, lots: list[Lot], now: int) -> None:
    assert list(tree) == lots
    assert tree.events == sum(one.events for one in lots)
    assert tree.cost == sum(one.cost for one in lots)
    deadlines = sorted({one.deadline for one in lots})
    due = {deadline: now + sum(one.cost for one in lots if one.deadline <= deadline) for deadline in deadlines}
    missed = next(((deadline, done - deadline) for deadline, done in due.items() if done > deadline), None)
    assert tree.min_unscheduled_group(now) == missed
    assert tree.schedulable(now) is (missed is None)
    for upto in (-1, *deadlines):
        found = tree.max_cost_in_groups(upto)
        some = [one for one in lots if one.deadline <= upto]
        assert tree.cost_in_groups(upto) == sum(one.cost for one in some)
        if found is None:
            assert some == []
        else:
            assert (-found.cost_s, found.deadline) == min((-one.cost_s, one.deadline) for one in some)
    first = tree.next()
    if lots:
        assert first is not None
        assert (first.deadline, first.cost_s) == min((one.deadline, one.cost_s) for one in lots)


@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
def test_it_stays_balanced(order: str) -> None:
    """An AVL tree of n nodes is at most 1.44 log2(n + 2) high: a thousand deadlines take fifteen steps."""
    deadlines = list(range(2_000))
    if order == "shuffled":
        Random(7).shuffle(deadlines)
    lots = [lot(deadline, 1) for deadline in (deadlines[::-1] if order == "descending" else deadlines)]
    tree = tree_of(*lots)
    for one in lots[::2]:
        tree.delete(one)
    assert tree._root is not None
    assert tree._root.height <= 1.44 * math.log2(1_002)
    tree = tree_of(*lots)
    while (one := tree.next()) is not None:
        tree.delete(one)
    assert tree.cost == 0
