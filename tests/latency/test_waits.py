"""Waits: queues with closed forms, queues that are simulated, batches, replays, looks at files."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.latency import (
    Distribution,
    RawMoments,
    batch_waits,
    exponential,
    gamma,
    kingman_bound,
    look_wait,
    mean_wait,
    queue_wait,
    replayed,
    wait_variance,
    waiting_share,
)

LOADS = (0.1, 0.3, 0.5, 0.8, 0.95)


def exponential_moments(mean: float) -> RawMoments:
    return RawMoments.gamma(mean, 1.0)


def simulated_waits(between: np.ndarray, services: np.ndarray) -> np.ndarray:
    """A server that takes arrivals one by one, event by event."""
    waits = np.empty(len(between))
    free = now = 0.0
    for at, (apart, service) in enumerate(zip(between.tolist(), services.tolist(), strict=True)):
        now += apart
        begins = max(now, free)
        waits[at] = begins - now
        free = begins + service
    return waits


@pytest.mark.parametrize("load", LOADS)
def test_m_m_1_is_exact(load: float) -> None:
    between, service = exponential_moments(1.0), exponential_moments(load)
    assert mean_wait(between, service) == pytest.approx(load**2 / (1 - load))
    assert wait_variance(between, service) == pytest.approx(load**3 * (2 - load) / (1 - load) ** 2)
    assert waiting_share(between, service) == pytest.approx(load)
    exact = max(math.log(load / 0.01) * load / (1 - load), 0.0)
    assert queue_wait(between, service).quantile(0.99) == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("load", LOADS)
def test_m_d_1_is_exact(load: float) -> None:
    between, service = exponential_moments(1.0), RawMoments.constant(load)
    mean = load**2 / (2 * (1 - load))
    assert mean_wait(between, service) == pytest.approx(mean)
    assert wait_variance(between, service) == pytest.approx(mean**2 + load**3 / (3 * (1 - load)))


@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_d_m_1_is_near(load: float) -> None:
    root = load
    for _ in range(10_000):
        root = math.exp((root - 1) / load)
    between, service = RawMoments.constant(1.0), exponential_moments(load)
    mean = load * root / (1 - root)
    assert mean_wait(between, service) == pytest.approx(mean, rel=0.01)
    assert wait_variance(between, service) == pytest.approx(2 * root * (load / (1 - root)) ** 2 - mean**2, rel=0.12)
    assert waiting_share(between, service) == pytest.approx(root, rel=0.03)
    assert kingman_bound(between, service) >= mean


@pytest.mark.parametrize("load", [0.6, 0.9])
@pytest.mark.parametrize("services", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("arrivals", [0.3, 1.0])
def test_waits_are_those_of_a_simulated_queue(arrivals: float, services: float, load: float) -> None:
    rng = np.random.default_rng(3)
    between = rng.gamma(1 / arrivals, arrivals, 400_000)
    service = rng.gamma(1 / services, services * load, 400_000)
    lived = simulated_waits(between, service)
    told = RawMoments.of(between), RawMoments.of(service)
    assert mean_wait(*told) == pytest.approx(lived.mean(), rel=0.1)
    assert math.sqrt(wait_variance(*told)) == pytest.approx(lived.std(), rel=0.1)
    assert queue_wait(*told).quantile(0.99) == pytest.approx(np.quantile(lived, 0.99), rel=0.15)
    assert kingman_bound(*told) >= lived.mean() * 0.95


def test_a_server_that_is_always_busy_is_waited_for_for_ever() -> None:
    for between, service in ((1.0, 1.0), (1.0, 2.0), (0.0, 1.0)):
        told = RawMoments.constant(between), RawMoments.constant(service)
        assert mean_wait(*told) == kingman_bound(*told) == queue_wait(*told).quantile(0.5) == math.inf


def test_replays_keep_the_correlation_that_moments_lose() -> None:
    """Ten seconds of many arrivals, then forty of few. Moments know the same times in any order."""
    rng = np.random.default_rng(7)
    between = np.where(np.arange(800) % 400 < 200, 0.045, 0.2)
    service = rng.uniform(0.02, 0.08, 800)
    lived = simulated_waits(between, service).mean()
    told = replayed(zip(between, service, strict=True))
    assert told.mean() == pytest.approx(lived, rel=0.02)
    by_moments = mean_wait(RawMoments.of(between), RawMoments.of(service))
    assert max(by_moments, simulated_waits(rng.permutation(between), service).mean()) < lived / 9


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), max_size=60))
def test_replays_follow_lindley(pairs: list[tuple[float, float]]) -> None:
    told = replayed(pairs)
    assert len(told) == len(pairs)
    for at in range(1, len(pairs)):
        expected = max(0.0, told[at - 1] + pairs[at - 1][1] - pairs[at][0])
        assert told[at] == pytest.approx(expected, abs=1e-9)


def test_only_the_last_pairs_are_replayed() -> None:
    assert len(replayed([(1.0, 0.5)] * 5_000)) == 1_024
    with pytest.raises(ValueError, match="0 or more"):
        replayed([(1.0, -0.5)])


def test_batches_wait_for_those_before_them() -> None:
    rng = np.random.default_rng(9)
    services = [gamma(0.02, 0.0001), exponential(0.05), Distribution.constant(0.01)]
    found = batch_waits(services)
    assert [round(one.mean, 3) for one in found] == [0.0, 0.02, 0.07]
    lived = rng.gamma(4, 0.005, 100_000) + rng.exponential(0.05, 100_000)
    assert found[2].quantile(0.99) == pytest.approx(np.quantile(lived, 0.99), rel=0.03)
    assert batch_waits([]) == []


def lived_looks(interval: float, window: float, phase: float) -> np.ndarray:
    looks = phase + np.arange(-1, 200_000) * interval
    ends = np.arange(1, 2_000) * window
    return looks[np.searchsorted(looks, ends - 1e-9)] - ends


@pytest.mark.parametrize(
    ("interval", "window", "phase"), [(0.1, 1.0, 0.03), (0.1, 0.25, 0.02), (0.3, 1.0, 0.05), (0.07, 0.5, 0.0)]
)
def test_looks_and_windows_that_are_both_periodic_are_locked(interval: float, window: float, phase: float) -> None:
    found, lived = look_wait(interval, window, phase), lived_looks(interval, window, phase)
    assert found.mean == pytest.approx(lived.mean(), rel=0.02, abs=1e-6)
    assert found.variance == pytest.approx(lived.var(), rel=0.05, abs=1e-8)
    for share in (0.2, 0.6, 0.99):
        assert found.quantile(share) == pytest.approx(
            np.quantile(lived, share, method="inverted_cdf"), rel=0.05, abs=1e-6
        )


def test_looks_that_keep_no_time_wait_anywhere_in_the_interval() -> None:
    found = look_wait(0.2)
    assert found.mean == pytest.approx(0.1, rel=0.01)
    assert found.variance == pytest.approx(0.2**2 / 12, rel=0.02)
    assert look_wait(0.1, 1.000003, 0.5).mean == pytest.approx(0.05, rel=0.01), "nearly all phases occur"
    with pytest.raises(ValueError, match="more than 0 s"):
        look_wait(0.0)
