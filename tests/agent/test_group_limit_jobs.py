"""A job keeps so many groups and no more: what is in rows is exact, and OTHER is the rest, whoever had which event."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import polars as pl
import pytest
from memory_fleet import COUNT, KEY, Fleet, events
from recording_client import client_of

import cbt
import query
from agent import Ended, WindowResult
from agent.control import messages as control
from agent.parsing import Parsed
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.result import OtherGroups
from agent.runtime.ingest import operator_pool

PRICES = (
    "SELECT product, COUNT(*) AS n, SUM(price) AS total, SUM(price) / COUNT(*) AS mean, product AS again FROM web "
    "GROUP BY product ORDER BY n DESC LIMIT 5 WINDOWING 1 SECOND"
)


def shopping(seed: int, count: int = 400) -> list[tuple[int, str | None, int]]:
    """Events of two windows as (time, product, price), with products that many or few have."""
    draw = random.Random(seed)
    products = [None, *(f"product-{number}" for number in range(150))]
    return [
        (draw.choice((0, 500, 1000)), draw.choice(products[: draw.choice((3, 40, 151))]), draw.randrange(100))
        for _ in range(count)
    ]


def block(rows: list[tuple[int, str | None, int]]) -> Parsed:
    schema = {"@time": pl.Int64(), "product": pl.String(), "price": pl.Int64()}
    return Parsed((pl.DataFrame(rows, schema=schema, orient="row"),), malformed=0)


def results(agents: int, rows: list[tuple[int, str | None, int]], text: str, **limits: Any) -> list[WindowResult]:
    """What a fleet of so many answers; events are dealt at random."""
    fleet = Fleet(agents)
    fleet.submit(text, **limits)
    draw = random.Random(agents)
    owners = [draw.randrange(agents) for _ in rows]
    for number in range(agents):
        fleet.insert(number, block([row for row, owner in zip(rows, owners, strict=True) if owner == number]))
    found = fleet.finish()
    assert [(result.contributors, result.missing, result.partial) for result in found] == [(agents, [], [])] * 2
    assert sum(agent.refused for agent in fleet.agents) == 0
    return found


@pytest.mark.parametrize("max_groups", [1, 3, 60])
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_are_exact_and_other_is_the_rest_however_events_were_dealt(seed: int, max_groups: int) -> None:
    rows = shopping(seed)
    text = COUNT.replace("AS n", "AS n, SUM(price) AS total")
    alone, together = results(1, rows, text, max_groups=max_groups), results(7, rows, text, max_groups=max_groups)
    in_trees = results(5, rows, f"{text} TREES 4", max_groups=max_groups)
    for one, seven, five in zip(alone, together, in_trees, strict=True):
        assert (list(one.rows), one.other) == (list(seven.rows), seven.other) == (list(five.rows), five.other)
    for pane, result in zip((0, 1000), alone, strict=True):
        truth, total = Counter[str | None](), Counter[str | None]()
        for time, product, price in rows:
            if time // 1000 * 1000 == pane:
                truth[product] += 1
                total[product] += price
        assert len(result.rows) == max_groups
        assert {row["product"]: (row["n"], row["total"]) for row in result.rows} == {
            row["product"]: (truth[row["product"]], total[row["product"]]) for row in result.rows
        }
        assert result.other is not None
        assert result.other.kept == max_groups
        assert sum(row["n"] for row in result.rows) + result.other.values["n"] == truth.total() == result.events
        assert sum(row["total"] for row in result.rows) + result.other.values["total"] == total.total()
        if result.other.relative_error is not None:
            estimate, groups = result.other.kept + result.other.groups, len(truth)
            assert abs(estimate - groups) <= result.other.relative_error * groups


def test_order_and_limit_see_no_other_and_columns_with_keys_say_nothing_of_it() -> None:
    rows = shopping(3)
    for one, seven in zip(
        results(1, rows, PRICES, max_groups=20), results(7, rows, PRICES, max_groups=20), strict=True
    ):
        assert (list(one.rows), one.other) == (list(seven.rows), seven.other)
        assert len(one.rows) == 5
        assert one.other is not None
        assert set(one.other.values) == {"n", "total", "mean"}
        assert one.other.values["mean"] == pytest.approx(one.other.values["total"] / one.other.values["n"])


@pytest.mark.parametrize("max_groups", [151, query.GROUPS_DEFAULT])
def test_within_the_limit_there_is_no_other(max_groups: int) -> None:
    assert [result.other for result in results(3, shopping(4), COUNT, max_groups=max_groups)] == [None, None]


def test_queries_that_group_by_nothing_have_no_limit() -> None:
    (result, _) = results(2, shopping(5), "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND", max_groups=1)
    assert (len(result.rows), result.other) == (1, None)
    (result, _) = results(2, shopping(5), "SELECT product FROM web LIMIT 9 WINDOWING 1 SECOND", max_groups=1)
    assert (len(result.rows), result.other) == (9, None)


def test_groups_without_aggregates_have_an_other_without_values() -> None:
    (result, _) = results(2, shopping(5), "SELECT product FROM web GROUP BY product WINDOWING 1 SECOND", max_groups=2)
    assert result.other == OtherGroups(2, 1, None, {})


def test_what_an_agent_seals_is_folded_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pane of far more groups than fit a run comes out as one within the limit, and so does the next pane."""
    monkeypatch.setattr(operator_pool, "ROWS_PER_RUN", 10)
    monkeypatch.setattr(cbt.CompressedBufferTree.__init__, "__kwdefaults__", small_leaves())
    gathered: list[int] = []
    gather = JobFunction.gather

    def counted(function: JobFunction, frames: list[pl.DataFrame]) -> pl.DataFrame:
        gathered.append(sum(frame.height for frame in frames))
        return gather(function, frames)

    monkeypatch.setattr(JobFunction, "gather", counted)
    rows = shopping(6)
    text = COUNT.replace("AS n", "AS n, SUM(price) AS total")
    cut = results(3, rows, text, max_groups=4)
    monkeypatch.undo()
    assert 10 < max(gathered) <= 10 + 8
    assert [(list(one.rows), one.other) for one in cut] == [
        (list(one.rows), one.other) for one in results(1, rows, text, max_groups=4)
    ]


def small_leaves() -> dict[str, Any]:
    defaults = cbt.CompressedBufferTree.__init__.__kwdefaults__ or {}
    return {**defaults, "buffer_rows": 8, "leaf_rows": 8}


@pytest.mark.parametrize("agents", [1, 5])
def test_too_many_groups_end_the_job_where_that_is_an_error(agents: int) -> None:
    fleet = Fleet(agents)
    fleet.submit(max_groups=2, beyond_groups="error", by=agents - 1)
    client_of(fleet.agents[0]).follow(KEY, None, fleet.now)
    fleet.settle()
    for number in range(agents):
        fleet.insert(number, events("a", "b", at_ms=0))
        fleet.insert(number, events("a", f"product-{number}", at_ms=2000))
    fleet.insert(0, events("x", "y", "z", at_ms=3000))
    fleet.insert(0, events("x", "y", "z", at_ms=9000))
    fleet.finish()
    fleet.wait_long(1.0)
    windows = [result.window_start for result in fleet.results]
    crowded = "1970-01-01T00:00:03Z" if agents == 1 else "1970-01-01T00:00:02Z"
    assert windows == ["1970-01-01T00:00:00Z", "1970-01-01T00:00:02Z"][: 2 if agents == 1 else 1]
    (ended,) = [notice for notice in fleet.notices(0) if isinstance(notice, Ended)]
    assert ended.reason == "failed"
    assert f"from {crowded} has more groups than the 2 it may have" in ended.failure
    assert [agent.status().jobs for agent in fleet.agents] == [()] * agents


def test_the_next_master_fails_over_the_same_window() -> None:
    """What was not out when its master died is not taken for done."""
    fleet = Fleet(1)
    fleet.submit(max_groups=2, beyond_groups="error")
    master = fleet.agents[0].masters.state(KEY)
    assert master is not None
    fleet.insert(0, events("a", "b", "c", at_ms=5000))
    fleet.insert(0, events("a", at_ms=1000))
    fleet.finish()
    assert (len(fleet.results), master.frontier, master.failure is not None) == (1, 4999, True)


def test_clients_and_plans_know_the_same_limits() -> None:
    assert (control.GROUPS_DEFAULT, control.GROUPS_MAX) == (query.GROUPS_DEFAULT, query.GROUPS_MAX)
