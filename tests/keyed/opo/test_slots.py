"""Slots of measurements, and their pairs: which of them count."""

from __future__ import annotations

import json
import math
import random

import pytest

from elf.optimization import BETTER, Comparator, MeasuredSlot, SliceMeter


def slots_of(meter: SliceMeter, events: list[tuple[int, int, float]]) -> list[MeasuredSlot]:
    return [slot for event in events if (slot := meter.add(*event)) is not None]


def test_a_slot_of_time_is_the_mean_of_its_events() -> None:
    events = [(0, 1, 9.0), (1_000, 1, 1.0), (1_900, 1, 2.0), (2_000, 1, 5.0), (3_100, 1, 0.0)]
    slots = slots_of(SliceMeter(slot_ms=1_000), events)
    assert [(slot.slot, slot.events, slot.mean, slot.valid) for slot in slots[1:]] == [
        (1, 2, 1.5, True),
        (2, 1, 5.0, True),
    ]


def test_the_first_slot_is_not_valid_since_its_beginning_may_have_been_missed() -> None:
    slots = slots_of(SliceMeter(slot_ms=1_000), [(500, 1, 9.0), (1_000, 1, 1.0), (2_000, 1, 1.0)])
    assert [slot.valid for slot in slots] == [False, True]


def test_a_slot_in_which_an_experiment_begins_is_not_valid_and_late_servers_are_not_counted() -> None:
    events = [
        (0, 1, 0.0),
        (1_000, 1, 1.0),
        (1_500, 2, 7.0),
        (1_600, 1, 1.0),
        (2_000, 1, 1.0),
        (2_100, 2, 7.0),
        (3_000, 2, 0.0),
    ]
    slots = slots_of(SliceMeter(slot_ms=1_000), events)
    assert [(slot.experiment, slot.mean, slot.valid) for slot in slots[1:]] == [(2, 0.0, False), (2, 7.0, True)]


def test_a_slot_with_too_few_events_is_not_valid() -> None:
    slots = slots_of(SliceMeter(slot_ms=1_000, events_min=2), [(0, 1, 1.0), (1_000, 1, 1.0), (2_000, 1, 1.0)])
    assert [slot.valid for slot in slots] == [False, False]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_slot_with_a_value_that_is_no_number_is_not_valid(value: float) -> None:
    events = [(0, 1, 1.0), (1_000, 1, 1.0), (1_001, 1, value), (2_000, 1, 1.0), (3_000, 1, 1.0)]
    assert [slot.valid for slot in slots_of(SliceMeter(slot_ms=1_000), events)] == [False, False, True]


def test_an_event_of_a_slot_that_has_ended_is_not_counted() -> None:
    events = [(0, 1, 0.0), (1_000, 1, 1.0), (2_000, 1, 3.0), (1_999, 1, 9.0), (3_000, 1, 0.0)]
    slots = slots_of(SliceMeter(slot_ms=1_000), events)
    assert [(slot.slot, slot.events, slot.mean) for slot in slots[1:]] == [(1, 1, 1.0), (2, 1, 3.0)]


def test_a_slot_ends_when_its_time_has_passed_or_with_the_next_event_and_once() -> None:
    meter = SliceMeter(slot_ms=1_000)
    assert meter.pass_to(0) is None
    slots_of(meter, [(0, 1, 1.0), (1_000, 1, 3.0)])
    assert meter.pass_to(1_999) is None
    ended = meter.pass_to(2_000)
    assert ended is not None
    assert (ended.slot, ended.mean, ended.valid) == (1, 3.0, True)
    assert meter.pass_to(2_500) is None
    assert meter.add(4_100, 1, 5.0) is None
    later = meter.add(5_000, 1, 0.0)
    assert later is not None
    assert (later.slot, later.mean, later.valid) == (4, 5.0, True)


def test_slots_of_events_are_numbered_anew_in_each_experiment() -> None:
    events = [(time, 1 + time // 5, float(time)) for time in range(10)]
    slots = slots_of(SliceMeter(slot_events=2), events)
    assert [(slot.experiment, slot.slot, slot.mean) for slot in slots] == [
        (1, 0, 0.5),
        (1, 1, 2.5),
        (2, 0, 5.5),
        (2, 1, 7.5),
    ]
    assert all(slot.valid for slot in slots)


def fed(comparator: Comparator, experiment: int, first: list[float], second: list[float], **more: bool) -> list[object]:
    outcomes = []
    for number, means in enumerate(zip(first, second, strict=True)):
        for which, mean in enumerate(means):
            slot = MeasuredSlot(experiment, number, 10, mean, more.get("valid", True))
            outcomes.append(comparator.add(which, slot))
    return [one for one in outcomes if one is not None]


def noisy(mean: float, seed: int, count: int = 24) -> list[float]:
    draws = random.Random(seed)
    return [draws.gauss(mean, 0.1) for _ in range(count)]


def test_slots_are_paired_so_that_what_both_share_does_not_matter() -> None:
    shared = [10.0, 500.0, 3.0, 80.0, 7.0, 1_000.0, 44.0, 12.0]
    first = [level + 1 + noise for level, noise in zip(shared, noisy(0, 1), strict=False)]
    (outcome,) = fed(Comparator(), 1, first, shared)
    assert outcome.verdict == BETTER  # type: ignore[attr-defined]
    assert outcome.difference == pytest.approx(1, abs=0.3)  # type: ignore[attr-defined]


def test_an_experiment_has_one_outcome_and_the_next_begins_anew() -> None:
    comparator = Comparator()
    assert len(fed(comparator, 1, noisy(2, 1), noisy(1, 2))) == 1
    outcomes = fed(comparator, 2, noisy(1, 3), noisy(2, 4))
    assert [(one.experiment, one.verdict) for one in outcomes] == [(2, -1)]  # type: ignore[attr-defined]
    assert fed(comparator, 1, noisy(2, 5), noisy(1, 6)) == []


def test_slots_without_their_pair_and_invalid_ones_do_not_count() -> None:
    comparator = Comparator()
    assert fed(comparator, 1, noisy(2, 1), noisy(1, 2), valid=False) == []
    for number in range(500):
        assert comparator.add(0, MeasuredSlot(1, 2 * number, 10, 5.0, True)) is None
        assert comparator.add(1, MeasuredSlot(1, 2 * number + 1, 10, 1.0, True)) is None
    assert len(json.dumps(comparator.state)) < 4_000, "slots wait for ever"


def test_it_goes_on_from_its_state_at_any_moment() -> None:
    first, second = noisy(1.2, 1), noisy(1, 2)
    straight = fed(Comparator(), 3, first, second)
    assert straight
    outcomes, state = [], {}
    for number, means in enumerate(zip(first, second, strict=True)):
        for which, mean in enumerate(means):
            comparator = Comparator()
            comparator.restore(json.loads(json.dumps(state)))
            outcomes.append(comparator.add(which, MeasuredSlot(3, number, 10, mean, True)))
            state = comparator.state
    assert [one for one in outcomes if one is not None] == straight
