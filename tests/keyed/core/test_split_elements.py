"""Elements whose keys are split among workers: each event is processed once, whatever happens to agents."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import polars as pl
import pytest
from fleet_of_elements import FIRST_MS, Agent, Fleet, element, graph_of, model, type_
from seeds import seeds
from test_random_graphs import check_coming_and_going, check_guaranteed, lost_nodes

from agent.runtime.keyed.elements.runtime import EVENT_TIME, SEQ, SOURCE

GROUPINGS = ("fish", "shuffle", "fields", "pkg", "dchoices", "wchoices")
QUICK = (1, 3)
"""Seeds whose fleets take least of a processor."""
ACTS = ("restart", "crash", "join", "cut", "leave")
HOT = [("hot", "g", 1)] * 12
"""Rows of one key."""


@pytest.mark.parametrize("seed", seeds(*QUICK, slow=sorted({*range(1000)} - {*QUICK})))
def test_split_elements_lose_and_double_nothing(seed: int) -> None:
    check_guaranteed(seed, GROUPINGS)


@pytest.mark.parametrize("seed", seeds(1, slow=[0, *range(2, 300)]))
def test_unguaranteed_split_elements_lose_nothing_where_agents_only_come_and_go(seed: int) -> None:
    check_coming_and_going(seed, GROUPINGS)


def one_stage(grouping: str = "fish", workers: int = 16, *, guaranteed: bool = True):
    count = element("Count", ("S", ["a"]), emits=["T"], grouping=grouping, workers=workers)
    return graph_of([type_("S", guaranteed=guaranteed), type_("T", guaranteed=guaranteed)], [count], ["S"])


def parts(fleet: Fleet, key: str) -> dict[int, int]:
    """The events of a key that each node has."""
    found: dict[int, int] = defaultdict(int)
    for agent in fleet.agents.values():
        for part, (node, count, _) in agent.runtimes["Count"].state.items():
            if part.partition("/")[2] == key and agent.job._host.owned[node]:
                found[node] += count
    return found


def pressed(fleet: Fleet, source: Agent, rows: list[tuple[str, str, int]], times: int) -> None:
    for _ in range(times):
        fleet.insert(source, "S", rows)
        fleet.run(0.05, 0.05)


@pytest.mark.parametrize(("agents", "seed"), seeds(slow=[(16, 1), *((128, seed) for seed in range(300))]))
def test_many_agents_count_each_event_once_where_some_die_and_others_come(agents: int, seed: int) -> None:
    """As many workers as agents; these die, are started again, come and are cut off."""
    pick = random.Random(seed)
    fleet = Fleet(one_stage(pick.choice(GROUPINGS), agents), agents, seed)
    sources = list(fleet.agents.values())[:4]
    words = [f"w{int(pick.paretovariate(0.7)) % 200}" for _ in range(400)]
    rows = [(word, f"g{place % 3}", place % 7) for place, word in enumerate(words)]
    for source in sources:
        fleet.insert(source, "S", rows)
    fleet.run(1.5, 0.1)
    for act in pick.sample(ACTS, len(ACTS)):
        victim = pick.choice([one for one in fleet.agents.values() if one.me not in {source.me for source in sources}])
        match act:
            case "restart":
                fleet.restart(pick.choice(sources), 0.3)
            case "crash":
                fleet.crash(victim)
            case "join":
                fleet.join()
            case "cut":
                fleet.cut([victim])
                fleet.at(2.0, fleet.heal)
            case "leave":
                fleet.leave(victim)
        for source in sources:
            fleet.insert(source, "S", rows[: pick.randint(20, 200)])
        fleet.run(3.0, 0.2)
        fleet.remove_left()
    fleet.settle(120)
    inserted = [row for log in fleet.inserted.values() for row in log]
    states, _ = model(fleet.graph, {"S": inserted})
    assert not lost_nodes(fleet), seed
    assert fleet.states("Count") == states["Count"], seed


def test_a_hot_key_has_several_workers_and_others_have_one() -> None:
    fleet = Fleet(one_stage(), 4)
    source = next(iter(fleet.agents.values()))
    others = [(f"w{number}", "g", 1) for number in range(40)]
    pressed(fleet, source, HOT + others, 60)
    fleet.settle()
    assert len(parts(fleet, "hot")) > 4
    assert sum(parts(fleet, "hot").values()) == 60 * len(HOT)
    spread = Counter(len(parts(fleet, word)) for word, *_ in others)
    assert max(spread) <= 2, "an event of a key that is not hot has two workers to choose from"
    (told,) = [one for one in source.job.describe() if one["element"] == "Count"]
    assert (told["grouping"], told["workers"], told["hot_keys"]) == ("fish", 16, 1)
    assert [key for key, *_ in told["hot"]] == ["hot"]


@pytest.mark.slow
def test_another_key_is_told_to_be_hot_within_two_epochs() -> None:
    fleet = Fleet(one_stage(), 4)
    source = next(iter(fleet.agents.values()))
    others = [(f"w{number}", "g", 1) for number in range(12)]
    pressed(fleet, source, HOT + others, 60)
    pressed(fleet, source, [("new", "g", 1)] * len(HOT) + others, 2_000 // 24 + 1)
    (told,) = [one for one in source.job.describe() if one["element"] == "Count"]
    assert told["hot"][0][0] == "new"


@pytest.mark.slow
def test_a_silent_worker_gets_no_more_of_a_hot_key_and_all_of_its_own_later() -> None:
    fleet = Fleet(one_stage(), 4)
    source, other, *_ = fleet.agents.values()
    pressed(fleet, source, HOT, 60)
    fleet.settle()
    silent = other.job._host.owned.nonzero()[0].tolist()
    other.silent = True
    pressed(fleet, source, HOT, 60)  # until it has been asked, and has not answered
    emitter = source.job._emitter

    def waiting() -> int:
        sessions = [one for one in emitter.sessions if emitter.peers[one.host] == other.me]
        return sum(one.buffered + one.under_way for one in sessions)

    before = waiting()
    pressed(fleet, source, HOT, 20)
    assert 0 < waiting() == before, "nothing new goes to its nodes"
    other.silent = False
    backlog, other.backlog = other.backlog, []
    for call in backlog:
        call()
    fleet.settle()
    assert set(silent) & set(parts(fleet, "hot"))
    assert sum(parts(fleet, "hot").values()) == 140 * len(HOT)


def test_what_clients_send_again_by_another_agent_counts_once() -> None:
    """It goes to the first worker of its key, whichever agent is asked."""
    fleet = Fleet(one_stage("shuffle"), 4)
    one, other, *_ = fleet.agents.values()
    sent = pl.DataFrame(
        {EVENT_TIME: [FIRST_MS] * 6, SOURCE: [-77] * 6, SEQ: [n << 20 for n in range(6)]}
        | {"a": ["x", "y", "x", "z", "x", "y"], "b": ["g"] * 6, "v": [1] * 6}
    )
    one.job.insert("S", sent, fleet.now)
    fleet.run(1.0)
    other.job.insert("S", sent, fleet.now)
    fleet.settle()
    assert fleet.states("Count") == {"x": (3, 3), "y": (2, 2), "z": (1, 1)}


def test_rows_of_workers_that_there_are_not_are_refused_and_counted() -> None:
    fleet = Fleet(one_stage(workers=4), 2)
    one, other = fleet.agents.values()
    type_ = one.job._layout.by_name["S"]
    rows = pl.DataFrame(
        {EVENT_TIME: [FIRST_MS], SOURCE: [-5], SEQ: [0], "@worker0": [4], "a": ["x"], "b": ["g"], "v": [1]}
    ).select(type_.schema.names())
    assert not other.job._batch(one.me, type_, 1, 0, 0, rows, fleet.now)
    assert other.job.statistics()["refused"] == 1
