"""Algorithm 2 keeps as many events as any schedule could, and Algorithm 1 is right about how many that is."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedulable_subsets import Event, is_schedulable, largest_schedulable_subset, largest_subset_of_all

from agent.runtime.scheduling import CostAwareScheduler, CostClass, Lot

EVENTS = st.lists(st.tuples(st.integers(1, 25), st.integers(1, 9)), max_size=10)
LOTS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 6), st.integers(1, 7)), max_size=12)


def lot_of(deadline: float, cost: float, events: int = 1) -> Lot:
    return Lot("job", "operator", deadline, CostClass.CHEAP, events, cost)


def events_of(lots: list[Lot]) -> list[Event]:
    return [(int(lot.deadline), int(lot.cost_s)) for lot in lots for _ in range(lot.events)]


def waiting(scheduler: CostAwareScheduler) -> list[Event]:
    """Takes out all that waits, at a moment at which nothing is late."""
    taken = []
    while (lot := scheduler.next_to_process(-1_000)) is not None:
        taken.append(lot)
    return events_of(taken)


@given(events=EVENTS, now=st.integers(0, 8))
def test_algorithm_1_finds_a_largest_subset(events: list[Event], now: int) -> None:
    found = largest_schedulable_subset(events, now)
    assert is_schedulable(found, now)
    assert len(found) == largest_subset_of_all(events, now)


@given(lots=LOTS, now=st.integers(0, 8))
def test_algorithm_2_keeps_what_algorithm_1_does(lots: list[tuple[int, int, int]], now: int) -> None:
    """As many events, of the same costs: of equally dear ones which is lost makes no difference."""
    events = [(deadline, cost) for deadline, cost, number in lots for _ in range(number)]
    scheduler = CostAwareScheduler()
    scheduler.release([lot_of(deadline, cost, number) for deadline, cost, number in lots], now)
    lost = events_of(scheduler.abandoned())
    kept = waiting(scheduler)
    assert is_schedulable(kept, now)
    assert kept == sorted(kept)
    assert Counter(cost for _, cost in kept) == Counter(cost for _, cost in largest_schedulable_subset(events, now))
    assert Counter(kept + lost) == Counter(events)


@given(batches=st.lists(LOTS, max_size=5), slice_s=st.integers(1, 20))
def test_batches_while_it_works(batches: list[list[tuple[int, int, int]]], slice_s: int) -> None:
    """Each batch is merged with what waits, as if both had just come; nothing is done late, twice or not at all."""
    scheduler, now, done, lost, released = CostAwareScheduler(), 0, list[Event](), list[Event](), list[Event]()
    waits = list[Event]()
    for batch in batches:
        lots = [lot_of(now + deadline, cost, number) for deadline, cost, number in batch]
        released += events_of(lots)
        expected = largest_schedulable_subset(waits + events_of(lots), now)
        scheduler.release(lots, now)
        lost += events_of(scheduler.abandoned())
        assert len(scheduler) == len(expected)
        for _ in range(3):
            if (lot := scheduler.next_to_process(now, slice_s)) is not None:
                assert lot.events == 1 or lot.cost <= slice_s
                now += int(lot.cost)
                assert now <= lot.deadline
                done += events_of([lot])
        waits = list((Counter(released) - Counter(done) - Counter(lost)).elements())
        assert len(waits) == len(scheduler)
        assert scheduler.abandoned() == []
    assert scheduler.released_events == len(released)
    assert scheduler.abandoned_events == len(lost)


def test_nothing_is_lost_to_inexact_sums() -> None:
    """Three times 0.1 is more than 0.3."""
    scheduler = CostAwareScheduler()
    scheduler.release([lot_of(0.3, 0.1, 3)], now=0.0)
    assert (len(scheduler), scheduler.abandoned_events) == (3, 0)


def test_only_so_many_events_of_a_lot_are_lost_as_do_not_fit() -> None:
    scheduler = CostAwareScheduler()
    scheduler.release([lot_of(10, 2, 7)], now=0)
    (lost,) = scheduler.abandoned()
    assert (lost.events, lost.first) == (2, 0)
    kept = scheduler.next_to_process(0)
    assert kept is not None
    assert (kept.events, kept.first) == (5, 2)


def test_what_is_abandoned_never_comes_back() -> None:
    """The dear event would fit again once the cheap ones have taken less than was predicted."""
    scheduler = CostAwareScheduler()
    scheduler.release([lot_of(10, 8), lot_of(10, 5, 2)], now=0)
    assert [lot.cost_s for lot in scheduler.abandoned()] == [8]
    assert scheduler.next_to_process(0) is not None
    assert scheduler.next_to_process(1) is None
    assert (scheduler.abandoned_events, scheduler.abandoned()) == (1, [])


def test_what_takes_longer_than_predicted_costs_the_dearest_of_the_others() -> None:
    scheduler = CostAwareScheduler()
    scheduler.release([lot_of(4, 2), lot_of(10, 3), lot_of(10, 1, 2)], now=0)
    assert scheduler.next_to_process(0) is not None
    lot = scheduler.next_to_process(7)
    assert lot is not None
    assert (lot.cost_s, lot.events) == (1, 2)
    assert [one.cost_s for one in scheduler.abandoned()] == [3]


def test_one_event_is_processed_though_it_is_longer_than_a_slice() -> None:
    scheduler = CostAwareScheduler()
    scheduler.release([lot_of(100, 6, 4)], now=0)
    taken = [scheduler.next_to_process(0, slice_s) for slice_s in (5, 13, 50)]
    assert [lot and lot.events for lot in taken] == [1, 2, 1]


def test_waiting_events_get_the_cost_that_was_measured() -> None:
    scheduler = CostAwareScheduler()
    scheduler.release([lot_of(10, 1, 8)], now=0)
    scheduler.revise("operator", CostClass.SPILLED, 9)
    scheduler.revise("another", CostClass.CHEAP, 9)
    lot = scheduler.next_to_process(0, 1)
    assert lot is not None
    scheduler.revise("operator", CostClass.CHEAP, 3)
    lot = scheduler.next_to_process(1)
    assert lot is not None
    assert (lot.events, lot.cost_s, scheduler.abandoned_events) == (3, 3, 4)


def test_no_more_lots_wait_than_there_is_room_for() -> None:
    scheduler = CostAwareScheduler(lots_max=3)
    scheduler.release([lot_of(100 + cost, cost) for cost in (4, 2)], now=0)
    assert scheduler.has_room
    scheduler.release([lot_of(100 + cost, cost) for cost in (1, 5, 3)], now=0)
    assert not scheduler.has_room
    assert sorted(lot.cost_s for lot in scheduler.abandoned()) == [4, 5]


def test_a_job_that_is_over_leaves_nothing() -> None:
    scheduler = CostAwareScheduler()
    scheduler.release([lot_of(10, 1, 3)], now=0)
    scheduler.drop("another")
    assert scheduler.next_deadline == pytest.approx(10)
    scheduler.drop("job")
    assert (len(scheduler), scheduler.next_deadline, scheduler.abandoned()) == (0, None, [])
