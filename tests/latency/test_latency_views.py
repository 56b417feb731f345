"""Answers on latency, which may hold anything, as clients get them: finite numbers, and what was clipped is counted."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import query
from agent.control.messages import JobLatency
from agent.control.observation.latency_entries import DurationEntry
from agent.control.observation.latency_view import AGENTS_SHOWN, EVENTS_S_MAX, described_latency
from agent.runtime.master.roster import MEMBERS_MAX
from agent.runtime.messages.jobs import CODEC
from agent.runtime.messages.views.latency import LatencyView, PlanView, SlowAgent
from agent.runtime.model.fields import AMOUNT_MAX
from agent.runtime.model.latency.critical_path import MICROS_MAX
from overlay import Id, WireError
from query.latency import AGENT_PHASES, Phase, PhaseStatistics, phases_to_bytes
from query.latency.buckets import LONGEST_US
from query.latency.statistics import STATISTICS_BYTES_MAX

LONGEST_MS = LONGEST_US / 1000
NAMES = st.sampled_from(("web-1", "web-2", "\x1b[2J\u202e", "n" * 255))


def statistics(*seconds: float) -> PhaseStatistics:
    made = PhaseStatistics()
    for one in seconds:
        made.add(one)
    return made


VIEW = LatencyView(
    Id(7), "shop", "web-3", "SELECT 1", 2_000, 99.0, 120, 117, 3,
    statistics(0.5, 0.7).to_bytes(), statistics(0.001).to_bytes(),
    phases_to_bytes({Phase.TAIL: statistics(0.1, 0.3), Phase.CLOSE: statistics(0.4), Phase.DELIVER: statistics(9.0)}),
    700_000, [1000 * (number + 1) for number in range(12)], [("web-2", 90), ("web-9", 30)],
    phases_to_bytes({Phase.SEAL: statistics(0.02)}), [SlowAgent("web-2", 4, 1_000_000)],
)  # fmt: skip


def entries(found: JobLatency) -> list[DurationEntry]:
    return [found.total, found.skew, *found.phases, *found.parts]


def test_what_a_master_tells_is_made_readable() -> None:
    found = described_latency(VIEW)
    assert (found.app, found.master, found.within_ms, found.percent) == ("shop", "web-3", 2_000, 99.0)
    assert (found.results, found.met, found.missed, found.clipped) == (120, 117, 3, 0)
    assert [one.what for one in found.phases] == [phase.label for phase in Phase], "all twelve, in their order"
    assert [one.what for one in found.parts] == [phase.label for phase in AGENT_PHASES]
    assert found.total.mean_ms == pytest.approx(600.0)
    assert found.slowest_phase == "tail", "neither the grace, nor the way of what is out"
    assert [(one.agent, one.parts, one.mean_ms, one.last) for one in found.agents] == [
        ("web-2", 4, 250.0, 90), ("web-9", 0, 0.0, 30),
    ]  # fmt: skip
    assert list(found.last) == [phase.label for phase in Phase]
    assert (found.last_ms, sum(found.last.values())) == (700.0, 78.0)


def test_durations_beyond_an_hour_are_an_hour() -> None:
    long = statistics(1e6, math.inf)
    found = described_latency(msgspec.structs.replace(VIEW, total=long.to_bytes()))
    assert (found.total.count, found.clipped) == (2, 2)
    assert found.total.mean_ms == found.total.p50_ms == found.total.p99_ms == LONGEST_MS


@pytest.mark.parametrize("data", [b"", b"junk", b"\x80" * STATISTICS_BYTES_MAX, bytes(STATISTICS_BYTES_MAX)])
def test_bytes_that_are_no_statistics_are_counted(data: bytes) -> None:
    found = described_latency(msgspec.structs.replace(VIEW, total=data, skew=data))
    assert (found.total, found.clipped) == (DurationEntry("total", 0, 0.0, 0.0, 0.0), 2)


@pytest.mark.parametrize(
    ("told", "kept"), [(math.nan, 0.0), (math.inf, 0.0), (-7.0, 0.0), (1e300, EVENTS_S_MAX), (1.5, 1.5)]
)
def test_a_rate_is_a_number_of_events(told: float, kept: float) -> None:
    found = described_latency(msgspec.structs.replace(VIEW, events_s=told))
    assert (found.events_s, found.clipped) == (kept, told != kept)


@pytest.mark.parametrize(("told", "kept"), [(math.nan, 0.0), (math.inf, 100.0), (-1e300, 0.0), (99.9, 99.9)])
def test_a_share_is_between_nothing_and_all(told: float, kept: float) -> None:
    assert described_latency(msgspec.structs.replace(VIEW, percent=told)).percent == kept


@pytest.mark.fuzz
@given(
    st.binary(max_size=80), st.binary(max_size=80), st.binary(max_size=200), st.binary(max_size=200),
    st.one_of(st.none(), st.floats()), st.lists(st.integers(0, MICROS_MAX), max_size=12),
    st.lists(st.tuples(NAMES, st.integers(0, 2**63 - 1)), max_size=128),
    st.lists(st.builds(SlowAgent, NAMES, st.integers(0, 2**63 - 1), st.integers(0, AMOUNT_MAX)), max_size=8),
)  # fmt: skip
def test_whatever_comes_clients_can_read_what_is_made_of_it(
    total: bytes,
    skew: bytes,
    phases: bytes,
    parts: bytes,
    percent: float | None,
    last: list[int],
    last_parts: list[tuple[str, int]],
    slowest: list[SlowAgent],
) -> None:
    told = msgspec.structs.replace(
        VIEW, total=total, skew=skew, phases=phases, parts=parts, percent=percent, last_phases=last,
        last_parts=last_parts, slowest=slowest,
    )  # fmt: skip
    found = described_latency(told)
    assert msgspec.json.decode(msgspec.json.encode(found), type=JobLatency) == found
    for one in entries(found):
        assert one.count >= 0
        assert min(one.mean_ms, one.p50_ms, one.p99_ms) >= 0
        assert max(one.mean_ms, one.p50_ms, one.p99_ms) <= LONGEST_MS
    assert len(found.agents) <= AGENTS_SHOWN
    assert len(found.phases) == 12


@pytest.mark.parametrize(
    "changes",
    [
        {"total": bytes(STATISTICS_BYTES_MAX + 1)},
        {"last_us": MICROS_MAX + 1},
        {"last_us": -1},
        {"last_phases": [0] * 13},
        {"last_parts": [("web-1", 1)] * 129},
        {"slowest": [SlowAgent("web-1", 1, 1)] * 9},
        {"slowest": [SlowAgent("web-1", 1, AMOUNT_MAX + 1)]},
        {"slowest": [SlowAgent("", 1, 1)]},
        {"results": -1},
        {"agents": -1},
        {"plan": PlanView(0, 0, 1, 0, 0, [], 0)},
        {"plan": PlanView(0, 1, 0, 0, 0, [], 0)},
        {"plan": PlanView(0, 1, query.TREES_MAX + 1, 0, 0, [], 0)},
    ],
)
def test_what_is_larger_than_may_be_is_no_message(changes: dict[str, object]) -> None:
    assert CODEC.decode(CODEC.encode(VIEW)) == VIEW
    with pytest.raises(WireError):
        CODEC.decode(CODEC.encode(msgspec.structs.replace(VIEW, **changes)))


def test_no_job_has_more_agents_than_a_roster_holds() -> None:
    found = described_latency(msgspec.structs.replace(VIEW, agents=2**63 - 1))
    assert (found.contributors, found.clipped) == (MEMBERS_MAX, 1)
    assert described_latency(msgspec.structs.replace(VIEW, agents=MEMBERS_MAX)).clipped == 0
