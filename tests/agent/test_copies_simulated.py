"""Simulated agents that die, or stand still, with sealed panes that nobody above them has: windows have the copies."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from copy_fleet import keep_to_itself
from lives import ACTS, JOB, Life, begin, begin_some, check, follow_elsewhere, happen
from seeds import seeds
from simulated_fleet import PANE_MS, WALL_MS, Server, Window, key_of, sql

from agent.runtime.model.panes import FIRST_PANE

PATIENT = f"{sql('abcde', 2)} RECOVER FOR 20 SECONDS"
MIRRORING = f"{sql('abcde', 2)} ON STRAGGLER MIRROR"
KEY = key_of(JOB)


def frontier(server: Server) -> int:
    job = server.agent.jobs.get(KEY)
    assert job is not None
    assert job.pipeline is not None
    return job.pipeline.frontier


def holders(life: Life, owner: Server) -> list[Server]:
    """The servers whose agents hold runs of another one."""
    of = owner.node.peer.node_id
    up = [one for one in life.fleet.servers.values() if one.is_up and one is not owner]
    return [one for one in up if list(one.agent.copies.held.of(KEY, of, FIRST_PANE))]


def seal(life: Life, *victims: Server) -> int:
    """Lets agents whose runs do not come up seal a pane, and their neighbours have copies; returns the pane."""
    before = max(map(frontier, victims))
    for victim in victims:
        keep_to_itself(victim.agent)
    while not all(frontier(victim) > before for victim in victims):
        life.fleet.run(life.fleet.now + 0.1)
    life.fleet.run(life.fleet.now + 0.4)
    assert all(frontier(victim) == frontier(victims[0]) for victim in victims)
    return frontier(victims[0])


def kill(life: Life, *servers: Server) -> None:
    for server in servers:
        life.note(f"{server.name} dies")
        life.fleet.crash(server)


def window_of(life: Life, pane: int) -> Window:
    (window,) = {w.pane: w for w in life.fleet.of(JOB) if w.pane == pane}.values()
    return window


def worker(life: Life, *, inside: bool = False) -> Server:
    """A server to which something may happen: not the master, with children or without."""
    masters = [server for server, _ in life.fleet.masters(JOB)]
    own = [one for one in life.alive() if one.streams and one not in masters]
    chosen = [one for one in own if bool(one.node.children(KEY)) == inside and one.node.parent(KEY)]
    return life.fleet.random.choice(chosen or own)


def alone(life: Life) -> tuple[int, list[Server]]:
    victim = worker(life)
    pane = seal(life, victim)
    kill(life, victim)
    return pane, [victim]


def with_a_holder(life: Life) -> tuple[int, list[Server]]:
    victim = worker(life)
    pane = seal(life, victim)
    masters = [server for server, _ in life.fleet.masters(JOB)]
    other = [one for one in holders(life, victim) if one not in masters and one is not life.follower]
    kill(life, victim, *other[: len(holders(life, victim)) - 1][:1])
    return pane, [victim]


def with_the_master(life: Life) -> tuple[int, list[Server]]:
    victim = worker(life)
    pane = seal(life, victim)
    (master, _), *_ = life.fleet.masters(JOB)
    kill(life, victim, master)
    return pane, [victim, master]


def inside(life: Life) -> tuple[int, list[Server]]:
    """One with children, whose parts it has combined with its own."""
    victim = worker(life, inside=True)
    pane = seal(life, victim)
    kill(life, victim)
    return pane, [victim]


def two(life: Life) -> tuple[int, list[Server]]:
    """An agent and the one above it, which has its part."""
    victim = worker(life, inside=True)
    children = {child.node_id for child in victim.node.children(KEY)}
    below = [one for one in life.alive() if one.node.peer.node_id in children and one.streams]
    pane = seal(life, victim)
    kill(life, victim, *below[:1])
    return pane, [victim, *below[:1]]


Death = Callable[[Life], tuple[int, list[Server]]]
DEATHS: tuple[Death, ...] = (alone, with_a_holder, with_the_master, inside, two)


@pytest.mark.parametrize(
    ("seed", "death"),
    seeds((1, with_a_holder), (1, with_the_master), slow=[(seed, death) for seed in range(1, 16) for death in DEATHS]),
)
def test_what_the_dead_have_sealed_is_in_its_window(seed: int, death: Death) -> None:
    life = begin(seed, 26 if death in (inside, two) else 6 + seed % 5, trees=1 + seed % 3, sql=PATIENT)
    follow_elsewhere(life)
    life.fleet.run(life.fleet.now + 3.0)
    pane, dead = death(life)
    survived = {one.name for one in dead if holders(life, one)}
    assert survived, life.about()
    life.fleet.run(life.fleet.now + 32.0)
    check(life, silence_max_s=27.0)
    window = window_of(life, pane)
    assert survived <= window.contributors - window.partial, f"{life.about()}: {window}"
    if len(survived) == len(dead):
        assert window.contributors == window.expected, f"{life.about()}: {window}"


@pytest.mark.parametrize("seed", seeds(slow=range(1, 20)))
def test_under_mirror_windows_go_on_with_what_stuck_agents_have_sealed(seed: int) -> None:
    life = begin(seed, 8, trees=1 + seed % 3, sql=MIRRORING)
    follow_elsewhere(life)
    life.fleet.run(life.fleet.now + 4.0)
    life.began_at = life.fleet.now
    victim = worker(life)
    pane = seal(life, victim)
    life.note(f"{victim.name} stands still")
    life.fleet.stall(victim, 6.0)
    del victim.node.send  # from then on its runs come up again
    life.fleet.run(life.fleet.now + 30.0)
    check(life, silence_max_s=2 * PANE_MS / 1000 + 4.0)
    window = window_of(life, pane)
    assert window.contributors == window.expected, f"{life.about()}: {window}"
    delay_s = window.at - (pane + PANE_MS - WALL_MS) / 1000 - 1.0
    assert delay_s <= 2 * PANE_MS / 1000 + 2.5, life.about()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 60))
def test_copies_and_all_other_faults(seed: int) -> None:
    source = random.Random(seed)
    life = begin_some(seed, source, trees=1 + seed % 3, sql=source.choice((PATIENT, MIRRORING)))
    follow_elsewhere(life)
    happen(life, source.choices(ACTS, k=source.choice((1, 2, 3))))
    check(life, silence_max_s=45.0)
