"""Flux as it is published, step by step."""

import numpy as np
from hypothesis import given
from loads_of_tests import ROUNDING, any_loads, are_moves_of, zipf_loads

from agent.placement import GroupMove, PlacementLoads, flux_moves, flux_periods


def test_the_first_gives_to_the_last_and_the_second_to_the_second_last() -> None:
    loads = PlacementLoads.of([0, 0, 1, 1, 2, 3], [9, 8, 5, 6, 3, 1], [0, 0, 0, 0])
    assert flux_moves(loads) == [GroupMove(0, 0, 3), GroupMove(3, 1, 2)]


def test_the_biggest_group_whose_move_lowers_the_variance_is_taken() -> None:
    loads = PlacementLoads.of([0, 0, 0], [10, 4, 3], [0, 8])
    assert flux_moves(loads) == [GroupMove(1, 0, 1)]


@given(any_loads())
def test_moves_are_moves_and_each_lowers_the_variance(loads: PlacementLoads) -> None:
    moves = flux_moves(loads)
    assert are_moves_of(moves, loads)
    before = loads
    for move in moves:
        after = before.moved([move])
        scale = before.work.max() ** 2
        if loads.available[move.giver]:
            assert after.variance <= before.variance + ROUNDING * scale
        before = after


@given(any_loads(equally_fast=True, settled=True))
def test_periods_come_to_an_end_where_no_pair_has_a_move(loads: PlacementLoads) -> None:
    for moves in flux_periods(loads):
        loads = loads.moved(moves)
    order = np.argsort(-loads.work, kind="stable")
    for giver, taker in zip(order, order[::-1][: len(order) // 2], strict=False):
        gap = loads.work[giver] - loads.work[taker]
        sizes = loads.groups[(loads.owners == giver) & (loads.groups > 0)]
        assert not (sizes < gap * (1 - 1e-6) - 1e-6).any()


def test_the_published_setting_takes_23_moves() -> None:
    moves = [sum(map(len, flux_periods(zipf_loads(8, seed)))) for seed in range(200)]
    assert 22 < np.mean(moves) < 24
