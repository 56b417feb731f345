"""What a program may do in which time, by a clock of the test's own."""

from __future__ import annotations

import pytest

from agent.programs.commands import MIB, ProgramLimits
from agent.programs.watchdog import BUSY_CHECK_S, SECOND_CHECK_S, SPARE_S, Pace, Watchdog

LIMITS = ProgramLimits(start_s=5, call_s=10, cpu_s=30, cpu_window_s=60)


def started(now: float = 0.0, limits: ProgramLimits = LIMITS) -> Watchdog:
    watchdog = Watchdog(limits, now)
    assert watchdog.note_frame(b"", now) is None
    return watchdog


def breach(watchdog: Watchdog, until: float, cpu_share: float = 0.0) -> tuple[float, str] | None:
    """Looks whenever it is to be looked: when a breach is found, and which. `cpu_share`: of one core, from now on."""
    while (now := watchdog.next_check()) < until:
        if (found := watchdog.check_time(now, now * cpu_share)) is not None:
            return now, found
    return None


def test_a_call_that_takes_too_long_is_noticed_on_time() -> None:
    watchdog = started()
    watchdog.note_call(100.3)
    assert breach(watchdog, 200) == (110.3 + SECOND_CHECK_S, "took longer than 10 s for a callback")


def test_a_start_that_takes_too_long_is_noticed_on_time() -> None:
    assert breach(Watchdog(LIMITS, 0.0), 200) == (5 + SECOND_CHECK_S, "did not start within 5 s")


def test_calls_one_after_the_other_have_their_time_each() -> None:
    watchdog = started()
    for _ in range(4):
        watchdog.note_call(0.0)
    for now in (9.0, 18.0, 27.0):
        assert breach(watchdog, now) is None
        assert watchdog.note_frame(b"", now) is None
    assert breach(watchdog, 99) == (37.0 + SECOND_CHECK_S, "took longer than 10 s for a callback")


def test_what_it_says_in_a_call_does_not_prolong_it() -> None:
    watchdog = started()
    watchdog.note_call(0.0)
    assert watchdog.note_frame(b"wait", 9.0) is None
    assert breach(watchdog, 99) == (10.0 + SECOND_CHECK_S, "took longer than 10 s for a callback")


def test_word_of_the_end_that_waited_while_the_agent_was_busy_counts() -> None:
    watchdog = started()
    watchdog.note_call(0.0)
    assert watchdog.check_time(25.0, 0.0) is None
    assert watchdog.note_frame(b"", 25.0) is None
    assert breach(watchdog, 200) is None


def test_half_a_core_may_be_used_for_ever() -> None:
    watchdog = started()
    for second in range(600):
        watchdog.note_call(second)
        assert breach(watchdog, second + 0.9, cpu_share=0.49) is None
        assert watchdog.note_frame(b"", second + 0.9) is None


def test_a_whole_core_is_too_much_soon() -> None:
    watchdog = started(limits=ProgramLimits(call_s=1000))
    watchdog.note_call(0.0)
    found = breach(watchdog, 200, cpu_share=1.0)
    assert found == (31.0, "used more than 30 s of CPU time within 60 s")


def test_one_that_only_says_it_is_idle_is_noticed() -> None:
    found = breach(started(), 600, cpu_share=1.0)
    assert found is not None
    assert found[1] == "used more than 30 s of CPU time within 60 s"
    assert found[0] <= 2 * LIMITS.cpu_window_s


@pytest.mark.parametrize("cores", [0.05, 0.5, 1.0])
def test_a_program_that_is_held_to_its_processors_uses_no_more_in_the_long_run(cores: float) -> None:
    pace = Pace(cores, 0.0)
    now = cpu_s = 0.0
    while cpu_s < 100:
        now += pace.pause_s(now, cpu_s)
        assert pace.pause_s(now, cpu_s) == pytest.approx(0, abs=1e-9)
        now, cpu_s = now + 0.3, cpu_s + 0.3
    assert cpu_s / now == pytest.approx(cores, rel=0.02)


def test_idle_time_is_not_saved_up_for_a_long_burst() -> None:
    pace = Pace(0.5, 0.0)
    assert pace.pause_s(1000.0, 0.0) == 0
    assert pace.pause_s(1000.0, 0.5 * SPARE_S) == 0
    assert pace.pause_s(1000.0, 0.5 * SPARE_S + 1) == pytest.approx(2)


def test_one_that_is_held_to_its_processors_is_never_ended_for_being_busy() -> None:
    watchdog = started(limits=LIMITS.for_elements(1.0, MIB))
    for second in range(1000):
        watchdog.note_call(second)
        assert breach(watchdog, second + 0.99, cpu_share=1.0) is None
        assert watchdog.note_frame(b"", second + 0.99) is None


def test_one_that_is_held_to_its_processors_and_works_without_a_call_is_noticed() -> None:
    watchdog = started(limits=LIMITS.for_elements(0.5, MIB))
    watchdog.note_waiting(100.0)
    found = breach(watchdog, 600, cpu_share=1.0)
    assert found is not None
    assert found[1] == "used more than 30 s of CPU time while it was not called"
    assert found[0] <= 132


def test_idle_programs_are_looked_at_seldom_and_together() -> None:
    looks = set()
    for start in (0.1, 7.7, 13.3):
        watchdog = started(start)
        now = start
        while now < 600:
            watchdog.check_time(now, 0.0)
            now = watchdog.next_check()
            looks.add(now)
    assert len(looks) <= 600 / 30 + 1


def test_a_program_at_work_is_looked_at_each_second_however_often_it_is_called() -> None:
    watchdog = started()
    looks = 0
    for hundredth in range(1000):
        now = 60 + hundredth / 100
        watchdog.note_call(now)
        if watchdog.next_check() <= now:
            watchdog.check_time(now, 0.0)
            looks += 1
        watchdog.note_frame(b"", now)
    assert looks <= 10 / BUSY_CHECK_S + 2


def test_how_much_is_said_in_a_call_is_limited() -> None:
    watchdog = started(limits=ProgramLimits(frames_in_call=3))
    for _ in range(2):
        watchdog.note_call(0.0)
        assert [watchdog.note_frame(b"x", 0.0) for _ in range(3)] == [None] * 3
        assert watchdog.note_frame(b"", 0.0) is None
    watchdog.note_call(0.0)
    assert [watchdog.note_frame(b"x", 0.0) for _ in range(3)] == [None] * 3
    assert watchdog.note_frame(b"x", 0.0) == "said more than 3 things in one call"
    watchdog = started(limits=ProgramLimits(bytes_in_call=MIB))
    watchdog.note_call(0.0)
    assert watchdog.note_frame(bytes(MIB), 0.0) is None
    assert watchdog.note_frame(b"x", 0.0) == "said more than 1 MiB in one call"


@pytest.mark.parametrize("frame", [b"", b"hello"])
def test_nobody_speaks_who_is_not_called(frame: bytes) -> None:
    assert started().note_frame(frame, 1.0) == "spoke when it was not called"
