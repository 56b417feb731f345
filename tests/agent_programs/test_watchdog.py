"""What a program may do in which time, by a clock of the test's own."""

from __future__ import annotations

import pytest

from agent.programs.commands import MIB, ProgramLimits
from agent.programs.watchdog import BUSY_LOOK_S, SECOND_LOOK_S, Watchdog

LIMITS = ProgramLimits(start_s=5, call_s=10, cpu_s=30, cpu_window_s=60)


def started(now: float = 0.0, limits: ProgramLimits = LIMITS) -> Watchdog:
    conduct = Watchdog(limits, now)
    assert conduct.said(b"", now) is None
    return conduct


def breach(conduct: Watchdog, until: float, cpu_share: float = 0.0) -> tuple[float, str] | None:
    """Looks whenever it is to be looked: when a breach is found, and which. `cpu_share`: of one core, from now on."""
    while (now := conduct.next_look()) < until:
        if (found := conduct.looked(now, now * cpu_share)) is not None:
            return now, found
    return None


def test_a_call_that_takes_too_long_is_noticed_on_time() -> None:
    conduct = started()
    conduct.called(100.3)
    assert breach(conduct, 200) == (110.3 + SECOND_LOOK_S, "took longer than 10 s for a callback")


def test_a_start_that_takes_too_long_is_noticed_on_time() -> None:
    assert breach(Watchdog(LIMITS, 0.0), 200) == (5 + SECOND_LOOK_S, "did not start within 5 s")


def test_calls_one_after_the_other_have_their_time_each() -> None:
    conduct = started()
    for _ in range(4):
        conduct.called(0.0)
    for now in (9.0, 18.0, 27.0):
        assert breach(conduct, now) is None
        assert conduct.said(b"", now) is None
    assert breach(conduct, 99) == (37.0 + SECOND_LOOK_S, "took longer than 10 s for a callback")


def test_what_it_says_in_a_call_does_not_prolong_it() -> None:
    conduct = started()
    conduct.called(0.0)
    assert conduct.said(b"wait", 9.0) is None
    assert breach(conduct, 99) == (10.0 + SECOND_LOOK_S, "took longer than 10 s for a callback")


def test_word_of_the_end_that_waited_while_the_agent_was_busy_counts() -> None:
    conduct = started()
    conduct.called(0.0)
    assert conduct.looked(25.0, 0.0) is None
    assert conduct.said(b"", 25.0) is None
    assert breach(conduct, 200) is None


def test_half_a_core_may_be_used_for_ever() -> None:
    conduct = started()
    for second in range(600):
        conduct.called(second)
        assert breach(conduct, second + 0.9, cpu_share=0.49) is None
        assert conduct.said(b"", second + 0.9) is None


def test_a_whole_core_is_too_much_soon() -> None:
    conduct = started(limits=ProgramLimits(call_s=1000))
    conduct.called(0.0)
    found = breach(conduct, 200, cpu_share=1.0)
    assert found == (31.0, "used more than 30 s of CPU time within 60 s")


def test_one_that_only_says_it_is_idle_is_noticed() -> None:
    found = breach(started(), 600, cpu_share=1.0)
    assert found is not None
    assert found[1] == "used more than 30 s of CPU time within 60 s"
    assert found[0] <= 2 * LIMITS.cpu_window_s


def test_idle_programs_are_looked_at_seldom_and_together() -> None:
    looks = set()
    for start in (0.1, 7.7, 13.3):
        conduct = started(start)
        now = start
        while now < 600:
            conduct.looked(now, 0.0)
            now = conduct.next_look()
            looks.add(now)
    assert len(looks) <= 600 / 30 + 1


def test_a_program_at_work_is_looked_at_each_second_however_often_it_is_called() -> None:
    conduct = started()
    looks = 0
    for hundredth in range(1000):
        now = 60 + hundredth / 100
        conduct.called(now)
        if conduct.next_look() <= now:
            conduct.looked(now, 0.0)
            looks += 1
        conduct.said(b"", now)
    assert looks <= 10 / BUSY_LOOK_S + 2


def test_how_much_is_said_in_a_call_is_limited() -> None:
    conduct = started(limits=ProgramLimits(said_frames=3))
    for _ in range(2):
        conduct.called(0.0)
        assert [conduct.said(b"x", 0.0) for _ in range(3)] == [None] * 3
        assert conduct.said(b"", 0.0) is None
    conduct.called(0.0)
    assert [conduct.said(b"x", 0.0) for _ in range(3)] == [None] * 3
    assert conduct.said(b"x", 0.0) == "said more than 3 things in one call"
    conduct = started(limits=ProgramLimits(said_bytes=MIB))
    conduct.called(0.0)
    assert conduct.said(bytes(MIB), 0.0) is None
    assert conduct.said(b"x", 0.0) == "said more than 1 MiB in one call"


@pytest.mark.parametrize("frame", [b"", b"hello"])
def test_nobody_speaks_who_is_not_called(frame: bytes) -> None:
    assert started().said(frame, 1.0) == "spoke when it was not called"
