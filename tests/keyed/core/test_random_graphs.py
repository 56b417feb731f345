"""Random graphs of elements under whatever may happen to agents: guaranteed ones come to what one machine would."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import polars as pl
import pytest
from counted_elements import TICKING, ticks_between
from fleet_of_elements import FIRST_MS, Agent, Fleet, element, graph_of, model, type_
from seeds import seeds
from test_flow import check, rows_of

from agent.runtime.keyed.hosting.commits import commit_log, record_pieces
from agent.runtime.keyed.logical_nodes import nodes_of
from agent.runtime.messages.elements import CommitHeld, CommitRecord, ElementRows, NodeBallots, NodesMoved
from overlay import Peer

QUICK = (3, 31)
"""Seeds whose fleets take least of a processor; in 31 a move is given up before its nodes are cut."""
END_MS = FIRST_MS + 10_000
WORDS = 8
"""Different keys: few, as each is a logical node, and has to be moved."""
ALONE_S, REPAIR_S = 3.0, 8.0
"""Time after an agent was killed for which no other is, but now and then; time after two such for which none is: there
are three copies, and what lacks a majority is repaired once `lost_s` has passed."""
KEYS = (["a"], ["b"], ["a", "b"], "constant")


def random_graph(pick: random.Random, *, guaranteed: bool, groupings: Sequence[str] = ()):
    """Elements in layers: each reads types of layers before, and emits types of later ones. Some of those with fields
    in their keys have one of the `groupings`."""
    count = pick.randint(2, 4)
    types = ["S", *(f"T{i}" for i in range(count))]
    elements = []
    for layer, name in enumerate(types[:-1]):
        for number in range(pick.randint(1, 2)):
            emits = pick.sample(types[layer + 1 :], pick.randint(0, min(2, count - layer)))
            emits = emits or ([types[layer + 1]] if number == 0 else [])
            reads = [name, *([pick.choice(types[:layer])] if layer and pick.random() < 0.3 else [])]
            key = pick.choice((*KEYS, None)) if emits else pick.choice(KEYS)
            inputs = [(one, [], 5) if key == "constant" else (one, key) for one in reads]
            split = {}
            if groupings and key and key != "constant" and pick.random() < 0.7:
                split = {"grouping": pick.choice(groupings), "workers": pick.randint(1, 12)}
            elements.append(element(f"E{layer}{number}", *inputs, emits=emits, **split))
    elements.append(element("Last", (types[-1], ["a"])))
    elements.append(element(TICKING, ("S", ["a"])))
    return graph_of([type_(name, guaranteed=guaranteed) for name in types], elements, ["S"])


class Faults:
    """What happens to agents of a fleet, at random, at once or when a message comes that is part of a commit or a move.

    Those beside sources are started anew at once; of the others some are gone for good.
    """

    def __init__(self, fleet: Fleet, pick: random.Random, sources: list[Agent]) -> None:
        self._fleet, self._pick, self._sources = fleet, pick, {agent.me for agent in sources}
        self._gone: list[tuple[float, Peer]] = []
        self._members: defaultdict[int, set[Peer]] = defaultdict(set)
        self.in_doubt: set[int] = set()
        """Nodes of whose three agents two were out of reach, or forgot, before it was repaired: nobody can be sure that
        nothing is lost, so they may be named, though nothing is."""
        self._killed_at, self._both_at = 0.0, -REPAIR_S

    def _others(self) -> list[Agent]:
        return [one for one in self._fleet.agents.values() if one.me not in self._sources and not one.silent]

    def look(self) -> None:
        """Sees which agents have nodes."""
        for agent in self._fleet.agents.values():
            for node, known in agent.job._membership._known.all():
                self._members[node] |= {*known.members}
        gone = self._gone_lately
        self.in_doubt |= {node for node, members in self._members.items() if len(members & gone) > 1}

    @property
    def _gone_lately(self) -> set[Peer]:
        """The agents that were out of reach, or forgot, and may not be repaired yet."""
        return {peer for since, peer in self._gone if self._fleet.now < since + REPAIR_S}

    def _is_third(self, agent: Agent) -> bool:
        """Whether a node has had two other agents that are gone: more than two at once are promised to nobody."""
        gone = self._gone_lately - {agent.me}
        return any(agent.me in members and len(members & gone) > 1 for members in self._members.values())

    def _goes(self, agent: Agent) -> Agent:
        self._gone.append((self._fleet.now, agent.me))
        return agent

    def disturb(self) -> None:
        """Something happens."""
        fleet, pick, others = self._fleet, self._pick, self._others()
        awake = [one for one in fleet.agents.values() if not one.silent]
        match pick.choice(("kill", "trap", "trap", "silence", "cut", "join", "leave", "lend", "lose", "nothing")):
            case "kill" if awake:
                self._kill(pick.choice(awake))
            case "trap":
                self._trap()
            case "silence" if awake:
                fleet.silence(self._goes(pick.choice(awake)), pick.uniform(0.1, 3.0))
            case "cut" if not fleet.side and awake:
                fleet.cut([self._goes(pick.choice(awake))])
                fleet.at(pick.uniform(0.3, 4.0), fleet.heal)
            case "join" if len(fleet.agents) < 9:
                fleet.join()
            case "leave" if len(others) > 3:
                fleet.leave(pick.choice(others))
            case "lend" if awake:
                fleet.lend(pick.choice(awake))
            case "lose":
                fleet.lose_link(*pick.sample(list(fleet.agents.values()), 2))

    def _trap(self) -> None:
        kind = self._pick.choice((CommitRecord, CommitRecord, CommitHeld, ElementRows, NodesMoved, NodeBallots))
        is_sender = self._pick.random() < 0.5

        def act(sender: Agent, to: Peer) -> None:
            whom = self._fleet.agents.get(sender.me if is_sender else to)
            if whom is not None and not whom.silent:
                self._fleet.at(0.0, lambda: self._kill(whom))

        self._fleet.on_message(kind, self._pick.randint(1, 8), act, arrived=self._pick.random() < 0.5)

    def _kill(self, whom: Agent) -> None:
        fleet, pick, others = self._fleet, self._pick, self._others()
        is_near = fleet.now <= self._killed_at + ALONE_S
        is_kept = is_near and pick.random() >= 0.15
        self.look()
        is_kept = is_kept or self._is_third(whom) or fleet.now < self._both_at + REPAIR_S
        if whom.crashed or whom.silent or is_kept or len(fleet.agents) < 3:
            return
        self._killed_at = fleet.now
        self._goes(whom)
        self._both_at = fleet.now if is_near else self._both_at
        if whom.me in self._sources or len(others) < 4 or pick.random() < 0.6:
            fleet.restart(whom, pick.choice((0.02, 0.3, 1.0, 2.5)) * pick.uniform(0.5, 1.5))
        else:
            fleet.crash(whom)


def live(seed: int, *, guaranteed: bool, groupings: Sequence[str] = ()) -> tuple[Fleet, set[int]]:
    """The fleet after its life, and the nodes that may be named lost."""
    pick = random.Random(seed)
    fleet = Fleet(
        random_graph(pick, guaranteed=guaranteed, groupings=groupings),
        pick.randint(4, 6),
        seed,
        slow=pick.random() < 0.3,
    )
    fleet.is_behind = seed % 3 == 1
    sources = list(fleet.agents.values())[:2]
    faults = Faults(fleet, pick, sources)
    for _ in range(pick.randint(2, 4)):
        for _ in range(3):
            for agent in sources:
                fleet.insert(agent, "S", rows_of(fleet, pick.randint(1, 30), WORDS))
            if not fleet.has_time:
                fleet.tell_times()
            fleet.run(pick.uniform(0.01, 0.3))
            faults.look()
        faults.disturb()
        fleet.run(pick.uniform(0.05, 3.5))
        faults.look()
        fleet.remove_left()
    fleet.end_of_input(END_MS)
    faults.disturb()
    fleet.run(6)  # until the last one is missed, and back
    faults.look()
    fleet.settle(90)
    assert not fleet.away
    return fleet, faults.in_doubt


def lost_nodes(fleet: Fleet) -> set[int]:
    return {node for agent in [*fleet.agents.values(), *fleet.gone] for node in agent.job.lost_nodes()}


def check_ticks(fleet: Fleet) -> None:
    """Time has passed the elements that do nothing else, once each."""
    first: dict[str, int] = {}
    for rows in fleet.inserted.values():
        for place, (key, _, _) in enumerate(rows):
            assert key is not None
            first[key] = min(first.get(key, END_MS), FIRST_MS + place * 10)
    found = {
        key: ticks
        for agent in fleet.agents.values()
        for key, (node, _, ticks) in agent.runtimes[TICKING].ticks.items()
        if agent.job._host.owned[node]
    }
    assert found == {key: ticks_between(time, END_MS) for key, time in first.items()}, fleet.seed


@pytest.mark.parametrize("seed", seeds(*QUICK, slow=sorted({*range(1000)} - {*QUICK})))
def test_guaranteed_elements_come_to_what_one_machine_would(seed: int) -> None:
    check_guaranteed(seed)


def check_guaranteed(seed: int, groupings: Sequence[str] = ()) -> None:
    fleet, in_doubt = live(seed, guaranteed=True, groupings=groupings)
    inserted = {"S": [row for rows in fleet.inserted.values() for row in rows]}
    lost = lost_nodes(fleet) - in_doubt
    assert not lost, (seed, "lost", lost)
    check(fleet, inserted)
    check_ticks(fleet)
    fleet.check_given()


@pytest.mark.parametrize("seed", seeds(3, slow=[1, *range(4, 200)]))
def test_records_in_many_pieces_lose_and_double_nothing_either(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_pieces, "PIECE_BYTES", 200)
    monkeypatch.setattr(commit_log, "WINDOW_BYTES", 2_000)
    monkeypatch.setattr(commit_log, "SHARED_BYTES", 0)
    check_guaranteed(seed)


@pytest.mark.parametrize("seed", seeds(slow=range(60)))
def test_small_fleets_that_lose_all_standbys_and_get_others_lose_and_double_nothing(seed: int) -> None:
    """Hosts commit, have nobody to commit for, and commit again. What an agent that dies for good may have held is
    named, as nobody else can know, but each time all has been repaired before."""
    pick = random.Random(seed)
    fleet = Fleet(random_graph(pick, guaranteed=True), pick.randint(2, 3), seed, slow=pick.random() < 0.5)
    source = next(iter(fleet.agents.values()))
    fleet.tell_times()

    def more(seconds: float) -> None:
        end = fleet.now + seconds
        while fleet.now < end:
            fleet.insert(source, "S", rows_of(fleet, pick.randint(1, 6), WORDS))
            fleet.run(pick.uniform(0.05, 0.3))

    for _ in range(3):
        more(pick.uniform(0.2, 4.0))
        if len(fleet.agents) == 1:
            fleet.join()
            continue
        victim = pick.choice([agent for agent in fleet.agents.values() if agent is not source])
        if pick.random() < 0.4:
            fleet.restart(victim, pick.choice((0.3, 2.5, 8.0)))
        else:
            fleet.crash(victim)
        more(REPAIR_S + 1)
    fleet.end_of_input(END_MS + 10 * len(fleet.inserted[source.me, "S"]))
    fleet.settle(90)
    check(fleet, {"S": fleet.inserted[source.me, "S"]})


def insert_some(
    fleet: Fleet, source: Agent, pick: random.Random, batches: int, pause_s: float
) -> list[tuple[str, str, int]]:
    """Rows that come to a source in batches, with pauses of up to so long."""
    inserted: list[tuple[str, str, int]] = []
    for _ in range(batches):
        rows = rows_of(fleet, pick.randint(1, 30))
        inserted += rows
        fleet.insert(source, "S", rows)
        fleet.run(pick.uniform(0.01, pause_s))
    return inserted


@pytest.mark.parametrize("seed", seeds(1, slow=[0, *range(2, 300)]))
def test_unguaranteed_elements_lose_nothing_where_agents_only_come_and_go(seed: int) -> None:
    check_coming_and_going(seed)


def check_coming_and_going(seed: int, groupings: Sequence[str] = ()) -> None:
    pick = random.Random(seed)
    graph = random_graph(pick, guaranteed=False, groupings=groupings)
    fleet = Fleet(graph, 4, seed, slow=pick.random() < 0.5)
    source = next(iter(fleet.agents.values()))
    inserted: list[tuple[str, str, int]] = []
    for _ in range(4):
        inserted += insert_some(fleet, source, pick, batches=3, pause_s=0.2)
        others = [one for one in fleet.agents.values() if one is not source]
        if len(others) > 2 and pick.random() < 0.5:
            fleet.leave(pick.choice(others))
        else:
            fleet.join()
        fleet.run(pick.uniform(0.05, 2.0))
        fleet.remove_left()
    fleet.settle(90)
    assert not any(agent.job.statistics()["lost_rows"] for agent in fleet.agents.values())
    check(fleet, {"S": inserted})


@pytest.mark.parametrize("seed", seeds(0, 1, slow=range(2, 300)))
def test_unguaranteed_elements_differ_only_in_nodes_named_lost(seed: int) -> None:
    """One stage, so that a row that is lost changes nothing but the element that it was for."""
    pick = random.Random(seed)
    graph = graph_of([type_("S", guaranteed=False)], [element("Count", ("S", ["a"]))], ["S"])
    fleet = Fleet(graph, 5, seed)
    source = next(iter(fleet.agents.values()))
    inserted: list[tuple[str, str, int]] = []
    for _ in range(3):
        inserted += insert_some(fleet, source, pick, batches=4, pause_s=0.3)
        fleet.crash(pick.choice([one for one in fleet.agents.values() if one is not source]))
        fleet.run(pick.uniform(0.5, 3.0))
    fleet.run(4)  # until the last one is missed
    fleet.settle(90)
    states, _ = model(graph, {"S": inserted})
    found = fleet.states("Count")
    lost = lost_nodes(fleet)
    lost_rows = sum(agent.job.statistics()["lost_rows"] for agent in fleet.agents.values())
    differing = {key: count for key, (count, _) in states["Count"].items() if found.get(key, (0,))[0] != count}
    nodes = dict(zip(differing, nodes_of([pl.Series(list(differing), dtype=pl.String)]).to_list(), strict=True))
    missing = sum(count - found.get(key, (0,))[0] for key, count in differing.items() if nodes[key] not in lost)
    assert 0 <= missing <= lost_rows, (seed, missing, lost_rows)
