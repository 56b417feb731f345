"""The whole loop on simulated sites, other ones than the benchmark's: how much of the gain it finds."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.s4.opo.gains import SLOTS, TARGETS, YIELD, optimized
from benchmarks.s4.opo.site import Site


def shares(parameters: int, seeds: range) -> dict[int, float]:
    sites = {seed: Site(seed, parameters, click_yield=YIELD) for seed in seeds}
    return {seed: optimized(site, parameters, SLOTS[parameters], seed).gained for seed, site in sites.items()}


def test_a_site_gains_most_of_what_there_is_in_two_weeks() -> None:
    found = shares(1, range(100, 105))
    assert statistics.median(found.values()) >= TARGETS[1], found


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [1, 2])
def test_many_sites_gain_and_none_ends_worse(parameters: int) -> None:
    found = shares(parameters, range(1_000, 1_100))
    assert statistics.median(found.values()) >= TARGETS[parameters]
    assert min(found.values()) > 0, found
