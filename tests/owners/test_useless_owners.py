"""Owners that are silent, answer with nonsense, or have too much: jobs go on without them, or end with a reason."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from lives import JOB, Life, begin
from memory_fleet import KEY
from test_hopping_simulated import HOPPING, check_followed, check_windows
from test_owned_windows import QUERIES, lived, master_of

from agent.runtime.job import tree_owners
from agent.runtime.job.tree_owners import TreeOwners
from agent.runtime.master.owners.owned_windows import SILENCE_S, OwnedWindows
from agent.runtime.messages.jobs import CODEC, Decision, MoveKeys, OwnerLost, Snapshot
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.placement import KeyMoves, Move
from overlay import Id, Peer, WireError

Handled = Callable[[TreeOwners, Decision, Any, float], bool]


def begun(monkeypatch: pytest.MonkeyPatch, decide: Callable[[Handled], Handled]) -> Life:
    """A life in which owners handle decisions in another way."""
    monkeypatch.setattr(TreeOwners, "decide", decide(TreeOwners.decide))
    return begin(5, size=5, trees=3, sql=HOPPING)


def is_over(life: Life) -> None:
    """Windows go on, and the master makes all of them."""
    fleet = life.fleet
    fleet.run(fleet.now + 2 * SILENCE_S + 10.0)
    check_windows(life)
    check_followed(life, (8, 2))
    ((_, state),) = fleet.masters(JOB)
    assert not state.moved.owners
    last = fleet.of(JOB)[-3:]
    assert fleet.now - last[-1].at < 4.0
    assert all(len(window.contributors) == 5 and not window.partial for window in last)


def test_a_master_goes_on_without_an_owner_that_lives_and_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_decide: Handled) -> Handled:
        return lambda _self, _message, _sender, _now: True

    is_over(begun(monkeypatch, silent))


def test_answers_that_are_not_sound_are_refused_and_nobody_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = tree_owners._snapshot

    def forged(*about: Any) -> Snapshot:
        snapshot = answer(*about)
        windows = [(start + 1, size, state) for start, size, state in snapshot.windows]
        return msgspec.structs.replace(snapshot, windows=windows)

    monkeypatch.setattr(tree_owners, "_snapshot", forged)
    is_over(begin(5, size=5, trees=3, sql=HOPPING))


@pytest.mark.slow
def test_windows_that_come_twice_in_an_answer_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = tree_owners._snapshot

    def doubled(*about: Any) -> Snapshot:
        snapshot = answer(*about)
        return msgspec.structs.replace(snapshot, windows=[*snapshot.windows, *snapshot.windows[:1]])

    monkeypatch.setattr(tree_owners, "_snapshot", doubled)
    is_over(begin(5, size=5, trees=3, sql=HOPPING))


def answering(monkeypatch: pytest.MonkeyPatch, change: Callable[[Snapshot], Snapshot]) -> Life:
    """A life in which each answer of an owner comes again, as another one."""
    take = OwnedWindows.take

    def again(owned: OwnedWindows, message: Snapshot, sender: Peer, now: float) -> bool:
        taken = take(owned, message, sender, now)
        take(owned, change(message), sender, now)
        return taken

    monkeypatch.setattr(OwnedWindows, "take", again)
    return begin(5, size=5, trees=3, sql=HOPPING)


@pytest.mark.slow
def test_answers_that_overlap_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over(answering(monkeypatch, lambda message: msgspec.structs.replace(message, after=message.after + 1)))


def test_answers_that_are_repeated_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    life = answering(monkeypatch, lambda message: message)
    life.fleet.run(life.fleet.now + 20.0)
    check_windows(life)
    ((_, state),) = life.fleet.masters(JOB)
    assert state.moved.owners


def test_a_job_ends_whose_windows_are_too_large_for_an_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_owners, "OPEN_BYTES_MAX", 100)
    fleet = lived(f"{QUERIES[0]} TREES 3", [])
    failure = master_of(fleet).state.failure
    assert failure is not None
    assert "open windows of one owner take more than" in failure


@pytest.mark.slow
def test_a_slow_owner_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seconds late, but whole, and in the same epoch."""
    source = random.Random(4)

    def slow(decide: Handled) -> Handled:
        return lambda self, message, sender, now: source.random() < 0.3 and decide(self, message, sender, now)

    life = begun(monkeypatch, slow)
    fleet = life.fleet
    fleet.run(fleet.now + 20.0)
    check_windows(life)
    check_followed(life, (8, 2))
    windows = fleet.of(JOB)
    assert len({window.epoch for window in windows}) == 1
    assert all(not window.partial and not window.result.missing for window in windows[6:])


# What strangers may send.

EPOCH = JobEpoch(1, 1, 7)
DECISION = Decision(KEY, EPOCH, 1, 1, 0, 1000, b"\1", True, False, 0, 0)


def moves(*about: Any, times: int = 1) -> MoveKeys:
    return MoveKeys(KEY, EPOCH, KeyMoves(1, (Move(*about),) * times))


OUT_OF_BOUNDS = (
    msgspec.structs.replace(DECISION, tree=64),
    msgspec.structs.replace(DECISION, upto=1 << 63),
    msgspec.structs.replace(DECISION, restores=[(1, Id(5))] * 65),
    moves(1, 0, 64, 1, "instant", 0),
    moves(1, 0, 1, 1, "somehow", 0),
    moves(1, 0, 1, 1, "instant", 0, times=257),
    OwnerLost(KEY, EPOCH, -1),
)


@pytest.mark.parametrize("bad", OUT_OF_BOUNDS)
def test_messages_that_are_out_of_bounds_are_refused(bad: Any) -> None:
    with pytest.raises(WireError):
        CODEC.decode(CODEC.encode(bad), 1 << 20)


def test_placements_that_are_stale_change_nothing() -> None:
    fleet = lived(f"{QUERIES[0]} TREES 3", [])
    state = master_of(fleet).state
    assert master_of(fleet).placement.move([24], 2, "instant", fleet.now) is None
    fleet.settle()
    assert state.moved.number == 1
    for agent in fleet.agents:
        assert agent.jobs.place(MoveKeys(KEY, state.epoch, KeyMoves()), fleet.now), "it is an earlier one"
        assert not agent.jobs.place(moves(9, 0, 24, 1, "instant", 0), fleet.now), "it is of another epoch"
        job = agent.jobs.get(KEY)
        assert job is not None
        assert job.moved == state.moved


def test_what_nobody_has_asked_for_changes_nothing() -> None:
    fleet = lived(f"{QUERIES[0]} TREES 3", [])
    master = master_of(fleet)
    stranger = next(agent.node.peer for agent in fleet.agents if agent.masters.get(KEY) is None)
    state, owned = master.state, master.owned
    before = (state.epoch, state.frontier, len(fleet.results))
    after, upto = state.frontier + 10_000, state.frontier + 12_000
    windows = Snapshot(KEY, state.epoch, 1, after, upto, b"", b"", [], tree=1, of_root=True, stage="windows")
    assert not master.take_windows(windows, stranger, fleet.now)
    assert not master.take_windows(msgspec.structs.replace(windows, epoch=EPOCH), stranger, fleet.now)
    assert owned.refused == 1
    master.owner_lost(OwnerLost(KEY, state.epoch, 2, "it fails"), Peer(Id(9), "nobody"), fleet.now)
    for agent in fleet.agents:
        foreign = msgspec.structs.replace(DECISION, epoch=state.epoch)
        assert not agent.owners.decide(foreign, stranger, fleet.now)
        assert not agent.owners.decide(DECISION, stranger, fleet.now)
    assert state.failure is None
    assert not owned.is_lost
    assert (state.epoch, state.frontier, len(fleet.results)) == before
