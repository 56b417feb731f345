"""Work is done by the time at which it has to begin; what has no deadline waits a bounded time, whatever the load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.scheduling import DeadlineQueue, PhaseTimes, WorkPhase

PANE_S = 10.0
ZERO = dict.fromkeys(WorkPhase, 0.0)


def order_of(queue: DeadlineQueue) -> list[tuple[object, WorkPhase]]:
    found = []
    while (work := queue.next()) is not None:
        found.append((work.job, work.phase))
    return found


def test_what_has_more_phases_before_it_begins_first() -> None:
    """All results are due at the same time: a read has the way of all phases before it."""
    queue = DeadlineQueue()
    for phase in reversed(WorkPhase):
        assert queue.add(phase.name, phase, now=0.0, pane_s=PANE_S, deadline=5.0)
    assert [phase for _, phase in order_of(queue)] == list(WorkPhase)


def test_the_earlier_deadline_comes_first_unless_it_needs_less_time() -> None:
    times = PhaseTimes(ZERO)
    queue = DeadlineQueue(times)
    for _ in range(30):
        times.measured("long", WorkPhase.COMBINE, 2.0)
    queue.add("short", WorkPhase.SEAL, 0.0, PANE_S, deadline=4.0)
    queue.add("long", WorkPhase.SEAL, 0.0, PANE_S, deadline=5.0)
    assert [job for job, _ in order_of(queue)] == ["long", "short"]
    times.forget("long")
    queue.add("short", WorkPhase.SEAL, 0.0, PANE_S, deadline=4.0)
    queue.add("long", WorkPhase.SEAL, 0.0, PANE_S, deadline=5.0)
    assert [job for job, _ in order_of(queue)] == ["short", "long"]


def test_work_that_waits_becomes_more_urgent_but_never_less() -> None:
    queue = DeadlineQueue(PhaseTimes(ZERO))
    queue.add("a", WorkPhase.INSERT, 0.0, PANE_S, deadline=3.0)
    queue.add("b", WorkPhase.INSERT, 0.0, PANE_S, deadline=2.0)
    queue.add("a", WorkPhase.INSERT, 0.0, PANE_S, deadline=1.0)
    queue.add("a", WorkPhase.INSERT, 0.0, PANE_S, deadline=9.0)
    assert len(queue) == 2
    assert [job for job, _ in order_of(queue)] == ["a", "b"]


@given(
    rivals=st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 4)), min_size=1, max_size=20),
    pane_s=st.floats(0.1, 20),
)
def test_work_without_a_deadline_waits_a_pane_and_a_turn_of_the_others_at_most(
    rivals: list[tuple[float, int]], pane_s: float
) -> None:
    """Rivals have more to do than there is time, for ever, and it is due soon, or was due already."""
    queue, now, slice_s = DeadlineQueue(), 0.0, 0.05
    queue.add("patient", WorkPhase.SEAL, now, pane_s)
    for number, (slack, phase) in enumerate(rivals):
        queue.add(number, WorkPhase(phase), now, PANE_S, deadline=now + slack)
    while (work := queue.next()) is not None and work.job != "patient":
        now += slice_s
        slack, phase = rivals[int(str(work.job))]
        queue.add(work.job, WorkPhase(phase), now, PANE_S, deadline=now + slack)
    assert work is not None
    assert now <= pane_s + (len(rivals) + 1) * slice_s


def test_what_never_ends_leaves_time_to_what_has_a_deadline() -> None:
    """Sealing that goes on for ever, without a deadline, gets one slice a pane while the others need all the time."""
    queue, now = DeadlineQueue(), 0.0
    queue.add("patient", WorkPhase.SEAL, now, PANE_S)
    queue.add("urgent", WorkPhase.INSERT, now, PANE_S, deadline=now + 1)
    turns = 0
    while now < 100:
        work = queue.next()
        assert work is not None
        turns += work.job == "patient"
        now += 0.1
        deadline = now + 1 if work.job == "urgent" else None
        queue.add(work.job, work.phase, now, PANE_S, deadline)
    assert turns == pytest.approx(100 / PANE_S, abs=1)


def test_a_slice_is_a_tenth_of_the_shortest_constraint_there_is() -> None:
    queue = DeadlineQueue()
    assert queue.slice_s == 0.1
    queue.constrain("slow", 60.0)
    assert queue.slice_s == 0.1
    queue.constrain("quick", 0.5)
    queue.constrain("quicker", 0.2)
    assert queue.slice_s == pytest.approx(0.02)
    queue.constrain("quicker", 0.4)
    assert queue.slice_s == pytest.approx(0.04)
    queue.drop("quicker")
    assert queue.slice_s == pytest.approx(0.05)
    queue.constrain("quick", 1e-6)
    assert queue.slice_s == 0.001


@pytest.mark.parametrize("within_s", [0.0, -1.0, float("inf"), float("nan")])
def test_a_constraint_is_a_time(within_s: float) -> None:
    with pytest.raises(ValueError, match="the latency constraint of shop is a time"):
        DeadlineQueue().constrain("shop", within_s)


def test_where_there_is_no_room_the_caller_keeps_its_work() -> None:
    queue = DeadlineQueue(work_max=2)
    assert queue.add("a", WorkPhase.READ, 0.0, PANE_S)
    assert queue.add("b", WorkPhase.READ, 0.0, PANE_S)
    assert not queue.add("c", WorkPhase.READ, 0.0, PANE_S)
    assert queue.add("a", WorkPhase.READ, 0.0, PANE_S, deadline=1.0)
    queue.next()
    assert queue.add("c", WorkPhase.READ, 0.0, PANE_S)


def test_a_job_that_is_over_leaves_no_work() -> None:
    queue = DeadlineQueue()
    for phase in WorkPhase:
        queue.add("over", phase, 0.0, PANE_S)
    queue.add("stays", WorkPhase.READ, 0.0, PANE_S)
    queue.drop("over")
    assert order_of(queue) == [("stays", WorkPhase.READ)]
