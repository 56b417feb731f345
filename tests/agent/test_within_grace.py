"""WITHIN in a fleet: late events are awaited as long as it leaves, and windows that change have shorter parts."""

from __future__ import annotations

from collections import Counter

import pytest
from memory_fleet import KEY, WALL_MS, Fleet, events
from recording_client import client_of

from agent import Update, WindowResult
from query import Schema, analyze, parse
from query.model.timestamps import parse_timestamp

WINDOWS = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 4 SECONDS"
START = (WALL_MS // 4000 + 1) * 4000
"""The start of the first whole window."""


class Shop:
    """A fleet that logs events at times of its own, while the clock goes on; the job's grace is the default."""

    def __init__(self, clauses: str) -> None:
        self.fleet = Fleet(2)
        self.fleet.submit(f"{WINDOWS} {clauses}", bounded=False)
        self.fleet.catch_up()
        self.until(START)

    def until(self, wall_ms: int) -> None:
        """Lets the clock come to a time, by steps in which all read their logs to the end."""
        while self.fleet.wall_ms < wall_ms:
            self.fleet.wait(min(0.1, (wall_ms - self.fleet.wall_ms) / 1000))
            self.fleet.catch_up()

    def log(self, number: int, product: str, at_ms: int) -> None:
        self.fleet.insert(number, events(product, at_ms=at_ms))

    def of(self, start: int) -> list[tuple[dict[str, int], bool]]:
        """What was shown of a window, and whether that was the last of it."""
        found = [one for one in self.fleet.results if parse_timestamp(one.window_start or "") == start]
        return [(rows(one), one.final) for one in found]


def rows(result: WindowResult) -> dict[str, int]:
    return {str(row["product"]): int(row["n"] or 0) for row in result.rows}


def test_the_grace_that_is_not_stated_is_a_quarter_of_the_limit() -> None:
    shop = Shop("WITHIN 2 SECONDS")
    shop.log(0, "a", START + 100)
    shop.until(START + 4300)
    shop.log(1, "late", START + 3900)
    shop.until(START + 6000)
    assert shop.of(START) == [({"a": 1, "late": 1}, True)]
    shop.log(1, "too late", START + 3900)
    shop.until(START + 12_000)
    assert sum(one.late for one in shop.fleet.results) == 1
    assert len(shop.of(START)) == 1


@pytest.mark.parametrize("clauses", ["", "GRACE 5 SECONDS WITHIN 6 SECONDS"])
def test_without_it_or_beside_a_stated_grace_nothing_changes(clauses: str) -> None:
    shop = Shop(clauses)
    shop.log(0, "a", START + 100)
    shop.until(START + 8900)
    assert shop.of(START) == []
    shop.until(START + 11_000)
    assert shop.of(START) == [({"a": 1}, True)]


def test_changes_are_shown_in_parts_of_less_than_a_second() -> None:
    shop = Shop("EMIT CHANGES WITHIN 1 SECOND")
    for number in range(8):
        shop.log(number % 2, "a", START + 500 * number + 10)
        shop.until(START + 500 * number + 500)
    shop.until(START + 1000 + 10)
    assert [n for shown, _ in shop.of(START) for n in shown.values()][:2] == [1, 2]
    shop.until(START + 5000)
    shown = shop.of(START)
    assert [number for one, _ in shown for number in one.values()] == [*range(1, 9), 8]
    assert [final for _, final in shown] == [False] * 8 + [True]


def test_an_update_may_ask_for_it_and_take_it_back() -> None:
    shop = Shop("")
    shop.until(START + 1000)
    for number, clauses in enumerate(("WITHIN 2 SECONDS ELSE PARTIAL", "")):
        text = f"{WINDOWS} {clauses}"
        plan = analyze(parse(text), {"web": Schema({}, open=True)})
        client_of(shop.fleet.agents[0]).update(
            Update(KEY, plan.to_wire(), text, False, number + 1), shop.fleet.now, shop.fleet.wall_ms
        )
        for second in range(20):
            shop.log(second % 2, "a", shop.fleet.wall_ms)
            shop.until(shop.fleet.wall_ms + 1000)
    shop.until(shop.fleet.wall_ms + 20_000)
    assert {one.version for one in shop.fleet.results} == {1, 2, 3}
    times = Counter(one.window_start for one in shop.fleet.results)
    assert set(times.values()) == {1}
    assert sum(sum(rows(one).values()) for one in shop.fleet.results) == 40
