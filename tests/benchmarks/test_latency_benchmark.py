"""The latency benchmark's bound holds for every schedule, and its rivals are what they are called."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.scheduling import CostAwareScheduler
from benchmarks.latency.offline_bound import upper_bound
from benchmarks.latency.rivals import Task, d_over, edf, fifo, tasks_of
from benchmarks.latency.traces import Batch, Trace, Workload, make_trace, spilled_share
from benchmarks.latency.virtual_processor import schedule

EVENTS = st.lists(
    st.tuples(st.integers(0, 8), st.integers(1, 10), st.lists(st.integers(1, 4), min_size=1, max_size=2)),
    min_size=1,
    max_size=4,
)


def trace_of(events: list[tuple[int, int, list[int]]]) -> Trace:
    batches = [Batch("job", at, at + within, np.array(costs, float)) for at, within, costs in sorted(events)]
    return Trace(batches)


def best_of_all(tasks: list[Task]) -> int:
    """The most events that are done in time one after the other, in any order, each as soon as it can be."""
    most = 0
    for order in permutations(tasks):
        now, done = 0.0, 0
        for task in order:
            if (ends := max(now, task.released) + task.cost) <= task.deadline:
                now, done = ends, done + 1
        most = max(most, done)
    return most


@given(events=EVENTS)
def test_no_schedule_beats_the_bound(events: list[tuple[int, int, list[int]]]) -> None:
    trace = trace_of(events)
    bound, tasks = upper_bound(trace) + 1e-9, tasks_of(trace)
    assert d_over(tasks) <= bound
    assert max(fifo(trace).total(), edf(trace).total()) <= bound
    assert schedule(trace, CostAwareScheduler(), exact=True).utility <= bound
    if len(tasks) <= 6:
        assert best_of_all(tasks) <= bound


def test_the_bound_knows_that_nothing_is_done_before_it_comes() -> None:
    trace = trace_of([(0, 2, [1]), (10, 2, [1, 1]), (10, 2, [2])])
    assert upper_bound(trace) == 3


@given(events=EVENTS)
def test_d_over_does_everything_where_there_is_time_for_all(events: list[tuple[int, int, list[int]]]) -> None:
    relaxed = [(at, within + 100, costs) for at, within, costs in events]
    tasks = tasks_of(trace_of(relaxed))
    assert d_over(tasks) == len(tasks)


def test_d_over_preempts_while_there_is_time_and_goes_on_afterwards() -> None:
    assert d_over([Task(0, 20, 10), Task(2, 8, 3), Task(3, 5, 2)]) == 3


def test_d_over_leaves_a_task_for_one_that_is_worth_far_more_and_for_no_other() -> None:
    """k is 9, so a task has to be worth more than four times what it displaces."""
    assert d_over([Task(0, 10, 10, 10), Task(1, 11, 10, 41), Task(50, 60, 9, 4.1)]) == pytest.approx(45.1)
    assert d_over([Task(0, 10, 10, 10), Task(1, 11, 10, 39), Task(50, 60, 9, 3.9)]) == pytest.approx(13.9)


def test_simple_orders() -> None:
    """FIFO is late with what comes last; EDF does it first, as it is due first, and leaves what is late."""
    trace = trace_of([(0, 9, [4]), (1, 9, [4]), (2, 4, [2, 2])])
    assert fifo(trace).total() == 2
    assert edf(trace).total() == 3
    assert schedule(trace, CostAwareScheduler(), exact=True).utility == 3


def test_traces_are_as_loaded_as_they_say() -> None:
    trace = make_trace([Workload(lambda _at: 1.36)], 1.0)
    assert trace.work_s == pytest.approx(1.36, rel=0.001)
    half = make_trace([Workload(lambda _at: 1.0, memory=0.25, spilled_s=10e-6)], 2.0)
    assert half.work_s / 2 == pytest.approx(1 + 4 * spilled_share(0.25), rel=0.01)
