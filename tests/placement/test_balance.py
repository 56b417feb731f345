"""ELF's balance: steps lower what they are to lower, stop, and are few."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loads_of_tests import ROUNDING, any_loads, are_moves_of, zipf_loads

from agent.placement import NOBODY, BalanceOptions, GroupMove, PlacementLoads, flux_periods, plan_balance

EAGER = BalanceOptions(start=1.0, stop=1.0, gain_min=0.0)
OPTIONS = st.builds(
    BalanceOptions,
    start=st.floats(1.1, 2),
    stop=st.floats(1, 1.1),
    gain_min=st.floats(0, 0.1),
    floor=st.sampled_from([0.0, 0.0, 10.0]),
    moves_max=st.sampled_from([1, 2, 64]),
)


@given(any_loads(), OPTIONS)
def test_no_step_raises_variance_or_imbalance(loads: PlacementLoads, options: BalanceOptions) -> None:
    plan = plan_balance(loads, options)
    assert are_moves_of(plan.moves, loads)
    before = loads.moved(plan.handed_over)
    scale = before.work.max(initial=0.0) ** 2
    for step in plan.steps:
        after = before.moved(step.moves)
        assert after.variance <= before.variance + ROUNDING * scale
        assert after.imbalance <= before.imbalance * (1 + ROUNDING)
        assert step.gain > 0
        assert step.cost == pytest.approx(sum(loads.costs[move.group] for move in step.moves))
        before = after
    assert plan.after == pytest.approx(before.imbalance)


@given(any_loads(), OPTIONS)
def test_constant_load_comes_to_rest(loads: PlacementLoads, options: BalanceOptions) -> None:
    above = np.maximum(loads.work, 0).sum() + loads.groups.sum()
    least = max(options.gain_min, 1e-3) * max(loads.level, 1e-9)
    options = BalanceOptions(options.start, options.stop, max(options.gain_min, 1e-3), options.floor)
    steps = 0
    while (plan := plan_balance(loads, options)).moves:
        loads = loads.moved(plan.moves)
        steps += len(plan.steps)
        assert steps * least <= above * (1 + ROUNDING)
    assert plan_balance(loads, options).moves == []


@pytest.mark.parametrize("seed", range(10))
def test_loads_that_waver_move_nothing_more(seed: int) -> None:
    chance = np.random.default_rng(seed)
    loads = zipf_loads(4, seed)
    loads = loads.moved(plan_balance(loads).moves)
    assert loads.imbalance < 1.2
    for _ in range(50):
        wavering = PlacementLoads.of(loads.owners, loads.groups * chance.uniform(0.95, 1.05, 64), loads.others)
        assert plan_balance(wavering).moves == []


def test_nothing_moves_below_the_start_and_steps_go_on_to_the_stop() -> None:
    loads = PlacementLoads.of([0] * 12 + [1] * 8, [1.0] * 20, [0, 0])
    assert loads.imbalance == 1.2
    assert plan_balance(loads).moves == []
    plan = plan_balance(loads, BalanceOptions(start=1.15))
    assert (len(plan.moves), plan.before, plan.after) == (2, 1.2, 1.0)


def test_a_swap_is_found_where_no_single_move_helps() -> None:
    loads = PlacementLoads.of([0, 0, 1, 1], [7, 7, 5, 5], [0, 0])
    for group in range(4):
        taker = 1 - int(loads.owners[group])
        assert loads.moved([GroupMove(group, 1 - taker, taker)]).imbalance > loads.imbalance
    (step,) = plan_balance(loads, BalanceOptions(start=1.1)).steps
    assert step.moves == (GroupMove(0, 0, 1), GroupMove(2, 1, 0))
    assert loads.moved(step.moves).imbalance == 1


def test_of_groups_that_gain_as_much_the_cheapest_moves() -> None:
    loads = PlacementLoads.of([0, 0, 0, 0], [5, 5, 5, 5], [0, 0], costs=[3, 1, 2, 3])
    assert plan_balance(loads).moves == [GroupMove(1, 0, 1), GroupMove(2, 0, 1)]


def test_a_dear_group_moves_where_it_alone_helps() -> None:
    loads = PlacementLoads.of([0, 0], [5, 0.1], [0, 0], costs=[100, 1])
    assert plan_balance(loads, BalanceOptions(gain_min=0.05)).moves == []
    assert plan_balance(PlacementLoads.of([0, 0], [5, 5], [0, 0], costs=[100, 90])).moves == [GroupMove(1, 0, 1)]


@given(any_loads(equally_fast=True, settled=True))
def test_what_is_left_above_the_mark_no_move_or_swap_takes_off(loads: PlacementLoads) -> None:
    options = BalanceOptions(start=1.1, stop=1.0, gain_min=0.05)
    while (plan := plan_balance(loads, options)).moves:
        loads = loads.moved(plan.moves)
    if loads.imbalance <= options.start:
        return
    places = [(group, int(owner)) for group, owner in enumerate(loads.owners) if loads.groups[group]]
    moves = [[GroupMove(g, a, taker)] for g, a in places for taker in range(len(loads.others))]
    swaps = [[GroupMove(g, a, b), GroupMove(h, b, a)] for (g, a), (h, b) in product(places, repeat=2) if a != b]

    def above(one: PlacementLoads) -> float:
        return float(np.maximum(one.work - loads.level, 0).sum())

    least = min((above(loads.moved(step)) for step in moves + swaps), default=above(loads))
    assert least > above(loads) - options.gain_min * loads.level * (1 + 1e-6)


def test_a_hot_group_is_left_alone_and_told() -> None:
    loads = PlacementLoads.of([0, 0, 1], [90, 6, 4], [0, 0], hottest=[10, 0, 0])
    plan = plan_balance(loads)
    assert plan.moves == [GroupMove(1, 0, 1)]
    (heavy,) = plan.heavy
    assert (heavy.group, heavy.work, heavy.parts, heavy.by_rows) == (0, 90, 2, False)
    assert heavy.room == pytest.approx(52.5)
    assert plan_balance(loads.moved(plan.moves)).moves == []


def test_a_key_that_is_too_heavy_by_itself_is_split_by_rows() -> None:
    (heavy,) = plan_balance(PlacementLoads.of([0, 1, 2], [98, 1, 1], [0, 0, 0], hottest=[97, 0, 0])).heavy
    assert (heavy.parts, heavy.by_rows) == (3, True)


@given(any_loads(), OPTIONS)
def test_heavy_groups_are_those_that_fit_nowhere_and_their_parts_do(
    loads: PlacementLoads, options: BalanceOptions
) -> None:
    mark = max(options.stop * loads.level, options.floor)
    room = float((mark * loads.speeds - loads.others)[loads.available].max())
    heavy = {one.group: one for one in plan_balance(loads, options).heavy}
    for group, work in enumerate(loads.groups.tolist()):
        if group in heavy:
            assert work > room * (1 - ROUNDING)
            assert work / heavy[group].parts <= heavy[group].room * (1 + ROUNDING)
            assert work / max(heavy[group].parts - 1, 1) > room * (1 - ROUNDING)
        else:
            assert work <= room * (1 + ROUNDING) or not loads.groups.any()


@given(any_loads())
def test_groups_of_agents_that_leave_and_of_nobody_go_to_those_that_stay(loads: PlacementLoads) -> None:
    plan = plan_balance(loads, BalanceOptions(start=1e9))
    after = loads.moved(plan.moves)
    homeless = (loads.owners == NOBODY) | ~loads.available[loads.owners]
    assert {move.group for move in plan.handed_over} == set(np.flatnonzero(homeless & loads.movable).tolist())
    assert loads.available[after.owners[loads.movable]].all()
    assert plan.steps == ()


def test_groups_of_an_agent_that_leaves_are_spread() -> None:
    loads = PlacementLoads.of([0, 0, 0, 1, 2], [6, 3, 3, 1, 1], [0, 0, 0], available=[False, True, True])
    after = loads.moved(plan_balance(loads).moves)
    assert after.work.tolist() == [0, 7, 7]


def test_groups_without_load_are_dealt_evenly() -> None:
    plan = plan_balance(PlacementLoads.of([NOBODY] * 64, [0] * 64, [5, 0, 1, 0]))
    assert np.bincount([move.taker for move in plan.moves]).tolist() == [16, 16, 16, 16]
    assert (plan.before, plan.after, plan.heavy) == (1, 1, ())


def test_one_agent_keeps_everything() -> None:
    plan = plan_balance(PlacementLoads.of([0, 0, 0], [5, 1, 0], [3]), EAGER)
    assert (plan.moves, plan.heavy, plan.before) == ([], (), 1)


def test_an_agent_that_joins_is_given_its_share() -> None:
    loads = PlacementLoads.of([0] * 8 + [1] * 8, [1.0] * 16, [0, 0, 0])
    after = loads.moved(plan_balance(loads).moves)
    assert sorted(after.work.tolist()) == [5, 5, 6]


def test_an_agent_that_is_busy_with_other_jobs_is_relieved() -> None:
    loads = PlacementLoads.measured([0] * 4 + [1] * 4, [1.0] * 8, [10, 4])
    after = loads.moved(plan_balance(loads).moves)
    assert after.work.tolist() == [7, 7]


def test_an_agent_that_has_become_slow_is_relieved() -> None:
    loads = PlacementLoads.of([0] * 6 + [1] * 6, [1.0] * 12, [0, 0], speeds=[0.5, 1])
    after = loads.moved(plan_balance(loads).moves)
    assert after.work.tolist() == [4, 8]


def test_a_slow_agent_is_not_emptied_onto_a_fast_one_where_that_raises_the_variance() -> None:
    loads = PlacementLoads.of([0], [10], [0, 9_000], speeds=[1, 1_000])
    relieved = loads.moved([GroupMove(0, 0, 1)])
    assert relieved.imbalance < loads.imbalance
    assert relieved.variance > loads.variance
    assert plan_balance(loads, BalanceOptions(start=1.1)).moves == []


def test_a_slow_agent_is_not_given_what_makes_it_the_busiest() -> None:
    loads = PlacementLoads.of([0, 0], [989.5, 10.5], [0, 0], speeds=[100, 1])
    given_away = loads.moved([GroupMove(1, 0, 1)])
    assert given_away.variance < loads.variance
    assert given_away.imbalance > loads.imbalance
    assert plan_balance(loads, EAGER).moves == []


def test_a_group_that_was_handed_over_is_not_moved_on() -> None:
    loads = PlacementLoads.of([NOBODY, 0, 1, 1], [10, 5, 8, 1], [0, 0], movable=[True, False, True, True])
    assert plan_balance(loads).moves == [GroupMove(0, NOBODY, 0)]
    settled = loads.moved([GroupMove(0, NOBODY, 0)])
    assert plan_balance(settled).moves == [GroupMove(0, 0, 1), GroupMove(2, 1, 0)]


def test_nobody_is_relieved_below_the_floor() -> None:
    loads = PlacementLoads.of([0, 0, 1], [3, 3, 0], [0, 0])
    assert plan_balance(loads).moves == [GroupMove(0, 0, 1)]
    assert plan_balance(loads, BalanceOptions(floor=6)).moves == []


def test_groups_under_way_stay() -> None:
    loads = PlacementLoads.of([0, 0, 0, 0], [4, 3, 3, 2], [0, 0], movable=[False, True, True, False])
    assert {move.group for move in plan_balance(loads).moves} == {1, 2}


@pytest.mark.parametrize("agents", [8, 16])
def test_the_imbalance_that_flux_reaches_takes_half_of_its_moves(agents: int) -> None:
    theirs, ours = [], []
    for seed in range(100):
        before = after = zipf_loads(agents, seed)
        flux = 0
        for moves in flux_periods(before):
            after = after.moved(moves)
            flux += len(moves)
        reached = after.imbalance
        plan = plan_balance(before, BalanceOptions(start=reached, stop=reached, gain_min=0.0))
        assert plan.after <= reached * (1 + ROUNDING)
        theirs.append(flux)
        ours.append(len(plan.moves))
    assert np.mean(ours) <= 0.5 * np.mean(theirs)


@pytest.mark.parametrize(
    ("field", "value"),
    [("stop", 0.9), ("start", 1.0), ("gain_min", -1.0), ("floor", float("nan")), ("moves_max", -1)],
)
def test_bad_options_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{field} is "):
        BalanceOptions(**{field: value})
