"""When an agent gives free memory back to the system."""

from __future__ import annotations

from collections.abc import Iterable

from agent.daemon.free_memory import REST_WORK_S, WORK_S, FreeMemory, give_back

LITTLE_S = 0.001


def given(work: Iterable[float]) -> list[int]:
    """The looks at which memory is given back, after these seconds of work before each."""
    used, times = [0.0], [0]

    def give() -> None:
        times[0] += 1

    memory, looks = FreeMemory(lambda: used[0], give), []
    for look, seconds in enumerate(work):
        used[0] += seconds
        before = times[0]
        memory.look()
        looks += [look] * (times[0] - before)
    return looks


def test_a_working_agent_gives_memory_back_after_so_much_work() -> None:
    assert given([0.6 * WORK_S] * 6) == [1, 3, 5]
    assert given([2 * WORK_S] * 3) == [0, 1, 2]


def test_an_agent_gives_memory_back_once_it_rests() -> None:
    assert given([WORK_S / 2, LITTLE_S, LITTLE_S, LITTLE_S]) == [1]


def test_an_agent_that_has_done_next_to_nothing_gives_nothing_back() -> None:
    assert given([LITTLE_S] * int(REST_WORK_S / LITTLE_S - 2)) == []


def test_giving_back_works_whatever_the_library_can_do() -> None:
    give_back()
