"""The shipped job lending over agents in memory: five operators, windows of ten minutes to a day."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lending_fleet import MIDNIGHT_MS, MINUTE_MS, LendingFleet, application
from seeds import seeds

from elf.demo.lending.lending_truth import DAY_MS, HOUR_MS, OPERATORS, SIZES_MS
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


@pytest.mark.parametrize(("seed", "hours", "most"), seeds((2, 2, 1), slow=[(1, 2, 4), (3, 25, 4)]))
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


@pytest.mark.slow
def test_a_day_goes_on_with_the_next_masters(lending: Make) -> None:
    """Masters have no log here: their successors make the windows that were open of what agents have kept and, for the
    windows of windows, of what the master before has sealed."""
    fleet = next(one for salt in "abcdefghijkl" if is_apart(one := lending(size=6, servers=3, salt=salt)))
    dice = random.Random(4)
    begun_ms = MIDNIGHT_MS - 3 * HOUR_MS
    fleet.pass_time(dice, begun_ms, DEATH_MS)
    dead = next(agent for agent in fleet.agents if agent.name in masters(fleet).values())
    fleet.agents.remove(dead)
    fleet.network.remove(dead.node)
    fleet.wait_long(25.0)
    fleet.pass_time(dice, DEATH_MS + 10 * MINUTE_MS, MIDNIGHT_MS + 20 * MINUTE_MS)
    assert dead.name not in masters(fleet).values()
    assert [one.wrong for one in fleet.agreements(MIDNIGHT_MS)] == [()] * 5
    lacking = [one for one in fleet.results if one.missing or one.partial or one.late]
    assert all(instant(one.window_start or "") < begun_ms for one in lacking), "none lacks what was read before"
    for app in ("lending.interest", "lending"):
        sizes = Counter(instant(one.window_end or "") - instant(one.window_start or "") for one in fleet.windows(app))
        assert sizes.keys() == set(SIZES_MS)


def is_apart(fleet: LendingFleet) -> bool:
    """Begins the job; whether its master, which is that of all stages, has no log."""
    fleet.begin()
    (name,) = set(masters(fleet).values())
    return name not in {one.name for one in fleet.readers}


def masters(fleet: LendingFleet) -> dict[str, str]:
    return {job.name: job.master_name for job in fleet.agents[0].directory.all()}
