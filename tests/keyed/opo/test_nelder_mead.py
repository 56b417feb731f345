"""The search by comparisons alone: where it ends, with and without noise."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from elf.optimization import NelderMead, Parameter

Objective = Callable[[Sequence[float]], float]


def unit(count: int, *, start: float = 0.5, step: float = 0.2) -> list[Parameter]:
    return [Parameter(f"x{number}", 0.0, 1.0, start, step) for number in range(count)]


def hill(top: Sequence[float]) -> Objective:
    return lambda point: -math.dist(point, top)


def compared(objective: Objective, search: NelderMead, apart: float = 0.0) -> int:
    """The verdict of a comparison that tells apart what differs by more than `apart`."""
    first, second = map(objective, search.pair)
    return 0 if abs(first - second) <= apart else 1 if first > second else -1


@pytest.mark.parametrize(("count", "comparisons"), [(1, 40), (2, 100), (3, 250)])
@pytest.mark.parametrize("seed", range(5))
def test_without_noise_it_comes_to_the_top(count: int, comparisons: int, seed: int) -> None:
    draws = random.Random(seed)
    top = [draws.uniform(0.1, 0.9) for _ in range(count)]
    search = NelderMead(unit(count))
    for _ in range(comparisons):
        search.tell(compared(hill(top), search))
    assert math.dist(search.best, top) < 0.05, f"seed {seed}: {search.best} instead of {top}"


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_not_told_apart_has_the_best_in_its_middle(count: int) -> None:
    top = [0.9, 0.15][:count]
    search = NelderMead(unit(count))
    for _ in range(60):
        search.tell(compared(hill(top), search, apart=0.1))
    assert math.dist(search.best, top) < 0.12


def test_a_lucky_point_does_not_stay_the_best() -> None:
    search = NelderMead(unit(1))
    search.tell(-compared(hill([0.2]), search))  # a false difference leads away
    for _ in range(30):
        search.tell(compared(hill([0.2]), search, apart=0.02))
    assert abs(search.best[0] - 0.2) < 0.05


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_plain_on_which_all_is_equal_is_searched_for_ever_within_bounds(count: int) -> None:
    search = NelderMead(unit(count, step=0.01))
    farthest = 0.0
    for _ in range(500):
        first, second = search.pair
        assert first != second
        assert all(0 <= one <= 1 for point in (first, second, search.best) for one in point)
        farthest = max(farthest, math.dist(first, second))
        search.tell(0)
    assert farthest > 0.02, "the steps do not become larger"


@pytest.mark.parametrize("top", [0.0, 1.0])
@pytest.mark.parametrize("count", [1, 2])
def test_the_top_may_be_at_a_bound(top: float, count: int) -> None:
    search = NelderMead(unit(count))
    for _ in range(150):
        search.tell(compared(hill([top] * count), search))
    assert math.dist(search.best, [top] * count) < 0.08


def test_random_verdicts_never_lead_beyond_the_bounds() -> None:
    for seed in range(20):
        draws = random.Random(seed)
        search = NelderMead(unit(3, start=draws.choice([0.0, 0.5, 1.0]), step=0.3))
        for _ in range(300):
            first, second = search.pair
            assert first != second, f"seed {seed}"
            assert all(0 <= one <= 1 for point in (first, second, search.best) for one in point), f"seed {seed}"
            search.tell(draws.choice([-1, 0, 1]))


def test_its_verdicts_are_its_state() -> None:
    search, verdicts = NelderMead(unit(2)), []
    draws = random.Random(7)
    for _ in range(50):
        verdicts.append(draws.choice([-1, 0, 1]))
        search.tell(verdicts[-1])
    again = NelderMead(unit(2), verdicts)
    assert (again.pair, again.best) == (search.pair, search.best)


def test_parameters_are_in_their_own_units() -> None:
    search = NelderMead([Parameter("price", 10, 1_000, 100, 50), Parameter("share", 0, 0.01, 0.002, 0.001)])
    assert search.pair == ((150.0, 0.002), (100.0, 0.002))
    assert search.best == (100.0, 0.002)


@pytest.mark.parametrize(
    ("low", "high", "start", "step"),
    [(0, 1, 2, 0.1), (1, 0, 0.5, 0.1), (0, 1, 0.5, 0), (0, 1, 0.5, 0.6), (0, math.inf, 1, 1), (0, 1, math.nan, 0.1)],
)
def test_parameters_that_make_no_search_are_refused(low: float, high: float, start: float, step: float) -> None:
    with pytest.raises(ValueError, match="parameter boost"):
        Parameter("boost", low, high, start, step)


@pytest.mark.parametrize("count", [0, 17])
def test_the_number_of_parameters_is_bounded(count: int) -> None:
    with pytest.raises(ValueError, match="1 to 16"):
        NelderMead(unit(count))
