"""Lets a schedule happen to a simulated fleet."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from oracle_fleet import OracleFleet
from schedules import JOBS, Fault, Schedule
from simulated_fleet import PRODUCTS, Server

from agent import Ended, PublishedWindow
from agent.runtime.model.placement import groups_of

JOINED_S = 20.0
FIRST_WINDOW_S = 90.0
"""Time for the first window: a session ends with the first pause of its agent."""
ASK_AGAIN_S = 1.0
"""Interval at which the client of a restarted fleet asks for a job that is not known yet."""
TREES = 3
PANES = ("tumbling", "leaping", "mirroring", "trees", "recovering", "mapped", "staged", "folded")
"""Jobs whose windows are a pane each, so that others of another length may follow them."""
STEPPED_S = 14.0
"""Time after a step of a clock in which its agent's events may be late, or its panes be partial."""


@dataclass
class OracleLife:
    """A schedule, the fleet it happened to, and what came of each fault."""

    schedule: Schedule
    fleet: OracleFleet
    began_at: float = 0.0
    happened: list[str] = field(default_factory=list)
    updates: int = 0

    @property
    def text(self) -> str:
        """The query as it was submitted."""
        return JOBS[self.schedule.job]

    def about(self) -> str:
        return f"{self.schedule!r}\n  happened: {'; '.join(self.happened)}"

    def note(self, fault: str) -> None:
        self.happened.append(f"{self.fleet.now - self.began_at:.2f} {fault}")


def live(schedule: Schedule) -> OracleLife:
    """A fleet in which everybody runs the job, to which everything happens; at the end all should be well again."""
    fleet = OracleFleet(schedule.seed, schedule.late, schedule.job)
    life = OracleLife(schedule, fleet)
    for _ in range(schedule.size):
        fleet.run(fleet.now + 0.2)
        fleet.add("web")
    fleet.run_until(lambda: all(one.node.is_active for one in fleet.servers.values()), JOINED_S)
    fleet.keep_writing(math.inf)
    fleet.begin(life.text)
    fleet.follow(None)
    fleet.run_until(lambda: bool(fleet.of(fleet.app)), FIRST_WINDOW_S)
    fleet.run(fleet.now + fleet.random.uniform(0.0, 2.0))
    life.began_at = fleet.now
    for fault in schedule.faults:
        fleet.at(life.began_at + fault.at, lambda fault=fault: FAULTS[fault.kind](life, fault))  # type: ignore[misc]
    fleet.run(life.began_at + schedule.seconds)
    return life


def _alive(life: OracleLife) -> list[Server]:
    fleet = life.fleet
    return [one for one in fleet.servers.values() if one.is_up and one.writes and one is not fleet.follower]


def _victim(life: OracleLife, fault: Fault) -> Server | None:
    """Whom a fault befalls, if there is anybody."""
    fleet, alive = life.fleet, _alive(life)
    if not alive:
        return None
    chosen: list[Server] = []
    if fault.whom == "master":
        chosen = [server for server, _ in fleet.masters(fleet.app) if server in alive]
    elif fault.whom == "root":
        keys = groups_of(fleet.key, TREES)[1:]
        chosen = [one for one in alive if any(one.node.is_root(key) for key in keys)]
    elif fault.whom == "inner":
        chosen = [one for one in alive if one.node.children(fleet.key) and one.node.parent(fleet.key)]
    else:
        return alive[int(fault.whom) % len(alive)]
    return chosen[0] if chosen else alive[0]


def _on(act: Callable[[OracleLife, Fault, Server], None]) -> Callable[[OracleLife, Fault], None]:
    """A fault that befalls one agent, if there is another one."""

    def happen(life: OracleLife, fault: Fault) -> None:
        if (server := _victim(life, fault)) is not None:
            life.note(f"{server.name}: {fault.kind}, {fault.seconds} s, {fault.much}")
            act(life, fault, server)

    return happen


def _crash(life: OracleLife, fault: Fault, server: Server) -> None:
    life.fleet.crash(server)
    life.fleet.at(life.fleet.now + fault.seconds, lambda: _come_back(life, server))


def _come_back(life: OracleLife, server: Server) -> None:
    if not server.is_up:
        life.note(f"{server.name} is back")
        life.fleet.restart(server)


def _wipe(life: OracleLife, fault: Fault, server: Server) -> None:
    _crash(life, fault, server)
    life.fleet.lose_disk(server)


def _gone(life: OracleLife, _fault: Fault, server: Server) -> None:
    if len(_alive(life)) > 1:
        life.fleet.crash(server)
        server.writes = False


def _fleet(life: OracleLife, fault: Fault) -> None:
    """All are killed, and started again in any order; so is the follower's agent, and its client."""
    fleet = life.fleet
    servers = [one for one in fleet.servers.values() if one.is_up]
    life.note(f"all are killed for {fault.seconds} s")
    for server in servers:
        fleet.crash(server)
    for number, server in enumerate(fleet.random.sample(servers, len(servers))):
        fleet.at(fleet.now + fault.seconds + 0.3 * number, lambda server=server: _start_again(life, server))  # type: ignore[misc]


def _start_again(life: OracleLife, server: Server) -> None:
    if not server.is_up and (server.writes or server is life.fleet.follower):
        life.fleet.restart(server)
    if server is life.fleet.follower:
        _follow_on(life)


def _follow_on(life: OracleLife) -> None:
    """Asks for what came after the last window that was shown, until the job is known again."""
    fleet, told = life.fleet, life.fleet.follower.followed[life.fleet.key]
    shown = [one.pane for one in told if isinstance(one, PublishedWindow)]
    before = len(told)
    fleet.follow(shown[-1] if shown else None)

    def look() -> None:
        if any(isinstance(one, Ended) and one.reason == "unknown" for one in told[before:]):
            _follow_on(life)
        elif len(told) == before:
            fleet.at(fleet.now + ASK_AGAIN_S, look)

    fleet.at(fleet.now + ASK_AGAIN_S, look)


def _stall(life: OracleLife, fault: Fault, server: Server) -> None:
    life.fleet.stall(server, fault.seconds)


def _mute(life: OracleLife, fault: Fault, server: Server) -> None:
    server.reads_from = life.fleet.now + fault.seconds


def _slow(life: OracleLife, fault: Fault, server: Server) -> None:
    """One event a second: a third of what is logged."""
    server.block = 1
    for second in range(int(fault.seconds)):
        at = life.fleet.now + second
        life.fleet.at(at, lambda until=at + 0.9: setattr(server, "reads_from", until))  # type: ignore[misc]
    life.fleet.at(life.fleet.now + fault.seconds, lambda: setattr(server, "block", 50))


def _cut(life: OracleLife, fault: Fault, *, one_way: bool = False) -> None:
    """A third of the agents cannot be reached, from the one that is named on."""
    fleet, alive, first = life.fleet, _alive(life), _victim(life, fault)
    if first is None:
        return
    at = alive.index(first)
    few = (alive[at:] + alive[:at])[: max(1, len(alive) // 3)]
    rest = [one.node for one in fleet.servers.values() if one.is_up and one not in few]
    life.note(f"{', '.join(one.name for one in few)}: {fault.kind}, {fault.seconds} s")
    fleet.simulator.cut([one.node for one in few], rest, one_way=one_way)
    fleet.at(fleet.now + fault.seconds, fleet.simulator.heal)


def _one_way(life: OracleLife, fault: Fault) -> None:
    _cut(life, fault, one_way=True)


def _loss(life: OracleLife, fault: Fault) -> None:
    life.note(f"loss of {fault.much} for {fault.seconds} s")
    life.fleet.simulator.loss = fault.much
    life.fleet.at(life.fleet.now + fault.seconds, lambda: setattr(life.fleet.simulator, "loss", 0.0))


def _twice(life: OracleLife, fault: Fault) -> None:
    life.note(f"{fault.much} of messages come twice for {fault.seconds} s")
    life.fleet.simulator.duplication = fault.much
    life.fleet.at(life.fleet.now + fault.seconds, lambda: setattr(life.fleet.simulator, "duplication", 0.0))


def _disk(life: OracleLife, fault: Fault, server: Server) -> None:
    """It takes nothing for a while."""
    assert server.disk is not None
    server.disk.is_stuck = True
    life.fleet.has_disk_trouble.add(server.name)

    def mend() -> None:
        assert server.disk is not None
        server.disk.is_stuck = False
        life.fleet.has_disk_trouble.discard(server.name)

    life.fleet.at(life.fleet.now + fault.seconds, mend)


def _full_disk(life: OracleLife, fault: Fault, server: Server) -> None:
    """It refuses everything for a while; then all is written again."""
    fleet = life.fleet
    fleet.full_disks.add(server.name)
    fleet.has_disk_trouble.add(server.name)

    def mend() -> None:
        fleet.full_disks.discard(server.name)
        fleet.has_disk_trouble.discard(server.name)
        if server.is_up:
            server.agent.recorder.repeat(fleet.now)

    fleet.at(fleet.now + fault.seconds, mend)


def _slow_disk(life: OracleLife, fault: Fault, server: Server) -> None:
    life.fleet.slow_disks[server.name] = 0.0
    life.fleet.at(life.fleet.now + fault.seconds, lambda: life.fleet.slow_disks.pop(server.name, None))


def _busy(life: OracleLife, fault: Fault, server: Server) -> None:
    """Its programs do not answer."""
    life.fleet.programs[server.name].busy_until = life.fleet.now + fault.seconds


def _clock(life: OracleLife, fault: Fault, server: Server) -> None:
    """A server's wall clock is wrong for a while, for those who write its log too."""
    fleet = life.fleet

    def step(off_ms: int) -> None:
        server.clock_off_ms = off_ms
        fleet.steps_ms.setdefault(server.name, []).append(fleet.wall_ms)
        fleet.stepped_ms[server.name] = fleet.wall_ms + int(STEPPED_S * 1000)

    step(int(fault.much * 1000))
    fleet.at(fleet.now + fault.seconds, lambda: step(0))


def _update(life: OracleLife, fault: Fault) -> None:
    """Each leaves another product out; some have longer windows."""
    life.updates += 1
    left_out = PRODUCTS[life.updates % len(PRODUCTS)]
    text = life.text.replace("GROUP BY", f"WHERE product <> '{left_out}' GROUP BY")
    if fault.much and life.schedule.job in PANES:
        text = text.replace("2 SECONDS", "3 SECONDS")
    life.note(f"update: without {left_out}{', of 3 seconds' if '3 SECONDS' in text else ''}")
    if life.fleet.follower.is_up:
        life.fleet.change(text)


def _leave(life: OracleLife, _fault: Fault, server: Server) -> None:
    if len(_alive(life)) > 1:
        life.fleet.leave(server)


def _join(life: OracleLife, _fault: Fault) -> None:
    server = life.fleet.add("web")
    life.note(f"{server.name} joins")
    life.fleet.keep_writing(math.inf, servers=[server])


FAULTS: dict[str, Callable[[OracleLife, Fault], None]] = {
    "crash": _on(_crash),
    "wipe": _on(_wipe),
    "gone": _on(_gone),
    "fleet": _fleet,
    "stall": _on(_stall),
    "mute": _on(_mute),
    "slow": _on(_slow),
    "cut": _cut,
    "one-way": _one_way,
    "loss": _loss,
    "twice": _twice,
    "disk": _on(_disk),
    "slow-disk": _on(_slow_disk),
    "full-disk": _on(_full_disk),
    "busy": _on(_busy),
    "clock": _on(_clock),
    "update": _update,
    "leave": _on(_leave),
    "join": _join,
}
"""What each kind of fault does."""
