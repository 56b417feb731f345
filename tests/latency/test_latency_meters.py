"""Statistics of parts and of results: added in any order, bounded, and kept as long as they are of now."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.messages.jobs import CODEC, Snapshot
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import AMOUNT_MAX
from agent.runtime.model.latency.critical_path import AT_SOURCE, MICROS_MAX, CriticalPath
from agent.runtime.model.latency.part_meter import GENERATION_S, SLOWEST_MAX, TOLD_S, PartMeter, PartStatistics
from agent.runtime.model.latency.recent_latency import (
    AGENTS_MAX,
    GENERATION_RESULTS,
    LatencyGeneration,
    RecentLatency,
    ResultLatency,
    with_ways_of,
)
from agent.runtime.model.step_clock import StepClock
from overlay import Id
from query.latency import Phase, PhaseStatistics, phases_to_bytes
from query.latency.buckets import LONGEST_US

HOUR_US = LONGEST_US
PARTS = st.lists(
    st.tuples(st.integers(0, SLOWEST_MAX - 1), st.lists(st.integers(0, HOUR_US), min_size=7, max_size=7)), max_size=12
)


def part(agent: int, *micros: int) -> CriticalPath:
    """An agent's own part, with the microseconds of its phases; the rest is 0."""
    return CriticalPath(agent, (*micros, *[0] * (len(AT_SOURCE) - len(micros))), (), 0.0)


def counted(parts: list[tuple[int, list[int]]]) -> PartStatistics:
    made = PartStatistics()
    for agent, micros in parts:
        made.note(part(agent, *micros))
    return made


def added(*others: PartStatistics) -> PartStatistics:
    made = PartStatistics()
    for other in others:
        made.add(other.phases, other.longest())
    return made


def measured(statistics: PartStatistics) -> tuple[dict[Phase, PhaseStatistics], dict[int, tuple[int, int]]]:
    """The phases that have durations, and the agents."""
    return {phase: one for phase, one in statistics.phases.items() if one.count}, statistics.slowest


@given(PARTS, PARTS, PARTS)
def test_parts_are_added_in_any_order(
    one: list[tuple[int, list[int]]], two: list[tuple[int, list[int]]], three: list[tuple[int, list[int]]]
) -> None:
    a, b, c = counted(one), counted(two), counted(three)
    expected = measured(counted(one + two + three))
    assert measured(added(added(a, b), c)) == measured(added(a, added(b, c))) == measured(added(c, a, b)) == expected


@given(PARTS, st.lists(st.integers(0, 3), max_size=12))
def test_what_is_told_level_by_level_is_what_was_counted(parts: list[tuple[int, list[int]]], cuts: list[int]) -> None:
    """Agents tell one that tells the master: nothing counts twice or is left out."""
    clock = StepClock()
    between, master = PartMeter(clock), PartMeter(clock)
    leaves = [PartMeter(clock) for _ in range(4)]
    for (agent, micros), number in zip(parts, [*cuts, *[0] * len(parts)], strict=False):
        leaves[number].note(part(agent, *micros))
    clock.tell(TOLD_S, 0.0)
    for leaf in leaves:
        between.add(*leaf.take())
        assert leaf.take() == (b"", []), "it is told once"
    master.add(*between.take())
    assert measured(master.statistics()) == measured(counted(parts))


def test_parts_are_told_every_few_seconds() -> None:
    clock = StepClock()
    meter = PartMeter(clock)
    clock.tell(100.0, 0.0)
    meter.note(part(1, 10))
    assert meter.take()[1] == [(1, 1, 10)]
    meter.note(part(1, 30))
    clock.tell(100.0 + TOLD_S / 2, 0.0)
    assert meter.take() == (b"", [])
    clock.tell(100.0 + TOLD_S, 0.0)
    assert meter.take()[1] == [(1, 1, 30)]


def test_a_master_forgets_parts_of_two_minutes_ago() -> None:
    clock = StepClock()
    meter = PartMeter(clock)
    clock.tell(GENERATION_S, 0.0)
    meter.note(part(1, 10))
    clock.tell(2 * GENERATION_S, 0.0)
    meter.note(part(2, 20))
    assert measured(meter.statistics())[1] == {1: (1, 10), 2: (1, 20)}
    clock.tell(3 * GENERATION_S, 0.0)
    assert measured(meter.statistics())[1] == {2: (1, 20)}
    clock.tell(4 * GENERATION_S, 0.0)
    assert meter.statistics() == PartStatistics()


def test_the_slowest_agents_are_those_whose_parts_take_longest_but_for_the_grace() -> None:
    made = PartStatistics()
    grace = AT_SOURCE.index(Phase.CLOSE)
    for agent in range(100):
        micros = [0] * len(AT_SOURCE)
        micros[0], micros[grace] = 100 * agent, 1_000_000 - 100 * agent
        made.note(part(agent, *micros))
    assert [agent for agent, *_ in made.longest()] == list(range(99, 99 - SLOWEST_MAX, -1))
    assert len(made.slowest) <= 2 * SLOWEST_MAX


@pytest.mark.fuzz
@given(
    st.lists(
        st.tuples(
            st.binary(max_size=60),
            st.lists(
                st.tuples(st.sampled_from((*range(20), 65535)), st.integers(0, AMOUNT_MAX), st.integers(0, AMOUNT_MAX)),
                max_size=8,
            ),
        ),
        max_size=20,
    )
)
def test_whatever_is_told_can_be_told_on(told: list[tuple[bytes, list[tuple[int, int, int]]]]) -> None:
    clock = StepClock()
    meter = PartMeter(clock)
    meter.note(part(3, MICROS_MAX))
    for parts, slowest in told:
        meter.add(phases_to_bytes({Phase.SEAL: PhaseStatistics.lift(1.0)}) + parts, slowest)
    clock.tell(TOLD_S, 0.0)
    assert len(meter.statistics().slowest) <= 2 * SLOWEST_MAX
    data, agents = meter.take()
    message = Snapshot(Id(1), JobEpoch(1, 1, Id(1)), 1, 0, 1, b"\1", b"", [], parts=data, slowest=agents)
    decoded = CODEC.decode(CODEC.encode(message))
    assert isinstance(decoded, Snapshot)
    assert [tuple(one) for one in decoded.slowest] == agents


# Results.


def result(latency_s: float, agent: str = "web-1", is_met: bool | None = None, **phases: float) -> ResultLatency:
    return ResultLatency(latency_s, {Phase[name]: seconds for name, seconds in phases.items()}, agent, is_met)


RESULTS = st.lists(
    st.builds(
        result, st.floats(-1, 100), st.sampled_from(("", "web-1", "web-2")), st.sampled_from((True, False, None))
    ),
    max_size=30,
)


def generation(results: list[ResultLatency]) -> LatencyGeneration:
    made = LatencyGeneration()
    for one in results:
        made.note(one)
    return made


@given(RESULTS, RESULTS, RESULTS)
def test_results_are_added_in_any_order(
    one: list[ResultLatency], two: list[ResultLatency], three: list[ResultLatency]
) -> None:
    a, b, c = generation(one), generation(two), generation(three)
    expected = generation(one + two + three)
    assert a.combine(b).combine(c) == a.combine(b.combine(c)) == c.combine(a).combine(b) == expected
    assert expected.met + expected.missed == sum(each.is_met is not None for each in one + two + three)
    assert expected.total.count == expected.skew.count == expected.results


@pytest.mark.parametrize("results", [0, 1, GENERATION_RESULTS, 2 * GENERATION_RESULTS, 5 * GENERATION_RESULTS + 7])
def test_the_latest_results_are_kept(results: int) -> None:
    recent = RecentLatency()
    for number in range(results):
        recent.note(result(float(number)))
    found = recent.statistics()
    assert min(results, GENERATION_RESULTS) <= found.results <= 2 * GENERATION_RESULTS
    kept = range(results - found.results, results)
    assert found.total.sum_us == sum(min(LONGEST_US, 1_000_000 * number) for number in kept)
    assert recent.last == (result(float(results - 1)) if results else None)


def test_agents_beyond_the_bound_are_not_counted_by_name() -> None:
    made = generation([result(1.0, f"web-{number}") for number in range(2 * AGENTS_MAX)] + [result(1.0, "web-0")])
    assert len(made.agents) == AGENTS_MAX
    assert made.agents["web-0"] == 2
    assert made.results == 2 * AGENTS_MAX + 1


@pytest.mark.parametrize(
    ("phases", "named"),
    [
        ({"TAIL": 0.1, "CLOSE": 0.5, "FINISH": 0.01}, "tail, web-1"),
        ({"TAIL": 0.1, "COMBINE": 0.2, "COMMIT": 0.01}, "combine, web-1"),
        ({"TAIL": 0.1, "CLOSE": 0.5, "FINISH": 0.3}, "finish, web-9"),
        ({"SEAL": 0.1, "COMMIT": 0.4}, "commit, web-9"),
    ],
)
def test_a_miss_names_the_longest_phase_but_for_the_grace_and_where_it_was(
    phases: dict[str, float], named: str
) -> None:
    told = {Phase[name]: seconds for name, seconds in phases.items()}
    assert ResultLatency(1.0, told, "web-1").slowest("web-9") == named


def test_skew_is_what_no_phase_accounts_for() -> None:
    assert result(1.0, TAIL=0.25, SEAL=0.5).skew_s == 0.25
    assert result(-1.0, TAIL=0.5).skew_s == -1.5


@given(st.floats(-10, 10), st.floats(0, 5), st.floats(0, 1))
def test_a_way_makes_up_for_what_no_phase_accounts_for_as_far_as_it_can(
    latency_s: float, seal_s: float, uplink_s: float
) -> None:
    phases = with_ways_of(latency_s, {Phase.SEAL: seal_s, Phase.UPLINK: uplink_s})
    assert phases[Phase.SEAL] == seal_s
    assert 0 <= phases[Phase.UPLINK] <= 2 * uplink_s
    if seal_s <= latency_s <= seal_s + 2 * uplink_s:
        assert sum(phases.values()) == pytest.approx(latency_s, abs=1e-9)
