"""Lives of simulated fleets: what goes wrong in them follows from the seed, what must hold all the same is checked."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from recording_client import client_of
from simulated_fleet import SQL, Server, SimulatedFleet, key_of
from window_checks import check_followers, check_windows

from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.model.placement import groups_of

JOB = "one"
DEEP = 26
"""With so many agents trees have nodes between the root and leaves."""
SILENCE_MAX_S = 10.0
QUIET_S = 15.0
"""After the last fault everything is well again within this time."""
LAST_RETURN_S = 12.0
"""What goes away for a while is back after this time at the latest."""


@dataclass
class Life:
    """A fleet with one live job, followed from one server that nothing happens to."""

    fleet: SimulatedFleet
    follower: Server
    began_at: float
    trees: int = 1
    faults: list[str] = field(default_factory=list)
    has_stood_still: bool = False
    """Whether a master stood still, and another took over meanwhile."""

    def note(self, fault: str) -> None:
        self.faults.append(f"{self.fleet.now:.2f} {fault}")

    def about(self) -> str:
        return f"seed {self.fleet.seed}: {'; '.join(self.faults)}"

    def alive(self) -> list[Server]:
        """Those that something may happen to."""
        return [one for one in self.fleet.servers.values() if one.is_up and one is not self.follower and one.writes]


def begin(
    seed: int,
    size: int,
    bystanders: int = 0,
    *,
    loss: float = 0.0,
    trees: int = 1,
    sql: str = SQL,
    disks: bool = False,
) -> Life:
    """A fleet in which everybody runs the job and windows come."""
    fleet = SimulatedFleet(seed, disks=disks)
    for number in range(size + bystanders):
        # Who is far from the root routes by prefix: where many share the root's first digit, trees are deep.
        crowded = size >= DEEP and number % 2 == 0
        node_id = (key_of(JOB) >> 124 << 124) + fleet.random.getrandbits(124) if crowded else None
        fleet.add(*(["web"] if number < size else []), node_id=node_id)
        fleet.run(fleet.now + 0.3)
    fleet.run(fleet.now + 10.0)
    assert all(server.node.is_active for server in fleet.servers.values())
    fleet.keep_writing(fleet.now + 300.0)
    fleet.simulator.loss = loss
    follower = fleet.random.choice(fleet.workers())
    fleet.submit(JOB, follower, sql if trees == 1 else f"{sql} TREES {trees}")
    client_of(follower.agent).follow(key_of(JOB), None, fleet.now)
    fleet.run(fleet.now + fleet.random.uniform(5, 8))
    return Life(fleet, follower, fleet.now, trees)


def begin_some(seed: int, source: random.Random, *, loss: float = 0.0, trees: int = 1, sql: str = SQL) -> Life:
    """The same with any number of agents; every fifth is a deep one."""
    size = source.choice((3, 4, 5, 6, 8)) if seed % 5 else DEEP
    return begin(seed, size, bystanders=source.choice((0, 0, 2)), loss=loss, trees=trees, sql=sql)


def follow_elsewhere(life: Life) -> None:
    """Where the follower is the master, another one follows, so that something may happen to the master."""
    fleet = life.fleet
    if life.follower.agent.masters.state(key_of(JOB)) is not None:
        life.follower = life.alive()[0]
        client_of(life.follower.agent).follow(key_of(JOB), FIRST_PANE, fleet.now)
        fleet.run(fleet.now + 1.0)


# What may happen.


def crash(life: Life) -> None:
    fall(life, life.fleet.random.choice(life.alive()))


def crash_master(life: Life) -> None:
    masters = [server for server, _ in life.fleet.masters(JOB) if server in life.alive()]
    fall(life, masters[0] if masters else life.fleet.random.choice(life.alive()))


def crash_interior(life: Life) -> None:
    """One with children and a parent, if there is any."""
    key = key_of(JOB)
    inside = [one for one in life.alive() if one.node.children(key) and one.node.parent(key)]
    fall(life, life.fleet.random.choice(inside or life.alive()))


def crash_root(life: Life) -> None:
    """One that is the root of some of the job's trees, but not the master, if there is any."""
    keys = groups_of(key_of(JOB), life.trees)[1:]
    roots = [one for one in life.alive() if any(one.node.is_root(key) for key in keys)]
    masters = [server for server, _ in life.fleet.masters(JOB)]
    fall(life, life.fleet.random.choice([one for one in roots if one not in masters] or life.alive()))


def stall_root(life: Life) -> None:
    """The same stands still."""
    keys = groups_of(key_of(JOB), life.trees)[1:]
    roots = [one for one in life.alive() if any(one.node.is_root(key) for key in keys)]
    stand_still(life, life.fleet.random.choice(roots or life.alive()))


def fall(life: Life, server: Server) -> None:
    fleet = life.fleet
    if len(life.alive()) < 2:
        return
    life.note(f"{server.name} crashes")
    fleet.crash(server)
    if fleet.random.random() < 0.6:
        fleet.at(fleet.now + fleet.random.choice((0.3, 2.0, 6.0, LAST_RETURN_S)), lambda: come_back(life, server))


def come_back(life: Life, server: Server) -> None:
    if not server.is_up:
        life.note(f"{server.name} is back")
        life.fleet.restart(server)


def stall(life: Life) -> None:
    stand_still(life, life.fleet.random.choice(life.alive()))


def stand_still(life: Life, server: Server) -> None:
    seconds = life.fleet.random.choice((0.5, 2.0, 6.0))
    life.note(f"{server.name} stands still for {seconds} s")
    life.fleet.stall(server, seconds)


def leave(life: Life) -> None:
    if len(life.alive()) >= 2:
        server = life.fleet.random.choice(life.alive())
        life.note(f"{server.name} leaves")
        life.fleet.leave(server)


def join(life: Life) -> None:
    server = life.fleet.add(*life.fleet.random.choice((["web"], ["web"], [])))
    life.note(f"{server.name} joins")
    if server.streams:
        life.fleet.keep_writing(life.began_at + 300.0, servers=[server])


def cut(life: Life) -> None:
    """Some cannot be reached from the others for a while."""
    fleet = life.fleet
    few = fleet.random.sample(life.alive(), max(1, len(life.alive()) // 3))
    rest = [one.node for one in fleet.servers.values() if one.is_up and one not in few]
    life.note(f"{', '.join(one.name for one in few)} cut off")
    fleet.simulator.cut([one.node for one in few], rest)

    def heal() -> None:
        life.note("healed")
        fleet.simulator.heal()

    fleet.at(fleet.now + fleet.random.choice((1.0, 5.0, LAST_RETURN_S)), heal)


Act = Callable[[Life], None]
ACTS: tuple[Act, ...] = (crash, crash_interior, crash_master, stall, leave, join)
"""All but those of the network."""
TREE_ACTS: tuple[Act, ...] = (*ACTS, crash_root, crash_root, stall_root)
"""The same for a job of several trees."""


def happen(life: Life, acts: Sequence[Act], span_s: float = 10.0) -> None:
    """Lets things happen at some time within a span, and then time pass until all should be well."""
    fleet = life.fleet
    for act in acts:
        fleet.at(life.began_at + fleet.random.uniform(0, span_s), lambda act=act: act(life))  # type: ignore[misc]
    fleet.run(life.began_at + span_s + LAST_RETURN_S + QUIET_S)


# What must hold.


def check(life: Life, *, silence_max_s: float, versions_differ: bool = False) -> None:
    """Nothing counts twice or is lost, who is missing is named, windows go on, and all are back in the end.

    `versions_differ`: the job was changed while the fleet was cut in two.
    """
    fleet = life.fleet
    check_windows(fleet)
    check_followers(fleet, JOB, [life.follower], versions_differ=versions_differ)
    silence = fleet.longest_silence(JOB, life.began_at, fleet.now)
    assert silence <= silence_max_s, f"{life.about()}: silent for {silence:.1f} s"
    there = {server.name for server in fleet.workers() if server.is_up}
    last = [window.contributors for window in fleet.of(JOB)[-4:]]
    # Where messages get lost, what came too late is missing in one window or the other.
    back = frozenset.union(*last) if fleet.simulator.loss else last[-2] & last[-1]
    assert there <= back, f"{life.about()}: without {there - back}"
    assert len(fleet.masters(JOB)) == 1, life.about()
    for server in fleet.servers.values():
        if server.is_up:
            server.node.check()
