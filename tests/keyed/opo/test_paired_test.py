"""Comparisons of two slices: what they find among equals, and what they find where there is something to find."""

from __future__ import annotations

import math
import random

import pytest

from elf.optimization import BETTER, EQUAL, WORSE, PairedTest
from elf.optimization.paired_test import ALPHA, FIRST, LAST, bounds, simulated_bounds

EQUALS = 2_000


def verdict_of(test: PairedTest, differences: list[float]) -> int:
    for difference in differences:
        verdict = test.add(difference)
        if verdict is not None:
            return verdict
    raise AssertionError(f"no verdict after {len(differences)} differences")


@pytest.mark.parametrize("seed", range(4))
def test_equals_are_told_apart_as_seldom_as_said(seed: int) -> None:
    draws = random.Random(seed)
    told = sum(verdict_of(PairedTest(), [draws.gauss(0, 3) for _ in range(LAST)]) != EQUAL for _ in range(EQUALS))
    error = 3 * math.sqrt(ALPHA * (1 - ALPHA) / EQUALS)
    assert abs(told / EQUALS - ALPHA) < error, f"seed {seed}: {told} of {EQUALS}"


def test_a_difference_is_found_the_sooner_the_larger_it_is() -> None:
    draws = random.Random(1)
    took = {}
    for size in (0.5, 1.0, 3.0):
        tests = [PairedTest() for _ in range(300)]
        verdicts = [verdict_of(test, [draws.gauss(size, 1) for _ in range(LAST)]) for test in tests]
        took[size] = sum(test.count for test in tests) / len(tests)
        assert WORSE not in verdicts
        assert verdicts.count(BETTER) >= {0.5: 140, 1.0: 290, 3.0: 300}[size]
    assert took[0.5] > took[1.0] > took[3.0] >= FIRST
    assert took[3.0] < FIRST + 2


def test_the_sign_tells_which_is_better() -> None:
    differences = [1.0, 1.2, 0.9, 1.1, 1.0, 0.8]
    assert verdict_of(PairedTest(), differences) == BETTER
    assert verdict_of(PairedTest(), [-one for one in differences]) == WORSE


def test_nothing_is_said_before_the_least_number_of_pairs() -> None:
    test = PairedTest()
    assert [test.add(5.0) for _ in range(FIRST - 1)] == [None] * (FIRST - 1)
    assert test.add(5.0) == BETTER


def test_measurements_that_are_all_the_same_are_equal_in_the_end() -> None:
    test = PairedTest()
    assert [test.add(0.0) for _ in range(LAST)] == [None] * (LAST - 1) + [EQUAL]


@pytest.mark.parametrize("difference", [math.nan, math.inf, -math.inf])
def test_no_finite_number_is_refused(difference: float) -> None:
    with pytest.raises(ValueError, match="no finite number"):
        PairedTest().add(difference)


def test_the_bounds_are_those_that_the_simulation_finds() -> None:
    assert bounds() == simulated_bounds(FIRST, LAST, ALPHA)


@pytest.mark.parametrize(("first", "last", "alpha"), [(2, 2, 0.1), (3, 12, 0.01), (10, 40, 0.2)])
def test_other_numbers_of_pairs_keep_their_error_too(first: int, last: int, alpha: float) -> None:
    draws = random.Random(first)
    tests = [PairedTest(first, last, alpha) for _ in range(EQUALS)]
    told = sum(verdict_of(test, [draws.gauss(0, 1) for _ in range(last)]) != EQUAL for test in tests)
    error = 3 * math.sqrt(alpha * (1 - alpha) / EQUALS)
    assert abs(told / EQUALS - alpha) < error, f"seed {first}: {told} of {EQUALS}"


@pytest.mark.parametrize(
    ("first", "last", "alpha"), [(1, 5, 0.05), (6, 5, 0.05), (5, 24, 0.0), (5, 24, 1.0), (5, 9**9, 0.1)]
)
def test_numbers_that_make_no_test_are_refused(first: int, last: int, alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        bounds(first, last, alpha)
