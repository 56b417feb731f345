"""Jobs of several trees, each for a range of keys: the same results as those of one, whoever is a root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from memory_fleet import Fleet, events

from agent import Result

GROUPED = (
    "SELECT product, COUNT(*) AS n, SUM(price) AS s, MIN(price) AS least, AVG(price) AS mean FROM web GROUP BY product"
)
WORDS = [f"product-{number}" for number in range(40)]


def results(sql: str, size: int, *, bystanders: int = 0, **options: Any) -> list[Result]:
    fleet = Fleet(size, bystanders)
    fleet.submit(sql, **options)
    for number in range(size - bystanders):
        for at_ms in (0, 700, 2500):
            products = WORDS[number % 3 :: 1 + number % 4]
            prices = [float((number + place) % 7) for place in range(len(products))]
            fleet.insert(number, events(*products, None, at_ms=at_ms, price=[*prices, 1.5]))
    return fleet.finish()


def told(found: Sequence[Result]) -> list[tuple[Any, ...]]:
    return [
        (one.rows, one.window_start, one.contributors, one.missing, one.partial, one.events, one.other) for one in found
    ]


@pytest.mark.parametrize(("size", "bystanders"), [(1, 0), (2, 1), (5, 0), (9, 4)])
@pytest.mark.parametrize("trees", [2, 4, 64])
def test_several_trees_give_what_one_gives(size: int, bystanders: int, trees: int) -> None:
    for sql in (GROUPED, f"{GROUPED} ORDER BY n DESC LIMIT 3 WINDOWING 1 SECOND"):
        one, several = (results(f"{sql} TREES {m}", size, bystanders=bystanders) for m in (1, trees))
        assert told(one) == told(several)
        assert one[0].contributors == size - bystanders
        assert not one[0].partial
