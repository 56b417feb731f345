"""Events go from sources to the elements of their keys and on, on one agent and on several."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import product

import pytest
from fleet_of_elements import Agent, Fleet, element, graph_of, model, type_
from seeds import seeds

from agent.runtime.keyed.hosting.commits import cutting
from agent.runtime.keyed.hosting.commits.records import record_of
from agent.runtime.messages.elements import CommitProbe, CommitRecord, ElementCredit, ElementProbe, ElementRows
from agent.runtime.messages.jobs import CODEC
from agent.runtime.model.fields import Message
from overlay import Peer


def counting(*, guaranteed: bool):
    """Split without a key, counts by word, sums by group."""
    return graph_of(
        [type_(name, guaranteed=guaranteed) for name in ("Text", "Word", "Updated", "Done")],
        [
            element("Split", ("Text", None), emits=["Word"]),
            element("Count", ("Word", ["a"]), emits=["Updated"]),
            element("Sort", ("Updated", ["b"]), emits=["Done"]),
            element("All", ("Updated", [], 7)),
        ],
        ["Text"],
    )


def rows_of(fleet: Fleet, count: int, words: int = 50) -> list[tuple[str, str, int]]:
    pick = fleet.random
    return [(f"w{pick.randrange(words)}", f"g{pick.randrange(5)}", pick.randrange(10)) for _ in range(count)]


def check(fleet: Fleet, inserted: dict[str, list[tuple[str, str, int]]]) -> None:
    """What the fleet has come to is what one machine would."""
    states, rows = model(fleet.graph, inserted)
    for one in fleet.graph.graph.elements:
        if one.inputs[0].key is not None:
            assert fleet.states(one.name) == states[one.name], (fleet.seed, one.name)
    for name in fleet.graph.types:
        if name not in [source.type for source in fleet.graph.sources]:
            assert Counter(fleet.shown[name].values()) == Counter(rows[name]), (fleet.seed, name)


@pytest.mark.parametrize(
    ("agents", "guaranteed", "slow"),
    seeds(
        *product([1, 2], [False, True], [False, True]), (8, True, True),
        slow=[(8, False, False), (8, False, True), (8, True, False)],
    ),
)  # fmt: skip
def test_every_event_gets_to_its_elements(agents: int, guaranteed: bool, slow: bool) -> None:
    fleet = Fleet(counting(guaranteed=guaranteed), agents, slow=slow)
    inserted = []
    for _ in range(5):
        for agent in list(fleet.agents.values()):
            rows = rows_of(fleet, 40)
            inserted += rows
            fleet.insert(agent, "Text", rows)
        fleet.run(0.1)
    fleet.settle()
    check(fleet, {"Text": inserted})


class Wire:
    """Counts the batches and records that agents send to each other, and loses the one that is chosen."""

    def __init__(self, fleet: Fleet, loses: Callable[[Message], bool] = lambda _: False) -> None:
        self.counts: Counter[tuple] = Counter()
        self.sessions: defaultdict[tuple, set[int]] = defaultdict(set)
        self.probes = self.credits = 0
        self.lost: set[tuple] = set()
        self._carry, self._loses = fleet.carry, loses
        fleet.carry = self.carry  # type: ignore[method-assign]

    def carry(self, sender: Agent, to: Peer, data: bytes, *args, **options) -> None:
        message = CODEC.decode(data)
        self.probes += isinstance(message, ElementProbe | CommitProbe)
        self.credits += isinstance(message, ElementCredit)
        if isinstance(message, ElementRows | CommitRecord):
            stream = (sender.me, to, message.place if isinstance(message, ElementRows) else None)
            name = (*stream, message.session, message.number)
            self.counts[name] += 1
            self.sessions[stream].add(message.session)
            if not self.lost and self._loses(message):
                self.lost.add(name)
                return
        self._carry(sender, to, data, *args, **options)

    @property
    def again(self) -> set[tuple]:
        """What was sent more than once; nothing was begun anew."""
        assert all(len(sessions) == 1 for sessions in self.sessions.values())
        return {name for name, count in self.counts.items() if count > 1}


def begun(guaranteed: bool, seed: int = 0) -> tuple[Fleet, list[tuple[str, str, int]]]:
    """A fleet in which all hosts are known."""
    fleet = Fleet(counting(guaranteed=guaranteed), 4, seed=seed)
    inserted = [(f"w{number}", f"g{number % 5}", number) for number in range(50)]
    fleet.insert(next(iter(fleet.agents.values())), "Text", inserted)
    fleet.settle()
    fleet.run(3)  # until all standbys have everything
    return fleet, inserted


@pytest.mark.parametrize("guaranteed", [False, True])
def test_a_host_that_answers_late_gets_nothing_twice(guaranteed: bool) -> None:
    fleet, inserted = begun(guaranteed)
    first, _, slow, *_ = fleet.agents.values()
    wire = Wire(fleet)
    fleet.silence(slow, 20, detected_s=100)
    for _ in range(10):
        rows = rows_of(fleet, 40)
        inserted += rows
        fleet.insert(first, "Text", rows)
        fleet.run(0.1)
    fleet.run(20)
    fleet.settle()
    check(fleet, {"Text": inserted})
    assert wire.counts
    assert not wire.again
    assert 0 < wire.probes < 60  # later each time
    assert not any(agent.job.statistics()["lost_rows"] for agent in fleet.agents.values())


@pytest.mark.parametrize("guaranteed", seeds(False, slow=[True]))
def test_hosts_say_seldom_how_far_they_are_while_nothing_waits_for_it(guaranteed: bool) -> None:
    fleet, inserted = begun(guaranteed)
    wire = Wire(fleet)
    for _ in range(30):
        rows = rows_of(fleet, 20)
        inserted += rows
        fleet.insert(next(iter(fleet.agents.values())), "Text", rows)
        fleet.run(0.1)
    batches = sum(len(name) == 5 and name[2] is not None for name in wire.counts)
    assert batches > 100
    assert wire.credits < (1.1 if guaranteed else 0.6) * batches
    fleet.settle()
    check(fleet, {"Text": inserted})


@pytest.mark.parametrize("kind", [ElementRows, CommitRecord])
def test_a_host_that_has_lost_a_message_gets_just_this_one_again(kind: type[Message]) -> None:
    fleet, inserted = begun(guaranteed=True)
    wire = Wire(fleet, lambda message: isinstance(message, kind) and message.number > 1)
    for _ in range(10):
        rows = rows_of(fleet, 40)
        inserted += rows
        fleet.insert(next(iter(fleet.agents.values())), "Text", rows)
        fleet.run(0.1)
    fleet.settle()
    check(fleet, {"Text": inserted})
    assert wire.lost
    assert wire.again == wire.lost


def test_what_is_lost_last_is_found_by_asking() -> None:
    fleet, inserted = begun(guaranteed=True)
    rows = [("w1", "g1", 1)]
    wire = Wire(fleet, lambda message: isinstance(message, ElementRows))
    fleet.insert(next(iter(fleet.agents.values())), "Text", rows)
    fleet.settle()
    check(fleet, {"Text": [*inserted, *rows]})
    assert wire.again == wire.lost
    assert wire.probes


def read_behind(fleet: Fleet, agent: Agent, pause_s: float) -> list[tuple[str, str, int]]:
    """Rows of a log that is behind, of which an agent reads more again and again: there is room for them each time."""
    fleet.is_behind, read = True, []
    for _ in range(20):
        rows = rows_of(fleet, 40)
        read += rows
        fleet.insert(agent, "S", rows)
        fleet.run(pause_s)
        assert agent.job.has_room
    return read


@pytest.mark.parametrize("guaranteed", [False, True])
def test_rows_of_a_log_that_is_behind_wait_for_full_batches_until_it_is_at_its_end(guaranteed: bool) -> None:
    graph = graph_of([type_("S", guaranteed=guaranteed)], [element("Count", ("S", ["a"]))], ["S"])
    fleet = Fleet(graph, 4)
    first = next(iter(fleet.agents.values()))
    inserted = [(f"w{number}", "g", number) for number in range(50)]
    fleet.insert(first, "S", inserted)
    fleet.settle()
    wire = Wire(fleet)
    sent = lambda: [name for name in wire.counts if name[2] is not None]  # noqa: E731
    inserted += read_behind(fleet, first, pause_s=0.02)
    assert not sent()
    first.job.expect("S", more=False)
    fleet.run(0.04)
    assert 0 < len(sent()) == len({name[:3] for name in sent()})  # one for each host
    fleet.insert(first, "S", inserted[:50])
    wire.counts.clear()
    fleet.run(0.6)  # it is not heard of any more
    assert sent()
    fleet.settle()
    check(fleet, {"S": [*inserted, *inserted[:50]]})


def test_a_log_that_is_behind_fills_no_queue() -> None:
    """Where rows for many hosts wait, they go as they do else."""
    graph = graph_of([type_("S", guaranteed=False)], [element("Count", ("S", ["a"]))], ["S"])
    fleet = Fleet(graph, 4, pending_rows_max=120)
    first = next(iter(fleet.agents.values()))
    rows = rows_of(fleet, 50)
    fleet.insert(first, "S", rows)
    fleet.settle()
    rows += read_behind(fleet, first, pause_s=0.1)
    fleet.settle()
    check(fleet, {"S": rows})


def test_rows_that_are_read_twice_at_once_count_once_behind_chains_of_elements_without_keys() -> None:
    """What a slow element makes of both is numbered alike, though it is given them in one call."""
    chain = [element("First", ("S", None), emits=["T"]), element("Second", ("T", None), emits=["U"])]
    graph = graph_of([type_(name) for name in "STU"], [*chain, element("Count", ("U", ["a"]))], ["S"])
    fleet = Fleet(graph, 2, slow=True)
    inserted = rows_of(fleet, 50)
    fleet.insert(next(iter(fleet.agents.values())), "S", inserted)
    fleet.tell_times()
    fleet.settle()
    check(fleet, {"S": inserted})


@pytest.mark.slow
def test_what_standbys_do_not_hold_yet_is_bounded() -> None:
    fleet = Fleet(counting(guaranteed=True), 3, pending_rows_max=800, lost_s=60.0)
    agents = list(fleet.agents.values())
    inserted, waiting = [], 0
    for step in range(160):
        if step == 40:
            fleet.silence(agents[1], 5.0, detected_s=30.0)
        for agent in agents:
            if agent.job.has_room and not agent.silent:
                rows = rows_of(fleet, 50)
                inserted += rows
                fleet.insert(agent, "Text", rows)
        fleet.run(0.05, 0.05)
        waiting = max([waiting, *(agent.job._host.uncommitted for agent in fleet.agents.values())])
    fleet.settle(120.0)
    check(fleet, {"Text": inserted})
    assert waiting < 800 / 4 + 2 * 800


@pytest.mark.slow
def test_events_that_are_long_under_way_are_not_named_to_standbys_again_and_again(monkeypatch) -> None:
    """All of them were named each second, the more the slower all was: so it became slower."""
    monkeypatch.setattr(cutting, "SAFE_ROWS", 16)
    fleet = Fleet(counting(guaranteed=True), 3, lost_s=60.0)
    fleet.run(1.0)
    fleet.delay_s = 2.0
    first = next(iter(fleet.agents.values()))
    records, inserted = fleet.sent(CommitRecord), []
    for _ in range(200):
        inserted += rows_of(fleet, 20)
        fleet.insert(first, "Text", inserted[-20:])
        fleet.run(0.1, 0.1)
    fleet.settle(120.0)
    check(fleet, {"Text": inserted})
    emitted = sum(len(fleet.shown[name]) for name in ("Updated", "Done"))
    tables = [table for one in records for table in record_of(one, len(fleet.graph.graph.elements)).tables]
    assert sum(table.rows.height for table in tables if table.kind == "emitted") < 2 * 2 * emitted
