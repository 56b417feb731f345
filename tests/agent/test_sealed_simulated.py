"""Agents have what they seal on disk before it leaves: what becomes of it when they are killed, their logs are gone, or
their disks fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from recording_client import client_of
from remembering_fleet import RememberingFleet
from seeds import seeds
from simulated_fleet import PANE_MS, SQL, Server, Window
from test_remembering_simulated import JOB, begin, check_conservation

from agent.runtime.durable.journal import RETRY_S, STORE_S
from agent.runtime.messages.jobs import Snapshot


def victim(fleet: RememberingFleet, follower: Server) -> Server:
    """An agent that is neither the master nor followed."""
    master = fleet.masters(JOB)[0][0]
    return next(server for server in fleet.servers.values() if server not in (follower, master))


def wait_until(fleet: RememberingFleet, condition: Callable[[], bool], seconds_max: float = 20.0) -> None:
    deadline = fleet.now + seconds_max
    while not condition():
        assert fleet.now < deadline, f"seed {fleet.seed}: in vain"
        fleet.run(fleet.now + 0.05)


def sealed_pane(fleet: RememberingFleet, one: Server) -> int | None:
    """The last pane with events of the group that waits for an agent's disk."""
    disk = fleet.sealed[one.name]
    if disk.waiting is None or not disk.count:
        return None
    durable, disk.durable = disk.durable, [*disk.durable, disk.waiting]
    _, chains, _ = disk.kept()
    disk.durable = durable
    panes = [pane for chain in chains.values() for stored in chain.values() for pane in stored.runs[-1].counted]
    return max(panes, default=None)


def in_window(fleet: RememberingFleet, pane: int) -> Window:
    """The last result of a window."""
    return [window for window in fleet.of(JOB) if window.pane == pane][-1]


def kill_between_disk_and_network(fleet: RememberingFleet, one: Server) -> int:
    """Kills an agent when a pane is on its disk, and has not left; returns the pane."""
    wait_until(fleet, lambda: sealed_pane(fleet, one) is not None)
    pane = sealed_pane(fleet, one)
    assert pane is not None
    fleet.sealed[one.name].write()
    fleet.crash(one)
    return pane


@pytest.mark.parametrize("seed", seeds(2, slow=range(3, 30)))
def test_what_was_sealed_counts_although_the_log_is_gone(seed: int) -> None:
    fleet, follower = begin(seed, 3)
    one = victim(fleet, follower)
    pane = kill_between_disk_and_network(fleet, one)
    fleet.lose_log(one)
    fleet.at(fleet.now + 0.5, lambda: fleet.restart(one))
    fleet.run(fleet.now + 20.0)
    check_conservation(fleet)
    window = in_window(fleet, pane)
    assert one.name in window.contributors - window.partial, f"seed {seed}: the window of {pane} lacks it"
    partial = [other for other in fleet.of(JOB) if one.name in other.partial]
    assert partial, "and what was open then has lost events"
    assert all(other.pane > pane for other in partial)


@pytest.mark.parametrize("seed", seeds(2, slow=range(3, 12)))
def test_what_was_sealed_counts_although_the_agent_hands_it_in_long_after_it_is_back(seed: int) -> None:
    """A machine with much else to do: who is on the roster again is still waited for as long as the query says."""
    fleet, follower = begin(seed, 3, f"{SQL} ON STRAGGLER WAIT RECOVER FOR 30 SECONDS")
    one, (master, state) = victim(fleet, follower), fleet.masters(JOB)[0]
    pane = kill_between_disk_and_network(fleet, one)
    fleet.lose_log(one)
    fleet.run(fleet.now + 3.0)
    fleet.restart(one)
    wait_until(fleet, lambda: bool(state.roster.back & state.roster.numbers_of(one.node.peer.node_id)))
    fleet.stall(one, 3.5)
    fleet.run(fleet.now + 20.0)
    assert fleet.masters(JOB) == [(master, state)]
    check_conservation(fleet)
    window = in_window(fleet, pane)
    assert one.name in window.contributors - window.partial, f"seed {seed}: the window of {pane} lacks it"


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 12)))
def test_sealed_panes_are_sent_again_byte_for_byte(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, follower = begin(seed, 3)
    one = victim(fleet, follower)
    sent: list[Snapshot] = []

    def listen(server: Server) -> None:
        send = server.agent.jobs._sender.send

        def heard(peer: Any, message: Any, now: float) -> None:
            if isinstance(message, Snapshot):
                sent.append(message)
            send(peer, message, now)

        monkeypatch.setattr(server.agent.jobs._sender, "send", heard)

    listen(one)
    for server in fleet.servers.values():  # nothing is published that others have not sealed
        server.sealing_from = fleet.now + 12.0 if server is not one else 0.0
    fleet.run(fleet.now + 6.0)
    first = list(sent)
    fleet.crash(one)
    fleet.lose_log(one)
    sent.clear()
    fleet.restart(one)
    listen(one)
    fleet.run(fleet.now + 12.0)
    again = {message.upto: message for message in sent if message.counted}
    repeated = [(message, again[message.upto]) for message in first if message.upto in again and message.counted]
    assert repeated, f"seed {seed}: nothing was sent again"
    for before, after in repeated:
        assert (before.state, before.counted) == (after.state, after.counted), f"seed {seed}"


@pytest.mark.parametrize("seed", seeds(2, slow=range(3, 30)))
def test_each_event_counts_once_through_kills_and_late_events(seed: int) -> None:
    """Whatever was late before a kill is late after it, once, whether it was sealed by then or not."""
    fleet, follower = begin(seed, 3)
    one = victim(fleet, follower)
    source = fleet.random
    fleet.run(fleet.now + 8.0)  # of the first window the job has a part only: nothing that is late is of that one
    for _ in range(4):
        for _ in range(6):
            fleet.write(one, 2, late_ms=source.choice((3000, 6000)))
            fleet.run(fleet.now + source.uniform(0.2, 1.0))
        fleet.crash(one)
        fleet.at(fleet.now + source.choice((0.2, 1.5)), lambda: fleet.restart(one))
        fleet.run(fleet.now + source.uniform(6.0, 10.0))
    for server in fleet.servers.values():
        server.writes = False
    fleet.run(fleet.now + 12.0)
    first = fleet.of(JOB)[0].pane
    last = {window.pane: window.result for window in fleet.of(JOB) if window.pane > first}
    begun_ms = first + PANE_MS
    counted = sum(result.events + result.late for result in last.values())
    logged = sum(time >= begun_ms for server in fleet.servers.values() for time, _ in server.log)
    assert counted == logged, f"seed {seed}: {counted} of {logged}"


def test_a_disk_that_takes_nothing_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, follower = begin(5, 3)
    one = victim(fleet, follower)
    takes: dict[str, bool | None] = {one.name: None}
    well = fleet._takes
    monkeypatch.setattr(fleet, "_takes", lambda server: takes[server.name] if server.name in takes else well(server))
    since = fleet.now
    fleet.run(fleet.now + 12.0)
    assert fleet.longest_silence(JOB, since, fleet.now) < 2.0 + STORE_S + 2.0
    assert one.name in fleet.of(JOB)[-1].contributors
    assert one.agent.statistics()["sealed"]["unkept"] > 0
    takes[one.name] = False
    fleet.run(fleet.now + 8.0)  # of the first window the job has a part only: nothing that is late is of that one
    assert one.name in fleet.of(JOB)[-1].contributors
    del takes[one.name]
    fleet.run(fleet.now + RETRY_S + 6.0)
    kept = one.agent.statistics()["sealed"]["kept"]
    fleet.run(fleet.now + 6.0)
    assert one.agent.statistics()["sealed"]["kept"] > kept, "and it is given what it lacks when it is well again"
    fleet.crash(one)
    fleet.run(fleet.now + 0.4)
    fleet.restart(one)
    fleet.run(fleet.now + 14.0)
    check_conservation(fleet)
    assert one.name in fleet.of(JOB)[-1].contributors


def test_an_agent_that_leaves_hands_in_what_its_disk_has() -> None:
    fleet, follower = begin(6, 3, SQL)
    one = victim(fleet, follower)
    fleet.leave(one)
    fleet.run(fleet.now + 8.0)  # of the first window the job has a part only: nothing that is late is of that one
    assert not one.is_up
    assert client_of(one.agent).keeps_sealed
    check_conservation(fleet)
    left = [window for window in fleet.of(JOB) if one.name in window.contributors][-1]
    assert one.name in left.partial


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 12)))
def test_what_was_handed_in_at_an_orderly_end_does_not_leave_again_under_another_number(seed: int) -> None:
    fleet, follower = begin(seed, 3)
    one = victim(fleet, follower)
    for server in fleet.servers.values():  # the windows it has left are not out when it is back
        server.sealing_from = fleet.now + 9.0 if server is not one else 0.0
    fleet.run(fleet.now + 4.0)
    fleet.leave(one)
    wait_until(fleet, lambda: not one.is_up)
    fleet.restart(one)
    one.writes = True
    fleet.run(fleet.now + 20.0)
    check_conservation(fleet)
    assert one.name in fleet.of(JOB)[-1].contributors
