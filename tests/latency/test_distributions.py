"""Distributions of durations against draws: sums, the longest, mixtures, quantiles, fits, pooled tails."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.latency import (
    Distribution,
    PhaseStatistics,
    exponential,
    gamma,
    greatest,
    lognormal,
    mixture,
    normal,
    pooled,
    total,
)
from query.latency.buckets import GROWTH

DRAWS = 200_000
BUCKET = GROWTH - 1
SEEDS = st.integers(0, 1 << 32)


def drawn(rng: np.random.Generator, number: int = DRAWS) -> np.ndarray:
    """Durations of a random kind, between some 100 µs and some seconds."""
    scale = 10 ** rng.uniform(-3.5, 0)
    match rng.integers(0, 5):
        case 0:
            return rng.exponential(scale, number)
        case 1:
            return rng.lognormal(math.log(scale), rng.uniform(0.1, 1.2), number)
        case 2:
            return rng.uniform(0, scale, number) + scale
        case 3:
            return rng.choice([0.0, scale, 3 * scale], number)
        case _:
            return np.full(number, scale)


def agree(found: Distribution, values: np.ndarray, within: float) -> None:
    """Means and quantiles are within some per cent of those of draws, or a share of draws as small lies between."""
    assert found.mean == pytest.approx(values.mean(), rel=within, abs=1e-5)
    for share in (0.1, 0.5, 0.9, 0.99):
        low, high = np.quantile(values, [share - 0.004, min(share + 0.004, 1.0)])
        assert low * (1 - within) - 1e-5 <= found.quantile(share) <= high * (1 + within) + 1e-5


@given(SEEDS)
def test_samples_are_told_to_a_bucket(seed: int) -> None:
    values = drawn(np.random.default_rng(seed))
    agree(Distribution.of_samples(values), values, BUCKET)


@given(SEEDS)
def test_statistics_give_the_distribution_and_its_mean(seed: int) -> None:
    values = drawn(np.random.default_rng(seed), 3_000)
    counted = PhaseStatistics()
    for one in values:
        counted.add(float(one))
    found = Distribution.of_statistics(counted)
    agree(found, values, 1.5 * BUCKET)
    assert found.mean == pytest.approx(counted.mean, rel=0.005, abs=1e-5)
    assert found.count == 3_000


@given(SEEDS, st.integers(2, 12))
def test_sums_are_those_of_independent_durations(seed: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [drawn(rng) for _ in range(number)]
    agree(total(Distribution.of_samples(part) for part in parts), np.sum(parts, axis=0), BUCKET)


@given(SEEDS)
def test_sums_come_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, two, three = (Distribution.of_samples(drawn(rng, 1_000)) for _ in range(3))
    for share in (0.1, 0.5, 0.99):
        expected = pytest.approx((one + two + three).quantile(share), rel=BUCKET)
        assert (three + one + two).quantile(share) == expected


@given(SEEDS, st.integers(1, 6), st.integers(1, 20))
def test_the_longest_is_that_of_independent_durations(seed: int, unlike: int, alike: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = [drawn(rng) for _ in range(unlike)]
    found = greatest((Distribution.of_samples(kind), alike) for kind in kinds)
    longest = np.max([rng.choice(kind, DRAWS // 4) for kind in kinds for _ in range(alike)], axis=0)
    agree(found, longest, BUCKET)


@given(SEEDS, st.floats(0.01, 0.99))
def test_mixtures_take_from_each_its_share(seed: int, weight: float) -> None:
    rng = np.random.default_rng(seed)
    one, two = drawn(rng), drawn(rng)
    found = mixture([(Distribution.of_samples(one), weight), (Distribution.of_samples(two), 1 - weight)])
    agree(found, np.where(rng.random(DRAWS) < weight, one, two), BUCKET)


@given(SEEDS, st.floats(0.01, 20), st.floats(0, 2))
def test_scaled_and_shifted_durations(seed: int, factor: float, seconds: float) -> None:
    values = drawn(np.random.default_rng(seed))
    found = Distribution.of_samples(values)
    agree(found.scaled(factor), values * factor, BUCKET)
    agree(found.shifted(seconds), values + seconds, BUCKET)
    agree(found.shifted(-seconds / 10), np.maximum(values - seconds / 10, 0), BUCKET)


@given(SEEDS)
def test_variances_of_sums_are_sums_of_variances(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [Distribution.of_samples(drawn(rng, 5_000)) for _ in range(3)]
    assert total(parts).variance == pytest.approx(sum(part.variance for part in parts), rel=0.1, abs=1e-8)


def test_constants_are_exact_however_long() -> None:
    found = Distribution.constant(600.0) + Distribution.uniform(0.001, 0.002) + Distribution.constant(0.5)
    assert found.mean == pytest.approx(600.5015, abs=1e-5)
    assert found.quantile(0.99) == pytest.approx(600.50199, abs=2e-5)


def test_what_may_last_for_ever_stays_so() -> None:
    never, short = Distribution.constant(math.inf), exponential(0.1)
    for one in (never + short, short + never, greatest([(short, 3), (never, 1)]), never.scaled(0.1)):
        assert one.mean == one.quantile(0.5) == math.inf
    some = mixture([(short, 9), (never, 1)])
    assert some.quantile(0.85) < 1
    assert some.quantile(0.95) == some.mean == math.inf
    assert (some + some).beyond == pytest.approx(0.19)


@pytest.mark.parametrize("fit", [normal, lognormal, gamma])
@pytest.mark.parametrize(("mean", "spread"), [(0.01, 0.01), (2.0, 0.2), (0.3, 0.3)])
def test_fits_have_the_moments_that_they_are_given(fit: object, mean: float, spread: float) -> None:
    assert callable(fit)
    found = fit(mean, (spread * mean) ** 2)
    assert found.mean == pytest.approx(mean, rel=0.01)
    assert found.variance == pytest.approx((spread * mean) ** 2, rel=0.03)


@pytest.mark.parametrize("shape", [0.3, 1.0, 2.5, 40.0, 900.0])
def test_gamma_quantiles_are_those_of_draws(shape: float) -> None:
    values = np.random.default_rng(1).gamma(shape, 0.1 / shape, DRAWS)
    agree(gamma(0.1, 0.01 / shape), values, BUCKET)


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_what_is_no_duration_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        Distribution.constant(bad)
    with pytest.raises(ValueError, match="0 or more"):
        Distribution.of_samples([0.1, bad])
    with pytest.raises(ValueError, match="mean"):
        gamma(bad, 1.0)
    with pytest.raises(ValueError, match="factor"):
        exponential(1.0).scaled(bad)
    with pytest.raises(ValueError, match="quantile"):
        exponential(1.0).quantile(bad)


@pytest.mark.parametrize("kind", ["exponential", "pareto", "lognormal"])
def test_pooled_tails_tell_the_longest_of_128(kind: str) -> None:
    """Each agent has measured 100 durations: together they know what none of them has seen."""
    rng = np.random.default_rng(5)

    def durations(number: int) -> np.ndarray:
        match kind:
            case "exponential":
                return rng.exponential(0.05, number)
            case "pareto":
                return 0.01 * (1 + rng.pareto(4.0, number))
            case _:
                return rng.lognormal(-3, 0.4, number)

    alike = [Distribution.of_samples(durations(100)) for _ in range(128)]
    lived = np.quantile(durations(128 * 20_000).reshape(-1, 128).max(axis=1), 0.99)
    by_itself = greatest([(alike[0], 128)]).quantile(0.99)
    told = greatest([(mixture((one, 1) for one in pooled(alike)), 128)]).quantile(0.99)
    assert told == pytest.approx(lived, rel=0.25)
    assert abs(told - lived) < abs(by_itself - lived)


def test_tails_of_few_durations_are_left_alone() -> None:
    few = [Distribution.of_samples([0.1, 0.2, 0.3]) for _ in range(3)]
    assert pooled(few) == few
