"""The shipped job lending over agents in memory: five operators, windows of ten minutes to a day."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lending_fleet import MIDNIGHT_MS, MINUTE_MS, LendingFleet, application

from elf.demo.lending.lending_truth import (
    DAY_MS,
    HOUR_MS,
    OPERATORS,
    SIZES_MS,
    LendingOperator,
    agreement,
    read_applications,
)
from elf.demo.story.truth import instant

Make = Callable[..., LendingFleet]
DEATH_MS = MIDNIGHT_MS - 90 * MINUTE_MS


@pytest.fixture
def lending(tmp_path: Path) -> Iterator[Make]:
    made: list[LendingFleet] = []

    def make(**options: object) -> LendingFleet:
        made.append(LendingFleet(tmp_path / str(len(made)), **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


def test_interest_and_approval_of_an_evening(lending: Make) -> None:
    """8 % and 20 % a year on Fyn, 4 % on Als for half a year; one is refused, one says nothing of its time."""
    fleet = lending()
    key = fleet.begin()
    evening_ms = MIDNIGHT_MS - HOUR_MS
    fleet.write(
        0, [application(evening_ms, user="a"), application(evening_ms + 40 * MINUTE_MS, user="e", lendingTime=0)]
    )
    fleet.write(1, [application(evening_ms + 15 * MINUTE_MS, user="b", **{"return": 12_000}, income=20_000)])
    als = {"area": "Als", "lendingTime": 730, "income": 30_000}
    fleet.write(2, [application(evening_ms + 16 * MINUTE_MS, user="c", **als)])
    fleet.write(2, [application(evening_ms + 50 * MINUTE_MS, user="d", area="Als", approval=False)])
    for number in range(3):
        fleet.write(number, [application(MIDNIGHT_MS + MINUTE_MS)])
    fleet.wait_long(5.0)

    def rows(app: str, size_ms: int) -> list[dict[str, object]]:
        bounds = [(instant(one.window_start or ""), instant(one.window_end or "")) for one in fleet.windows(app)]
        [place] = [n for n, bound in enumerate(bounds) if bound == (MIDNIGHT_MS - size_ms, MIDNIGHT_MS)]
        return list(fleet.windows(app)[place].rows)

    rates = [(row["user"], row["rate"]) for one in fleet.windows("lending.rates") for row in one.rows]
    assert rates == [("a", 800), ("b", 2_000), ("c", 400), ("d", 800)]
    for size_ms in (HOUR_MS, 6 * HOUR_MS, DAY_MS):
        assert rows("lending.area_interest", size_ms) == [
            {"area": "Als", "rate": 400, "income": 30_000, "loans": 1, "rates": 400},
            {"area": "Fyn", "rate": 1_400, "income": 30_000, "loans": 2, "rates": 2_800},
        ]
        assert rows("lending.area_approval", size_ms) == [
            {"area": "Als", "share": 0.5, "applications": 2, "approved": 1},
            {"area": "Fyn", "share": 1, "applications": 2, "approved": 2},
        ]
        assert rows("lending.interest", size_ms) == [{"rate": 1066.66666666667, "loans": 3}]
        assert rows("lending", size_ms) == [{"share": 0.75, "applications": 4}]
    assert rows("lending.area_approval", 10 * MINUTE_MS) == [
        {"area": "Als", "share": 0, "applications": 1, "approved": 0}
    ]
    said = [text for _, text in fleet.log(key)]
    assert [text for text in said if text.startswith("24 h")] == [
        "24 h to 2023-11-13T00:00:00Z: 75.0 of 100 approved, of 4 applications",
        "24 h to 2023-11-13T00:00:00Z: 3 loans at 10.67 % on average",
    ]
    assert len(said) == 6


@pytest.mark.parametrize(
    ("seed", "hours", "most"), [(1, 2, 4), (2, 2, 1), pytest.param(3, 25, 4, marks=pytest.mark.slow)]
)
def test_each_operators_windows_are_those_of_the_logs(lending: Make, seed: int, hours: int, most: int) -> None:
    """Also where no loan is given for a while, and where a server logs nothing."""
    fleet = lending()
    fleet.begin()
    fleet.pass_time(random.Random(seed), MIDNIGHT_MS - hours * HOUR_MS, MIDNIGHT_MS + 30 * MINUTE_MS, most=most)
    found = fleet.agreements(MIDNIGHT_MS)
    assert [one.wrong for one in found] == [()] * 5
    assert all(one.same == one.windows > 3 * hours for one in found)
    assert {one.late for one in fleet.results} == {0}
    jobs = len(OPERATORS)
    assert all(agent.ingest.statistics()["frames"] <= 8 * jobs for agent in fleet.agents), "of a day, a handful each"


@pytest.mark.parametrize(
    "app", ["lending.area_interest", pytest.param("lending.area_approval", marks=pytest.mark.slow)]
)
def test_a_day_by_area_goes_on_with_the_next_master(lending: Make, app: str) -> None:
    """Masters have no log here: their successors make the windows that were open of what agents have kept."""
    fleet = halfway(lending, app)
    assert [one.wrong for one in fleet.agreements(MIDNIGHT_MS)] == [()] * 5


@pytest.mark.parametrize("operator", [OPERATORS[3], pytest.param(OPERATORS[4], marks=pytest.mark.slow)])
def test_windows_of_windows_say_what_they_lack_of_a_dead_master(lending: Make, operator: LendingOperator) -> None:
    """Its agent alone had read the windows that those open then are made of."""
    fleet = halfway(lending, operator.app)
    others = [one for one in OPERATORS if one != operator]
    assert [fleet.agreement(one, MIDNIGHT_MS).wrong for one in others] == [()] * 4
    windows = [one for one in fleet.windows(operator.app) if one.rows]
    lacking = [one for one in windows if one.partial]
    assert 0 < len(lacking) <= 2 * len(SIZES_MS)
    assert min(instant(one.window_start or "") for one in windows if one not in lacking) < DEATH_MS
    whole = agreement(operator, [one for one in windows if not one.partial], read_applications(fleet.logs), 0)  # type: ignore[arg-type]
    assert (whole.wrong, whole.same) == ((), len(windows) - len(lacking))


def halfway(lending: Make, app: str) -> LendingFleet:
    """A fleet after a day, in the middle of which an agent without a log has died that was this app's master alone."""
    fleet = next(one for salt in "abcdefghijkl" if is_alone(one := lending(size=6, servers=3, salt=salt), app))
    dice = random.Random(4)
    fleet.pass_time(dice, MIDNIGHT_MS - 3 * HOUR_MS, DEATH_MS)
    dead = next(agent for agent in fleet.agents if agent.name == masters(fleet)[app])
    fleet.agents.remove(dead)
    fleet.network.remove(dead.node)
    fleet.wait_long(25.0)
    fleet.pass_time(dice, DEATH_MS + 10 * MINUTE_MS, MIDNIGHT_MS + 20 * MINUTE_MS)
    return fleet


def is_alone(fleet: LendingFleet, app: str) -> bool:
    """Begins the job; whether the master of an app is one of nothing else, and has no log."""
    fleet.begin()
    names = list(masters(fleet).values())
    return names.count(masters(fleet)[app]) == 1 and masters(fleet)[app] not in {one.name for one in fleet.readers}


def masters(fleet: LendingFleet) -> dict[str, str]:
    return {job.name: job.master_name for job in fleet.agents[0].directory.all()}
