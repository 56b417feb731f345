"""What belongs to an epoch that is over, or never was, is refused, and counted where it is no accident: nothing counts
double, and what is right goes on."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from fleet_of_elements import APP, Agent, Fleet
from seeds import seeds
from test_flow import check, counting, rows_of

from agent.runtime.messages.elements import (
    EPOCH_MAX,
    BallotEntry,
    CommitRecord,
    ElementRows,
    FindHosts,
    MoveNodes,
    NodeBallots,
    NodeHosts,
    NodesMoved,
)
from agent.runtime.messages.jobs import CODEC
from overlay import Peer, WireError

AWAY = Peer(99, "10.9.9.9:1")


def insert(fleet: Fleet, inserted: list[tuple[str, str, int]], count: int = 100) -> None:
    rows = rows_of(fleet, count)
    inserted += rows
    fleet.insert(next(iter(fleet.agents.values())), "Text", rows)


def hosted(agent: Agent) -> list[int]:
    return np.flatnonzero(agent.job._host.owned).tolist()


@pytest.mark.parametrize("seed", seeds(slow=range(3)))
def test_all_that_was_said_in_epochs_that_are_over_changes_nothing_when_it_comes_again(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, commits, moves, votes and answers of before a host died and nodes moved, to those that they were for."""
    fleet, inserted, said = Fleet(counting(guaranteed=True), 5, seed), [], []
    carry = fleet.carry

    def noted(sender: Agent, to: Peer, data: bytes, **how: bool) -> None:
        said.append((sender.me, to, data))
        carry(sender, to, data, **how)

    monkeypatch.setattr(fleet, "carry", noted)
    insert(fleet, inserted)
    fleet.settle()
    monkeypatch.setattr(fleet, "carry", carry)
    kinds = {type(CODEC.decode(data)) for _, _, data in said}
    assert kinds >= {ElementRows, CommitRecord, FindHosts, NodeHosts, NodeBallots}
    _, killed, leaving, *_ = fleet.agents.values()
    fleet.crash(killed)
    fleet.leave(leaving)
    insert(fleet, inserted)
    fleet.run(6)
    fleet.remove_left()
    fleet.join()
    fleet.run(3)
    fleet.settle()
    before = {name: fleet.states(name) for name in ("Count", "Sort", "All")}
    for sender, to, data in said:
        if (agent := fleet.agents.get(to)) is not None:
            agent.job.handle(CODEC.decode(data), sender, fleet.now)
    for agent in fleet.agents.values():  # who is dead was heard of
        for peer in {peer for one in said for peer in one[:2]} - fleet.agents.keys():
            agent.job.failed(peer, fleet.now)
    fleet.settle()
    assert {name: fleet.states(name) for name in before} == before, seed
    insert(fleet, inserted)
    fleet.settle()
    check(fleet, {"Text": inserted})
    assert not any(agent.job.lost_nodes() for agent in fleet.agents.values())


@pytest.mark.parametrize("ahead", seeds(1, slow=[1000]))
def test_commits_and_moves_of_epochs_that_are_not_come_to_nothing(ahead: int) -> None:
    fleet, inserted = Fleet(counting(guaranteed=True), 4), []
    insert(fleet, inserted)
    fleet.settle()
    agents = list(fleet.agents.values())
    epochs = {agent.me: agent.job._membership._known.epoch(hosted(agent)[0]) for agent in agents if hosted(agent)}
    for host in [agent for agent in agents if hosted(agent)]:
        node = hosted(host)[0]
        wrong = epochs[host.me] + ahead
        whole = np.array([node], "<u2").tobytes()
        record = CommitRecord(
            APP, 1 << 60, 0, 1, whole, np.array([wrong], "<i8").tobytes(), whole, [0] * 4, []
        )  # fmt: skip
        for other in agents:
            if other is host:
                continue
            copy = other.job._membership._store.version(node)
            other.job.handle(record, AWAY, fleet.now)  # somebody who is no host says that it has committed the node
            assert other.job._membership._store.version(node) == copy
            host.job.handle(MoveNodes(APP, [node], [wrong], other.me), other.me, fleet.now)
            other.job.handle(NodesMoved(APP, [node], [wrong], other.me, 1), host.me, fleet.now)
            host.job.handle(NodeHosts(APP, [other.me], [(node, 0, 0)]), other.me, fleet.now)
        assert host.job._host.open[node], "it is not frozen"
    insert(fleet, inserted)
    fleet.run(2)
    fleet.settle()
    check(fleet, {"Text": inserted})
    assert not any(agent.job.lost_nodes() for agent in fleet.agents.values())


@pytest.mark.parametrize(
    "message",
    [
        FindHosts(APP, AWAY, [3], [EPOCH_MAX + 1]),
        FindHosts(APP, AWAY, [3], [0], [2**62]),
        NodeHosts(APP, [AWAY], [(3, 2**62, 0)]),
        NodeBallots(APP, "chosen", [AWAY], [BallotEntry(3, 2**62, 1, [0], value_epoch=2)]),
        NodeBallots(APP, "chosen", [AWAY], [BallotEntry(3, 2, 1, [0], value_epoch=2**62)]),
        MoveNodes(APP, [3], [2**62], AWAY),
        NodesMoved(APP, [3], [2**62], AWAY, 1),
    ],
    ids=lambda message: type(message).__name__,
)
def test_epochs_beyond_all_reason_are_no_messages(message: msgspec.Struct) -> None:
    with pytest.raises(WireError):
        CODEC.decode(CODEC.encode(message))


@pytest.mark.parametrize(
    ("epoch", "is_there"),
    seeds(
        (EPOCH_MAX, True),
        slow=[(50, False), (50, True), (EPOCH_MAX // 2 - 1, True), (EPOCH_MAX // 2 - 1, False), (EPOCH_MAX, False)],
    ),
)  # fmt: skip
def test_hosts_that_are_made_up_hold_up_an_emitter_for_some_seconds_only(epoch: int, is_there: bool) -> None:
    """Of epochs that no root comes to soon, at an agent that hosts none of them, or at none at all."""
    fleet, inserted = Fleet(counting(guaranteed=True), 4), []
    insert(fleet, inserted)
    fleet.settle()
    emitter, other, *_ = fleet.agents.values()
    begun = [node for agent in fleet.agents.values() for node in hosted(agent)]
    told = NodeHosts(APP, [other.me if is_there else AWAY], [(node, epoch, 0) for node in begun])
    emitter.job.handle(told, AWAY, fleet.now)
    insert(fleet, inserted)
    fleet.run(30, 0.1)
    fleet.settle()
    check(fleet, {"Text": inserted})
    assert not any(agent.job.lost_nodes() for agent in fleet.agents.values())


@pytest.mark.parametrize("epoch", [-1, 0, EPOCH_MAX + 1, 2**62])
def test_commits_of_such_epochs_are_refused_and_counted(epoch: int) -> None:
    fleet, inserted = Fleet(counting(guaranteed=True), 3), []
    insert(fleet, inserted)
    fleet.settle()
    node = np.array([5], "<u2").tobytes()
    for agent in fleet.agents.values():
        before = agent.job.statistics()["refused"]
        epochs = np.array([epoch], "<i8").tobytes()
        agent.job.handle(CommitRecord(APP, 1, 0, 1, node, epochs, node, [0] * 4, []), AWAY, fleet.now)
        assert agent.job.statistics()["refused"] == before + 1
        agent.job.failed(AWAY, fleet.now)
    fleet.settle()
    check(fleet, {"Text": inserted})


def test_an_epoch_that_nobody_can_have_known_keeps_no_node_from_beginning() -> None:
    fleet = Fleet(counting(guaranteed=True), 3)
    fleet.run(0.1)
    agent = next(iter(fleet.agents.values()))
    for other in fleet.agents.values():
        every = list(range(1024))
        other.job.handle(FindHosts(APP, agent.me, every, [0] * 1024, [EPOCH_MAX] * 1024), agent.me, fleet.now)
    inserted: list[tuple[str, str, int]] = []
    insert(fleet, inserted)
    fleet.settle()
    check(fleet, {"Text": inserted})
    assert not any(agent.job.lost_nodes() for agent in fleet.agents.values())
