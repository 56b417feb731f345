"""Loads of groups and agents: what is derived from them, and what is refused."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from loads_of_tests import any_loads

from agent.placement import NOBODY, GroupMove, PlacementLoads


def test_an_agent_has_the_work_of_its_groups_and_of_others() -> None:
    loads = PlacementLoads.of([0, 0, 2, NOBODY], [1, 2, 4, 8], [10, 20, 30])
    assert loads.work.tolist() == [13, 20, 34]


def test_measured_work_of_agents_holds_that_of_their_groups() -> None:
    loads = PlacementLoads.measured([0, 1], [3, 5], [10, 4])
    assert loads.others.tolist() == [7, 0]
    assert loads.work.tolist() == [10, 5]


def test_the_level_fills_agents_up_evenly() -> None:
    assert PlacementLoads.of([0, 0], [6, 2], [0, 4]).level == 6
    assert PlacementLoads.of([0, 0], [6, 2], [0, 100]).level == 8
    assert PlacementLoads.of([0, 0], [6, 3], [0, 0], speeds=[2, 1]).level == 3
    assert PlacementLoads.of([0, 0], [6, 3], [0, 0], available=[True, False]).level == 9


@given(any_loads())
def test_the_level_is_that_at_which_the_room_of_agents_is_the_work_of_groups(loads: PlacementLoads) -> None:
    room = np.maximum(loads.level * loads.speeds - loads.others, 0)[loads.available].sum()
    if loads.groups.any():
        assert room == pytest.approx(loads.groups.sum(), rel=1e-6, abs=1e-6 * loads.work.sum())
    else:
        assert loads.level == 0


@given(any_loads(settled=True))
def test_no_placement_is_better_balanced_than_the_level(loads: PlacementLoads) -> None:
    owners = np.unique(loads.owners[loads.groups > 0])
    highest = max(loads.loads[owners], default=loads.level)
    assert highest >= loads.level * (1 - 1e-9)
    assert loads.imbalance >= 1


def test_an_agent_that_is_busy_with_others_alone_is_no_imbalance() -> None:
    assert PlacementLoads.of([0, 1], [5, 5], [0, 0, 100]).imbalance == 1
    assert PlacementLoads.of([0, 2], [5, 5], [0, 0, 100]).imbalance == 105 / 5


def test_nothing_to_do_is_balanced() -> None:
    for loads in (PlacementLoads.of([], [], [3, 4]), PlacementLoads.of([0, 0], [0, 0], [1, 0])):
        assert (loads.level, loads.imbalance) == (0, 1)


def test_moves_change_owners_alone() -> None:
    before = PlacementLoads.of([0, 0], [2, 3], [1, 1])
    after = before.moved([GroupMove(1, 0, 1)])
    assert after.work.tolist() == [3, 4]
    assert before.work.tolist() == [6, 1]


@pytest.mark.parametrize("field", ["groups", "others", "costs", "speeds", "hottest"])
@pytest.mark.parametrize("value", [-1.0, nan, inf])
def test_bad_numbers_are_refused_by_name(field: str, value: float) -> None:
    given_amounts = {"groups": [1.0, 1.0], "others": [1.0, 1.0]} | {field: [1.0, value]}
    with pytest.raises(ValueError, match=rf"^{field}\[1\] is "):
        PlacementLoads.of([0, 1], **given_amounts)


@pytest.mark.parametrize("field", ["groups", "costs", "speeds", "movable", "available", "hottest"])
def test_lists_of_another_length_are_refused_by_name(field: str) -> None:
    given_amounts = {"groups": [1.0, 1.0], "others": [1.0, 1.0, 1.0]} | {field: [1.0]}
    with pytest.raises(ValueError, match=rf"^{field} has the shape \(1,\)"):
        PlacementLoads.of([0, 1], **given_amounts)


@pytest.mark.parametrize("owner", [-2, 2])
def test_an_owner_that_is_no_agent_is_refused(owner: int) -> None:
    with pytest.raises(ValueError, match=r"^owners: each is a place among 2 agents"):
        PlacementLoads.of([owner], [1], [0, 0])


def test_no_agent_is_refused() -> None:
    for agents in (0, 2):
        with pytest.raises(ValueError, match=r"^available: there is no agent"):
            PlacementLoads.of([], [], [0] * agents, available=[False] * agents)


@pytest.mark.parametrize("field", ["costs", "speeds"])
def test_what_is_divided_by_is_not_nothing(field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field}\[0\] is 0"):
        PlacementLoads.of([0], [1], [0], **{field: [0]})


def test_a_measured_agent_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^agents\[0\] is nan"):
        PlacementLoads.measured([0], [1], [nan])
