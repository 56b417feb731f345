"""Costs are learned by operator and class, and follow a change."""

from __future__ import annotations

import pytest

from agent.runtime.scheduling import CostClass, EventCosts, FairScheduler
from benchmarks.latency.traces import Workload, make_trace
from benchmarks.latency.virtual_processor import schedule


def test_classes_and_operators_have_costs_of_their_own() -> None:
    costs = EventCosts()
    costs.measured("a", CostClass.CHEAP, 100_000, 0.5)
    costs.measured("a", CostClass.SPILLED, 100_000, 5.0)
    assert costs.cost_s("a", CostClass.CHEAP) == pytest.approx(5e-6, rel=0.01)
    assert costs.cost_s("a", CostClass.SPILLED) == pytest.approx(5e-5, rel=0.01)
    assert costs.cost_s("b", CostClass.CHEAP) == EventCosts().cost_s("b", CostClass.CHEAP)
    costs.forget("a")
    assert costs.cost_s("a", CostClass.CHEAP) == costs.cost_s("b", CostClass.CHEAP)


def test_a_few_events_say_more_than_the_prior_and_one_says_little() -> None:
    costs = EventCosts(dict.fromkeys(CostClass, 1e-06))
    costs.measured("a", CostClass.CHEAP, 1, 33e-6)
    assert costs.cost_s("a", CostClass.CHEAP) == pytest.approx(2e-6, rel=0.05)
    costs.measured("b", CostClass.CHEAP, 320, 320 * 12e-6)
    assert costs.cost_s("b", CostClass.CHEAP) == pytest.approx(11e-6, rel=0.01)


def test_means_follow_a_change_whatever_the_past_was() -> None:
    costs = EventCosts()
    for _ in range(1_000):
        costs.measured("a", CostClass.CHEAP, 1_000, 1_000 * 2e-6)
    for _ in range(20):
        costs.measured("a", CostClass.CHEAP, 1_000, 1_000 * 8e-6)
    assert costs.cost_s("a", CostClass.CHEAP) == pytest.approx(8e-6, rel=0.02)


def test_a_clock_that_stands_still_leaves_a_cost() -> None:
    costs = EventCosts()
    costs.measured("a", CostClass.CHEAP, 1_000_000, 0.0)
    costs.measured("a", CostClass.CHEAP, 0, 1.0)
    assert costs.cost_s("a", CostClass.CHEAP) > 0


def test_waiting_events_get_a_new_cost_when_it_is_far_from_theirs() -> None:
    costs = EventCosts(dict.fromkeys(CostClass, 1e-05))
    costs.measured("a", CostClass.CHEAP, 10_000, 10_000 * 11e-6)
    assert costs.revision("a", CostClass.CHEAP) is None
    costs.measured("a", CostClass.CHEAP, 100_000, 100_000 * 20e-6)
    assert costs.revision("a", CostClass.CHEAP) == costs.cost_s("a", CostClass.CHEAP)
    assert costs.revision("a", CostClass.CHEAP) is None


def test_a_job_whose_events_cost_far_more_than_thought_is_soon_scheduled_as_well() -> None:
    """Nine tenths of the processor for events of 100 us, of which nothing is known at first."""
    workload = Workload(lambda _at: 0.9 / (1 + 0.115 * 49), memory=0.25, spilled_s=100e-6)
    trace = make_trace([workload], 4.0)
    scheduler = FairScheduler()
    assert schedule(trace, scheduler).utility == trace.events


def test_one_slow_batch_does_not_make_all_events_dear() -> None:
    costs = EventCosts()
    costs.measured("clicks", CostClass.CHEAP, events=100_000, took_s=0.1)
    costs.measured("clicks", CostClass.CHEAP, events=100_000, took_s=50.0)  # somebody else had the processor
    assert costs.cost_s("clicks", CostClass.CHEAP) <= 3.1e-6
    for _ in range(10):
        costs.measured("clicks", CostClass.CHEAP, events=100_000, took_s=50.0)
    assert costs.cost_s("clicks", CostClass.CHEAP) == pytest.approx(5e-4), "it is so, after all"
