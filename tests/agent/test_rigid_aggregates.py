"""Aggregates without `combine`: made of all rows of a stage together, in their order."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import polars as pl
import pytest
from memory_fleet import WALL_MS
from program_fleet import Make, ProgramFleet, ended
from recording_client import client_of

import query
from agent import WindowResult
from agent.parsing import Parsed

Event = tuple[float, str, int]
"""When (seconds), a store and an amount."""
STEEP = """
    import elf

    class Sale:
        def __init__(self, amount):
            self.amount = amount

    class Rises(elf.Aggregate):
        gives = "integer"
        examples = [(1,), (2,)]

        def lift(self, amount):
            return Sale(amount)

        def lower(self, sales):
            return sum(one.amount < next.amount for one, next in zip(sales, sales[1:]))

    class Steep(elf.Job):
        aggregates = {"RISES": Rises}
        stages = {"sold": "SELECT store, SUM(amount) AS sold FROM web GROUP BY store WINDOWING 1 SECOND"}
        query = '''<query>'''
"""
RISES = "SELECT store, RISES(sold) AS rises, COUNT(*) AS n FROM app('sold') GROUP BY store WINDOWING {windows}"


def steep(windows: str) -> str:
    return STEEP.replace("<query>", RISES.format(windows=windows))


def play(fleet: ProgramFleet, of_agents: list[list[Event]], upto: float = 30.0) -> None:
    """Agents read their events, and at last one that closes all windows."""
    for number, mine in enumerate(of_agents):
        rows = [(WALL_MS + int(at * 1000), store, amount) for at, store, amount in [*sorted(mine), (upto, "z", 0)]]
        frame = pl.DataFrame(rows, {"@time": pl.Int64, "store": pl.String, "amount": pl.Int64}, orient="row")
        fleet.insert(number, Parsed((frame,), malformed=0))
    fleet.work()
    fleet.wait_long(5.0)
    fleet.work()


def expected(of_agents: list[list[Event]], size_s: int, every_s: int) -> dict[int, dict[str, tuple[int, int]]]:
    """The rises of each store and the number of its rows, by the start of each whole window (seconds)."""
    sold: dict[str, Counter[int]] = {}
    for at, store, amount in (event for mine in of_agents for event in mine):
        sold.setdefault(store, Counter())[int(at)] += amount
    found: dict[int, dict[str, tuple[int, int]]] = {}
    for start in range(0, 60, every_s):
        for store, amounts in sold.items():
            inside = [amounts[second] for second in range(start, start + size_s) if second in amounts]
            if inside:
                rises = sum(one < following for one, following in pairwise(inside))
                found.setdefault(start, {})[store] = rises, len(inside)
    return found


def begun(fleet: ProgramFleet, source: str) -> None:
    client_of(fleet.agents[0]).follow(fleet.submit_code(source), None, fleet.now)
    fleet.wait_long(3.0)
    fleet.catch_up()


@pytest.mark.parametrize(("windows", "size_s", "every_s"), [("4 SECONDS", 4, 4), ("6 SECONDS EVERY 2 SECONDS", 6, 2)])
def test_results_are_those_of_all_rows_in_their_order(fleet_of: Make, windows: str, size_s: int, every_s: int) -> None:
    fleet, draw = fleet_of(3), random.Random(3)
    begun(fleet, steep(windows))
    of_agents = [[(draw.uniform(12, 24), draw.choice("abc"), draw.randint(1, 9)) for _ in range(25)] for _ in range(3)]
    play(fleet, of_agents)
    found, wanted = shown(fleet.results, range(12, 20)), expected(of_agents, size_s, every_s)
    assert found == {start: rows for start, rows in wanted.items() if 12 <= start < 20}
    assert sum(rises for rows in found.values() for rises, _ in rows.values()) > 0


def shown(results: list[WindowResult], within: range) -> dict[int, dict[str, tuple[int, int]]]:
    """The same as `expected` of the job's windows that begin within some seconds, without those of its stage."""
    results = [one for one in results if all("rises" in dict(row) for row in one.rows)]
    starts = [((query.parse_timestamp(one.window_start or "") or 0) - WALL_MS) // 1000 for one in results]
    rows = [{row["store"]: (row["rises"], row["n"]) for row in map(dict, one.rows)} for one in results]
    return {start: of_window for start, of_window in zip(starts, rows, strict=True) if start in within and of_window}


@pytest.mark.parametrize("app", ["steep", "steep.sold"])
def test_the_next_master_has_all_rows_in_one_place_again(fleet_of: Make, app: str) -> None:
    fleet, draw = fleet_of(5), random.Random(4)
    begun(fleet, steep("4 SECONDS"))
    play(fleet, [[(draw.uniform(12, 20), draw.choice("abc"), draw.randint(1, 9)) for _ in range(9)] for _ in range(5)])
    job = next(job for job in fleet.agents[0].directory.all() if job.name == app)
    dead = next(agent for agent in fleet.agents if agent.name == job.master_name)
    fleet.agents.remove(dead)
    fleet.network.remove(dead.node)
    fleet.wait_long(25.0)
    key = next(job.app_id for job in fleet.agents[0].directory.all() if job.name == "steep")
    client_of(fleet.agents[0]).follow(key, None, fleet.now)
    later = [[(draw.uniform(40, 48), draw.choice("abc"), draw.randint(1, 9)) for _ in range(20)] for _ in range(4)]
    play(fleet, later, 58.0)
    found = shown(fleet.results, range(40, 48))
    assert found == {start: rows for start, rows in expected(later, 4, 4).items() if start >= 40}
    assert len(found) == 2


def test_rows_beyond_the_limit_end_the_job_in_a_line_that_says_why(
    fleet_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("agent.runtime.job.state_folds.RIGID_ROWS_MAX", 2)
    fleet = fleet_of(1)
    begun(fleet, steep("8 SECONDS"))
    play(fleet, [[(16.0 + second, "a", second) for second in range(8)]])
    reason, failure = ended(fleet)
    assert reason == "failed"
    assert "RISES(sold) has no combine, and a group of a window has 8 rows of 168 bytes; at most 2 of" in failure
    assert "choose shorter windows, group by more columns, or give it a combine" in failure


def test_events_of_a_stream_are_refused_with_what_to_do(fleet_of: Make) -> None:
    fleet = fleet_of(1)
    with pytest.raises(query.QueryError) as refused:
        fleet.submit_code(steep("4 SECONDS").replace("FROM app('sold')", "FROM web"))
    assert "RISES has no combine, so it takes all rows of a group in one place" in str(refused.value)
    assert "give it a combine, or put the query over a stage's rows: FROM app('its name')" in str(refused.value)
