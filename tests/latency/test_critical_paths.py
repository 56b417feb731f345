"""Paths of runs from a log to the master: their phases sum up to the time that has passed, whoever they come from."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.messages.jobs import CODEC, Snapshot
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.latency.critical_path import (
    AT_SOURCE,
    LEVELS_MAX,
    MICROS_MAX,
    BlockRead,
    CriticalPath,
    Found,
    Level,
    found_at_end,
    found_in_block,
    last_of,
    micros_of,
    with_way,
)
from overlay import Id, WireError
from query.latency import Phase

END_MS = 1_700_000_000_000
LOOK_MS = 1.0
"""By so much a look may be off: its time is told in whole milliseconds."""
SECONDS = st.floats(0, 30)
STEPS = st.lists(
    st.tuples(st.sampled_from(("combined", "hop", Phase.INSERT, Phase.SEAL_WAIT, Phase.SEAL)), SECONDS), max_size=60
)
MICROS = st.one_of(st.integers(0, MICROS_MAX), st.sampled_from((0, 1, MICROS_MAX)))


def wire(path: CriticalPath) -> list[int]:
    """A path as the parent gets it."""
    message = Snapshot(Id(1), JobEpoch(1, 1, Id(1)), 1, 0, 1, b"\1", b"", [], path=path.to_wire())
    decoded = CODEC.decode(CODEC.encode(message))
    assert isinstance(decoded, Snapshot)
    return decoded.path


def total_s(path: CriticalPath) -> float:
    return sum(path.phases().values())


@st.composite
def begun(draw: st.DrawFn) -> CriticalPath:
    """The path of a pane that ends at END_MS, by a clock that reads 1000 s then."""
    grace_ms, pane_ms = draw(st.integers(0, 20_000)), draw(st.integers(1, 60_000))
    looked_s = grace_ms / 1000 + draw(SECONDS)
    parse_s, wait_s = draw(SECONDS), draw(SECONDS)
    looked_ms = END_MS + round(1000 * looked_s)
    reached = st.integers(END_MS + grace_ms, max(END_MS + grace_ms, looked_ms))
    came_at = 1000 + looked_s + parse_s + wait_s
    found = Found(looked_ms, 1000 + looked_s, parse_s, came_at, draw(st.one_of(st.none(), reached)))
    return CriticalPath.begun(found, END_MS, grace_ms, pane_ms)


@given(begun(), STEPS)
def test_phases_sum_up_to_the_time_from_the_windows_end_until_now(
    path: CriticalPath, steps: list[tuple[object, float]]
) -> None:
    passed_s, clock_off_s = path.at - 1000, 0.0
    for what, seconds in steps:
        passed_s += seconds
        now = 1000 + passed_s + clock_off_s
        if what == "combined":
            path = path.combined(now)
        elif what == "hop":
            clock_off_s += 7.0  # each agent's clock of seconds begins somewhere else
            arrived = CriticalPath.from_wire(with_way(wire(path), seconds), now + 7.0)
            assert arrived is not None
            path = arrived
        else:
            assert isinstance(what, Phase)
            path = path.spent(what, now)
    assert 1000 * total_s(path) == pytest.approx(1000 * passed_s, abs=LOOK_MS + 0.001 * (len(steps) + 4))
    assert len(path.levels) <= LEVELS_MAX
    assert set(path.phases()) == set(Phase) - {Phase.FINISH, Phase.COMMIT, Phase.DELIVER}


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 100))
def test_a_block_accounts_for_the_time_since_its_look(waited_s: float, parse_s: float, now: float) -> None:
    wall_ms = END_MS + round(1000 * now)
    found = found_in_block(BlockRead(now - waited_s - parse_s, parse_s), now, wall_ms)
    assert found.came_at == now
    assert found.came_at - found.looked_at == pytest.approx(waited_s + parse_s)
    assert wall_ms - found.looked_ms == pytest.approx(1000 * (waited_s + parse_s), abs=LOOK_MS)


def test_looks_in_the_future_are_looks_of_now() -> None:
    assert found_in_block(BlockRead(50.0, 3.0), 20.0, END_MS) == Found(END_MS, 20.0, 0.0, 20.0, None)
    assert found_at_end(END_MS + 500, 20.0, END_MS) == Found(END_MS + 500, 20.0, 0.0, 20.0, None)


def test_an_event_from_far_beyond_closes_a_pane_that_was_due_before() -> None:
    looked = Found(END_MS + 5_000, 5.0, 0.0, 5.0, END_MS + 60_000)
    path = CriticalPath.begun(looked, END_MS, 1_000, 2_000)
    assert (path.phases()[Phase.TAIL], path.phases()[Phase.CLOSE]) == (4.0, 1.0)


def test_the_last_event_says_when_it_was_written() -> None:
    looked = Found(END_MS + 5_000, 5.0, 0.0, 5.0, END_MS + 2_500)
    path = CriticalPath.begun(looked, END_MS, 1_000, 2_000)
    assert (path.phases()[Phase.TAIL], path.phases()[Phase.CLOSE]) == (2.5, 2.5)


@given(begun(), st.floats(0, 86_400))
def test_what_ends_before_its_pane_has_waited_to_be_read(path: CriticalPath, seconds: float) -> None:
    assert total_s(path.waited(seconds)) == pytest.approx(total_s(path) + seconds, abs=1e-5)


def test_the_last_of_several_parts_is_the_one_that_counts() -> None:
    paths = [CriticalPath(number, (0,) * len(AT_SOURCE), (), at) for number, at in enumerate((3.0, 9.0, 1.0))]
    assert last_of([None, *paths]) is paths[1]
    assert last_of([None]) is None


# What others may say.


@pytest.mark.fuzz
@given(st.lists(MICROS, max_size=1 + len(AT_SOURCE) + 2 * LEVELS_MAX), STEPS)
def test_whatever_comes_can_go_on_and_stays_within_its_bounds(
    told: list[int], steps: list[tuple[object, float]]
) -> None:
    path = CriticalPath.from_wire(told, 5.0)
    assert (path is None) == (len(told) < 1 + len(AT_SOURCE))
    for what, seconds in [*steps, ("hop", 0.0)]:
        if path is not None:
            path = path.combined(path.at + 1e6 * seconds).waited(seconds)
        if path is not None and what == "hop":
            path = CriticalPath.from_wire(with_way(wire(path), seconds), 5.0)
    if path is not None:
        assert len(path.levels) <= LEVELS_MAX
        assert all(
            0 <= micros <= MICROS_MAX for micros in (*path.source, *(one for level in path.levels for one in level))
        )
        assert 0 <= total_s(path) <= (len(AT_SOURCE) + 2 * LEVELS_MAX) * MICROS_MAX / 1e6


def test_levels_beyond_the_bound_are_in_the_last() -> None:
    told = [3, *[0] * len(AT_SOURCE), *[10, 20] * LEVELS_MAX]
    path = CriticalPath.from_wire(told, 0.0)
    assert path is not None
    assert path.levels[-1] == Level(20, 40)
    assert len(path.levels) == LEVELS_MAX - 1
    assert (path.phases()[Phase.UPLINK], path.phases()[Phase.COMBINE]) == (0.00012, 0.00024)


@pytest.mark.parametrize(
    "told", [[-1], [MICROS_MAX + 1] * 8, [0] * (2 + len(AT_SOURCE) + 2 * LEVELS_MAX), [0.5] * 8, ["0"] * 8, None]
)
def test_what_is_no_path_is_no_message(told: object) -> None:
    message = Snapshot(Id(1), JobEpoch(1, 1, Id(1)), 1, 0, 1, b"\1", b"", [], path=told)  # type: ignore[arg-type]
    with pytest.raises(WireError):
        CODEC.decode(CODEC.encode(message))


def test_a_path_that_was_not_measured_stays_so() -> None:
    assert with_way([], 5.0) == []
    assert CriticalPath.from_wire([], 5.0) is None


@pytest.mark.parametrize(
    ("seconds", "told"), [(math.inf, MICROS_MAX), (1e300, MICROS_MAX), (-math.inf, 0), (-1.0, 0), (1.5e-6, 2)]
)
def test_a_time_without_an_end_is_the_longest_that_can_be_told(seconds: float, told: int) -> None:
    assert micros_of(seconds) == told
