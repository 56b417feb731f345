"""Statistics of phases: merged exactly in any order, encoded in bounded bytes, and no bytes of others do harm."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.latency import Phase, PhaseKind, PhaseStatistics, phases_from_bytes, phases_to_bytes
from query.latency.buckets import BUCKETS, EDGES_US, GROWTH, LONGEST_US, bucket_bounds_us, bucket_of
from query.latency.statistics import COUNT_MAX, PHASES_BYTES_MAX, STATISTICS_BYTES_MAX

DURATIONS = st.floats(0, 4_000)
SAMPLES = st.lists(DURATIONS, max_size=30)
ODD = st.one_of(st.floats(), st.integers(-(1 << 70), 1 << 70))


def gathered(durations: list[float]) -> PhaseStatistics:
    made = PhaseStatistics()
    for one in durations:
        made.add(one)
    return made


def test_there_are_twelve_phases_each_of_a_kind() -> None:
    assert [phase.label for phase in Phase] == [
        "tail", "read wait", "parse", "insert", "close", "seal wait",
        "seal", "uplink", "combine", "finish", "commit", "deliver",
    ]  # fmt: skip
    assert {phase.kind for phase in Phase} == set(PhaseKind)


def test_buckets_grow_by_five_per_cent_and_hold_their_bounds() -> None:
    assert all(math.isclose(upper / lower, GROWTH) for lower, upper in pairwise(EDGES_US[1:]))
    assert 3.6e9 <= EDGES_US[-1] < 3.6e9 * GROWTH
    for bucket in range(BUCKETS):
        low, high = bucket_bounds_us(bucket)
        assert low <= EDGES_US[bucket] < high
        assert bucket_of(EDGES_US[bucket]) == bucket
    assert bucket_bounds_us(BUCKETS - 1)[1] == LONGEST_US


@given(SAMPLES)
def test_moments_are_those_of_the_durations(durations: list[float]) -> None:
    made = gathered(durations)
    number = max(len(durations), 1)
    capped = [min(one, LONGEST_US / 1e6) for one in durations]
    for power, moment in enumerate(made.raw_moments(), 1):
        assert moment == pytest.approx(sum(one**power for one in capped) / number, rel=1e-3, abs=1e-6)
    assert made.count == sum(made.buckets.values()) == len(durations)
    assert made.variance >= 0


@given(SAMPLES, SAMPLES, SAMPLES)
def test_merging_is_exact_in_any_order(one: list[float], two: list[float], three: list[float]) -> None:
    a, b, c = gathered(one), gathered(two), gathered(three)
    assert a.combine(b).combine(c) == a.combine(b.combine(c)) == c.combine(a).combine(b) == gathered(one + two + three)
    assert a == gathered(one), "merging leaves its parts as they are"


@given(SAMPLES)
def test_bytes_give_back_the_same(durations: list[float]) -> None:
    made = gathered(durations)
    assert PhaseStatistics.from_bytes(made.to_bytes()) == made


@given(st.lists(ODD, max_size=20))
def test_odd_durations_are_clipped_or_refused_and_counted(durations: list[float]) -> None:
    made = gathered(durations)
    nan = sum(math.isnan(one) for one in durations)
    assert made.refused == nan
    assert made.count == len(durations) - nan
    assert made.clipped == sum(one < 0 or one * 1e6 > LONGEST_US for one in durations)
    assert 0 <= made.sum_us <= made.count * LONGEST_US
    assert PhaseStatistics.from_bytes(made.to_bytes()) == made


@pytest.mark.fuzz
@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_harm(data: bytes) -> None:
    read = PhaseStatistics.from_bytes(data)
    assert read.refused or PhaseStatistics.from_bytes(read.to_bytes()).buckets == read.buckets
    assert set(phases_from_bytes(data)) == set(Phase)


@pytest.mark.fuzz
@given(SAMPLES, st.integers(0), st.integers(0, 255))
def test_changed_bytes_give_sums_that_fit_their_buckets(durations: list[float], at: int, byte: int) -> None:
    data = bytearray(gathered(durations).to_bytes())
    data[at % len(data)] = byte
    read = PhaseStatistics.from_bytes(bytes(data))
    mean, square, cube = read.raw_moments()
    assert 0 <= mean <= LONGEST_US / 1e6
    assert 0 <= square <= (LONGEST_US / 1e6) ** 2
    assert 0 <= cube <= (LONGEST_US / 1e6) ** 3
    assert read.count == sum(read.buckets.values()) <= COUNT_MAX


def test_sums_that_cannot_be_are_clipped_and_counted() -> None:
    honest = gathered([0.5, 0.6])
    lying = PhaseStatistics(2, 10**30, 0, honest.cube_us, dict(honest.buckets))
    read = PhaseStatistics.from_bytes(lying.to_bytes())
    assert read.clipped == 1
    assert 0.5 <= read.mean < 0.6 * GROWTH
    assert read.square_us > 0
    assert read.cube_us == honest.cube_us


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x80" * 100, b"\x01" * STATISTICS_BYTES_MAX * 2])
def test_what_is_no_statistics_is_refused_and_counted(data: bytes) -> None:
    assert PhaseStatistics.from_bytes(data) == PhaseStatistics(refused=1)


def test_bytes_keep_their_bound_with_all_buckets_full() -> None:
    full = PhaseStatistics()
    for bucket in range(BUCKETS):
        low, high = bucket_bounds_us(bucket)
        count = 3 * COUNT_MAX // BUCKETS
        part = PhaseStatistics(count, count * low, count * high**2, count * high**3, {bucket: count})
        full = full.combine(part)
    data = full.to_bytes()
    assert len(data) <= STATISTICS_BYTES_MAX
    assert len(phases_to_bytes(dict.fromkeys(Phase, full))) <= PHASES_BYTES_MAX
    read = PhaseStatistics.from_bytes(data)
    assert read.count <= COUNT_MAX
    assert read.mean == pytest.approx(full.mean)


def test_phases_that_end_early_or_are_unknown_leave_the_others() -> None:
    told = {Phase.PARSE: PhaseStatistics.lift(0.1), Phase.DELIVER: PhaseStatistics.lift(0.2)}
    data = phases_to_bytes(told)
    assert {phase: one for phase, one in phases_from_bytes(data).items() if one.count} == told
    unknown = bytes([200, 0, 2, 9, 9])
    assert phases_from_bytes(unknown + data) == phases_from_bytes(data)
    cut = phases_from_bytes(data[:-1])
    assert cut[Phase.PARSE] == told[Phase.PARSE]
    assert cut[Phase.DELIVER] == PhaseStatistics(refused=1)
    assert phases_from_bytes(data + data) == phases_from_bytes(data)
