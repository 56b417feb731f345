"""Jobs that want more than their share lose events, others none; and no simpler order gets more done in time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.scheduling import CostAwareScheduler, CostClass, EventCosts, FairScheduler, Lot, max_min_shares
from benchmarks.latency.rivals import edf, fifo
from benchmarks.latency.traces import CHEAP_S, SPILLED_S, Trace, Workload, demanding, make_trace
from benchmarks.latency.virtual_processor import schedule

CONSTRAINTS = st.sampled_from([0.1, 0.3, 1.0, 2.5])
MEMORY = st.sampled_from([1.0, 0.5, 0.25])


@st.composite
def jobs(draw: st.DrawFn, load: float) -> list[Workload]:
    """Jobs that demand so much of the processor together, all the time."""
    weights = draw(st.lists(st.integers(1, 20), min_size=1, max_size=5))
    return [
        demanding(load * weight / sum(weights), draw(CONSTRAINTS), draw(MEMORY), f"job {number}", number)
        for number, weight in enumerate(weights)
    ]


def known_costs() -> EventCosts:
    return EventCosts({CostClass.CHEAP: CHEAP_S, CostClass.SPILLED: SPILLED_S})


def events_of(trace: Trace) -> Counter[str]:
    events: Counter[str] = Counter()
    for batch in trace.batches:
        events[batch.job] += len(batch.costs)
    return events


@given(demands=st.dictionaries(st.integers(), st.floats(0, 10), max_size=8), capacity=st.floats(0, 10))
def test_shares_are_max_min_fair(demands: dict[int, float], capacity: float) -> None:
    shares = max_min_shares(demands, capacity)
    assert shares.keys() == demands.keys()
    assert sum(shares.values()) == pytest.approx(min(capacity, sum(demands.values())))
    level = max(shares.values(), default=0.0)
    for job, share in shares.items():
        assert 0 <= share <= demands[job]
        assert share == demands[job] or share == pytest.approx(level)


@pytest.mark.slow
@given(workloads=jobs(1.8))
def test_jobs_within_their_share_lose_nothing(workloads: list[Workload]) -> None:
    trace = make_trace(workloads, 3.0)
    demands: dict[str, float] = {}
    for batch in trace.batches:
        demands[batch.job] = demands.get(batch.job, 0.0) + float(batch.upto[-1]) / 3.0
    level = max(max_min_shares(demands, 1.0).values())
    scheduler = FairScheduler()
    in_time = schedule(trace, scheduler, known_costs()).in_time
    for job, events in events_of(trace).items():
        if demands[job] < 0.9 * level:
            assert scheduler.abandoned_of(job) == 0
            assert in_time[job] == events


@given(workloads=jobs(1.8))
def test_more_is_done_in_time_than_by_simpler_orders(workloads: list[Workload]) -> None:
    """With exact deadlines: slots end up to a tenth of a constraint before what is in them is due."""
    trace = make_trace(workloads, 3.0)
    found = schedule(trace, CostAwareScheduler(), known_costs(), exact=True).utility
    assert found >= fifo(trace).total()
    assert found >= edf(trace).total()


@given(workloads=jobs(0.9))
def test_everything_is_done_where_there_is_time_for_all(workloads: list[Workload]) -> None:
    trace = make_trace(workloads, 2.0)
    scheduler = FairScheduler()
    assert schedule(trace, scheduler).in_time == events_of(trace)
    assert scheduler.abandoned_events == 0


@given(workloads=jobs(1.8))
def test_one_job_is_scheduled_by_algorithm_2(workloads: list[Workload]) -> None:
    trace = make_trace(workloads[:1], 1.0)
    assert schedule(trace, FairScheduler()).in_time == schedule(trace, CostAwareScheduler()).in_time


def lot_of(job: str, deadline: float, cost: float, events: int) -> Lot:
    return Lot(job, job, deadline, CostClass.CHEAP, events, cost)


def test_the_greedy_job_loses_though_its_events_are_cheaper() -> None:
    scheduler = FairScheduler()
    scheduler.release([lot_of("modest", 1.0, 0.1, 3), lot_of("greedy", 1.0, 0.01, 150)], now=0.0)
    assert (scheduler.abandoned_of("modest"), scheduler.abandoned_of("greedy")) == (0, 80)


def test_within_a_job_the_dearest_events_are_lost() -> None:
    scheduler = FairScheduler()
    scheduler.release(
        [lot_of("modest", 1.0, 0.1, 3), lot_of("greedy", 1.0, 0.2, 5), lot_of("greedy", 1.0, 0.05, 4)], 0.0
    )
    assert [(lot.job, lot.cost_s, lot.events) for lot in scheduler.abandoned()] == [("greedy", 0.2, 3)]


def test_two_greedy_jobs_lose_until_both_have_as_much() -> None:
    scheduler = FairScheduler()
    for step in range(400):
        now = step * 0.01
        greedy = [lot_of("some", now + 0.5, 1e-5, 900), lot_of("more", now + 0.5, 1e-5, 2700)]
        scheduler.release(greedy, now)
        until = now + 0.01
        while now < until and (lot := scheduler.next_to_process(now, until - now)) is not None:
            now += lot.cost
    done = {job: 400 * events - scheduler.abandoned_of(job) for job, events in (("some", 900), ("more", 2700))}
    assert done["some"] == pytest.approx(done["more"], rel=0.1)


def test_a_job_that_is_over_is_forgotten() -> None:
    scheduler = FairScheduler()
    scheduler.release([lot_of("over", 1.0, 0.1, 20), lot_of("stays", 1.0, 0.1, 1)], now=0.0)
    assert scheduler.abandoned_of("over") == 11
    scheduler.drop("over")
    assert (len(scheduler), scheduler.abandoned_of("over"), list(scheduler.shares(0.0))) == (1, 0, ["stays"])
