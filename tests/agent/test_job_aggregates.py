"""Jobs with aggregates of their own: beside the logs, on the way, and at the master."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable

import msgspec
import polars as pl
import pytest
from memory_fleet import WALL_MS
from program_fleet import Make, ProgramFleet, ended
from recording_client import client_of
from seeds import seeds

from agent import WindowResult
from agent.parsing import Parsed
from agent.programs.calls import StatesFolded, read_act
from agent.runtime.model.bundle import Contents
from elf.signing.creator import signed_bundle
from overlay import Id

FIRST_S, LAST_S = 2, 8
SPENDERS = """
    import elf

    class Top(elf.Aggregate):
        def lift(self, user, amount):
            return {user: amount}

        def combine(self, one, other):
            return {user: one.get(user, 0) + other.get(user, 0) for user in {**one, **other}}

        def lower(self, state):
            return sorted(state.items(), key=lambda spent: (-spent[1], spent[0]))[:2]

    class Largest(elf.Aggregate):
        gives = "integer"

        def lift(self, amount):
            return amount

        def combine(self, one, other):
            return max(one, other)

    class Spenders(elf.Job):
        aggregates = {"TOP_SPENDERS": Top, "LARGEST": Largest}
        query = '''<query>'''
"""
TOP = "SELECT store, TOP_SPENDERS(user, amount) AS top, COUNT(*) AS n FROM web GROUP BY store"
Event = tuple[int, str, str, int]
"""A time (ms after the fleet's beginning), a store, a user and an amount."""


def spenders(text: str) -> str:
    return SPENDERS.replace("<query>", text)


def drawn(source: random.Random, agents: int) -> list[list[Event]]:
    """Events of each agent, in the order of their times."""

    def one() -> Event:
        at_ms = source.randrange(FIRST_S * 1000, LAST_S * 1000)
        return at_ms, source.choice("abc"), source.choice("xyz"), source.randint(1, 9)

    return [sorted(one() for _ in range(source.randint(0, 40))) for _ in range(agents)]


def block(some: list[Event]) -> Parsed:
    times, stores, users, amounts = zip(*some, strict=True)
    columns = {"@time": [WALL_MS + time for time in times], "store": stores, "user": users, "amount": amounts}
    return Parsed((pl.DataFrame(columns),), malformed=0)


def read(fleet: ProgramFleet, of_agents: list[list[Event]]) -> None:
    """Agents read their events in blocks, and at last one that closes all panes."""
    for number, mine in enumerate(of_agents):
        for begin in range(0, len(mine), 15):
            fleet.insert(number, block(mine[begin : begin + 15]))
            fleet.settle()
        fleet.insert(number, block([(30_000, "a", "x", 1)]))
    fleet.work()
    fleet.wait(1.0)


def top_of(some: Iterable[Event]) -> str:
    spent: Counter[str] = Counter()
    for _, _, user, amount in some:
        spent[user] += amount
    best = sorted(spent.items(), key=lambda one: (-one[1], one[0]))[:2]
    return json.dumps(best, separators=(",", ":"))


def expected(of_agents: list[list[Event]], size_s: int, every_s: int) -> dict[int, list[dict[str, object]]]:
    """The rows of each window that has events, by its start in seconds after the fleet's beginning."""
    found: dict[int, list[dict[str, object]]] = {}
    every = [one for mine in of_agents for one in mine]
    for start in range(FIRST_S - size_s, LAST_S):
        if (WALL_MS // 1000 + start) % every_s == 0:
            by_store: defaultdict[str, list[Event]] = defaultdict(list)
            for one in every:
                if start * 1000 <= one[0] < (start + size_s) * 1000:
                    by_store[one[1]].append(one)
            if by_store:
                rows = [{"store": store, "top": top_of(some), "n": len(some)} for store, some in by_store.items()]
                found[start] = sorted(rows, key=lambda row: str(row["store"]))
    return found


def shown(results: list[WindowResult]) -> dict[int, list[dict[str, object]]]:
    """The rows of each window that has some, as `expected` has them."""
    starts = pl.Series([one.window_start for one in results]).str.to_datetime(time_zone="UTC").dt.epoch("ms").to_list()
    rows = [sorted(map(dict, one.rows), key=lambda row: str(row["store"])) for one in results]
    return {(start - WALL_MS) // 1000: of_window for start, of_window in zip(starts, rows, strict=True) if of_window}


def folds(fleet: ProgramFleet) -> list[tuple[str, StatesFolded]]:
    """What programs fold from now on, by agent."""
    seen: list[tuple[str, StatesFolded]] = []

    def note(agent: object, said: bytes) -> None:
        act = read_act(said)
        if isinstance(act, StatesFolded):
            seen.append((str(getattr(agent, "name", "")), act))

    fleet.meanwhile = note
    return seen


@pytest.mark.parametrize("seed", seeds(0, slow=range(1, 4)))
@pytest.mark.parametrize(("windows", "size_s", "every_s"), [("1 SECOND", 1, 1), ("3 SECONDS EVERY 1 SECOND", 3, 1)])
def test_results_are_those_of_all_events_together(
    fleet_of: Make, seed: int, windows: str, size_s: int, every_s: int
) -> None:
    fleet = fleet_of(3)
    of_agents = drawn(random.Random(seed), 3)
    fleet.submit_code(spenders(f"{TOP} WINDOWING {windows}"))
    fleet.catch_up()
    read(fleet, of_agents)
    wanted = expected(of_agents, size_s, every_s)
    results = {start: rows for start, rows in shown(fleet.results).items() if start < LAST_S}
    assert results == {start: rows for start, rows in wanted.items() if start in results}
    assert {start for start in wanted if start >= FIRST_S} <= results.keys()


def test_trees_and_their_owners_make_the_same_windows(fleet_of: Make) -> None:
    fleet = fleet_of(6)
    of_agents = drawn(random.Random(7), 6)
    fleet.submit_code(spenders(f"{TOP} WINDOWING 3 SECONDS EVERY 1 SECOND TREES 3"))
    fleet.catch_up()
    read(fleet, of_agents)
    wanted = expected(of_agents, 3, 1)
    results = {start: rows for start, rows in shown(fleet.results).items() if FIRST_S <= start < LAST_S}
    assert results == {start: rows for start, rows in wanted.items() if start >= FIRST_S}


def test_agents_without_the_stream_run_no_code_and_pass_states_on(fleet_of: Make) -> None:
    fleet = fleet_of(24, bystanders=16, salt="6")
    seen = folds(fleet)
    of_agents = drawn(random.Random(3), 8)
    key = fleet.submit_code(spenders(f"{TOP} WINDOWING 1 SECOND"))
    fleet.catch_up()
    read(fleet, of_agents)
    assert shown(fleet.results) | {30: []} == expected(of_agents, 1, 1) | {30: []}
    forwarders = [one.name for one in fleet.agents if (job := one.jobs.get(key)) is not None and job.forwards]
    (master,) = [one.name for one in fleet.agents if (job := one.jobs.get(key)) is not None and job.root is not None]
    without = {name for name in forwarders if int(name.split("-")[1]) >= 8} - {master}
    assert without, "some agents are on the way"
    assert {name for name, _ in seen} == {f"agent-{number}" for number in range(8)} | {master}


def test_workers_send_one_state_of_a_group(fleet_of: Make) -> None:
    fleet = fleet_of(1)
    seen = folds(fleet)
    fleet.submit_code(spenders(f"{TOP} WINDOWING 1 SECOND"))
    fleet.catch_up()
    read(fleet, [[(3000 + number, "ab"[number % 2], "x", 1) for number in range(30)]])
    assert [[text[0] for text in one.texts if text] for _, one in seen] == [["s", "s"], ["r", "r"]]


def test_several_aggregates_beside_filters_orders_and_others(fleet_of: Make) -> None:
    fleet = fleet_of(2)
    fleet.submit_code(
        spenders(
            "SELECT store, LARGEST(amount) FILTER (WHERE user = 'x') AS most, LARGEST(amount) + 1 AS more,"
            " TOP_SPENDERS(UPPER(user), amount) AS top, SUM(amount) AS sum FROM web WHERE amount > 1 GROUP BY store"
            " HAVING LARGEST(amount) >= 5 ORDER BY LARGEST(amount) DESC LIMIT 2 WINDOWING 1 SECOND"
        )
    )
    fleet.catch_up()
    mine = [(3000, "a", "x", 7), (3001, "a", "y", 8), (3002, "b", "y", 9), (3003, "c", "x", 4), (3004, "a", "z", 1)]
    read(fleet, [mine, [(3005, "d", "x", 5), (3006, "a", "x", 2)]])
    assert [dict(row) for row in fleet.results[0].rows] == [
        {"store": "b", "most": None, "more": 10, "top": '[["Y",9]]', "sum": 9},
        {"store": "a", "most": 7, "more": 9, "top": '[["X",9],["Y",8]]', "sum": 17},
    ]


def test_without_groups_a_window_has_one_row(fleet_of: Make) -> None:
    fleet = fleet_of(2)
    fleet.submit_code(spenders("SELECT LARGEST(amount) AS most FROM web WINDOWING 1 SECOND"))
    fleet.catch_up()
    read(fleet, [[(3000, "a", "x", 7), (5000, "a", "y", 8)], [(3500, "a", "x", 9)]])
    assert [dict(row) for one in fleet.results for row in one.rows] == [{"most": 9}, {"most": 8}]


def test_events_that_the_code_maps_are_folded_too(fleet_of: Make) -> None:
    fleet = fleet_of(2)
    mapped = spenders("SELECT store, LARGEST(cents) AS most FROM web GROUP BY store WINDOWING 1 SECOND").rstrip()
    mapped += """
        reads = {"store": "string", "amount": "integer"}

        def map(self, event):
            return {"store": event["store"], "cents": 100 * event["amount"]}
"""
    fleet.submit_code(mapped)
    fleet.catch_up()
    read(fleet, [[(3000, "a", "x", 7)], [(3500, "a", "x", 9)]])
    assert [dict(row) for row in fleet.results[0].rows] == [{"store": "a", "most": 900}]


def test_groups_beyond_the_limit_are_folded_as_one(fleet_of: Make) -> None:
    fleet = fleet_of(2)
    app, contents = fleet.contents(
        spenders("SELECT user, LARGEST(amount) AS most FROM web GROUP BY user WINDOWING 1 SECOND")
    )
    first = contents[app].functions[0]
    few = msgspec.structs.replace(first, plan={**first.plan, "max_groups": 1})
    key, bundle = signed_bundle(fleet.maria, app, Contents([few], contents[app].source), fleet.wall_ms)  # type: ignore[arg-type]
    fleet.submit_bundle(app, key, bundle)
    fleet.catch_up()
    read(fleet, [[(3000, "a", "x", 7), (3001, "a", "y", 3)], [(3500, "a", "z", 9), (3600, "a", "y", 1)]])
    result = fleet.results[0]
    assert result.other is not None
    assert max([dict(row)["most"] for row in result.rows] + [result.other.values["most"]]) == 9


# What is wrong.


def failed(fleet: ProgramFleet, source: str) -> tuple[str, str, Id]:
    """How a job ends that reads an event of each of two agents, and what its log says."""
    key = fleet.submit_code(source)
    client_of(fleet.agents[0]).follow(key, None, fleet.now)
    fleet.catch_up()
    read(fleet, [[(3000, "a", "x", 7)], [(3100, "a", "y", 8)]])
    reason, failure = ended(fleet)
    assert reason == "failed"
    return failure, "\n".join(text for _, text in fleet.log(key)), key


@pytest.mark.parametrize(
    ("method", "deed", "said"),
    [
        ("lift", "return {}['price']", "KeyError: 'price' (job.py:6)"),
        ("combine", "raise ValueError('no such state')", "ValueError: no such state (job.py:9)"),
        ("lower", "return 1 / 0", "ZeroDivisionError: division by zero (job.py:12)"),
        (
            "lift",
            "return 'x' * 70_000",
            "AggregateError: TOP_SPENDERS: a state of 70,005 bytes; at most 65,536 are taken",
        ),
        (
            "combine",
            "return object()",
            "AggregateError: TOP_SPENDERS: its state is not made of plain values: object is none",
        ),
        (
            "lower",
            "return 'x' * 70_000",
            "AggregateError: TOP_SPENDERS: a result of 70,002 bytes; at most 65,536 are taken",
        ),
    ],
)
def test_an_aggregate_that_fails_ends_its_job_and_no_other(fleet_of: Make, method: str, deed: str, said: str) -> None:
    fleet = fleet_of(2)
    good = fleet.submit("SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND", "good", bounded=False)
    own = {
        "lift": "return {user: amount}",
        "combine": "return {user: one.get(user, 0) + other.get(user, 0) for user in {**one, **other}}",
        "lower": "return sorted(state.items(), key=lambda spent: (-spent[1], spent[0]))[:2]",
    }[method]
    failure, log, _ = failed(fleet, spenders(f"{TOP} WINDOWING 1 SECOND").replace(own, deed))
    assert failure.startswith("its code has failed on agent-")
    assert said in failure
    assert "Traceback" in log
    assert [job.app_id for agent in fleet.agents for job in agent.directory.all()] == [good] * 2
