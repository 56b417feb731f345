"""Fleets whose agents have more to insert than they can, and who are killed: each event is somewhere, and once."""

from __future__ import annotations

import random

import pytest
from lives import JOB, Life, begin_some, check, crash, happen
from recording_client import RecordingClient
from seeds import seeds
from simulated_disk import SimulatedDisk
from simulated_fleet import PANE_MS, Server, SimulatedFleet
from test_deadlines_simulated import IN_TIME

from agent import Agent, StreamOptions
from agent.runtime.ingest.event_batch import EventBatch
from agent.runtime.ingest.panes.pane_store import PaneStore
from overlay import Node

LOAD = 1.8
PER_S = 10 / 3
"""Events a second in the log of each server."""
OVERLOAD_S = 14.0


class BusyAgents:
    """Gives each agent of a fleet a processor: inserting an event takes `event_s`, in which it does nothing else."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.event_s = 0.0
        self.free_at: dict[str, float] = {}
        self._turn: Server | None = None
        add, drive = PaneStore.add, SimulatedFleet._drive

        def add_slowly(store: PaneStore, batch: EventBatch) -> None:
            if self._turn is not None:
                now = self._now(self._turn.name)
                self.free_at[self._turn.name] = now + self.event_s * batch.events.height
            add(store, batch)

        def drive_if_free(fleet: SimulatedFleet, server: Server) -> None:
            if self.free_at.get(server.name, 0.0) <= fleet.now:
                self._turn = server
                drive(fleet, server)
                self._turn = None

        def agent(
            fleet: SimulatedFleet, name: str, node: Node, streams: dict[str, StreamOptions],
            disk: SimulatedDisk | None = None,
        ) -> Agent:  # fmt: skip
            self._fleet = fleet
            made = Agent(name, node, streams, observer=RecordingClient(disk), time=lambda: self._now(name))
            made.masters.on_result = lambda result: fleet._published(made, result)
            return made

        patch.setattr(PaneStore, "add", add_slowly)
        patch.setattr(SimulatedFleet, "_drive", drive_if_free)
        patch.setattr(SimulatedFleet, "_agent", agent)

    def _now(self, name: str) -> float:
        return max(self._fleet.now, self.free_at.get(name, 0.0))


def lived(seed: int, patch: pytest.MonkeyPatch) -> tuple[Life, int]:
    """A life with an overload of all agents, in which one may be killed, and a calm after it; with the number of events
    that agents have abandoned."""
    busy = BusyAgents(patch)
    life = begin_some(seed, random.Random(seed), sql=IN_TIME)
    life.fleet.run(life.fleet.now + 8.0)
    life.began_at = life.fleet.now
    busy.event_s = LOAD / PER_S
    life.fleet.at(life.began_at + OVERLOAD_S, lambda: setattr(busy, "event_s", 0.0))
    happen(life, [crash] if seed % 2 else [])
    every = [server.agent.ingest.statistics()["abandoned"] for server in life.fleet.servers.values()]
    return life, sum(every)


@pytest.mark.parametrize("seed", seeds(2, 104, slow=[3, *range(6, 104), *range(105, 206)]))
def test_each_event_is_counted_once_or_late_or_its_agent_is_missing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    life, abandoned = lived(seed, monkeypatch)
    fleet, windows = life.fleet, life.fleet.of(JOB)
    check(life, silence_max_s=25.0)
    assert abandoned > 0, life.about()
    found = sum(window.result.events + window.result.late for window in windows)
    written = sum(len(server.log) for server in fleet.servers.values())
    assert found <= written, f"{life.about()}: something counts twice"
    fallen = {fault.split()[1] for fault in life.faults}
    sure = [server for server in fleet.workers() if server.name not in fallen]
    owed = sum(
        server.counted(window.pane, PANE_MS).total()
        for window in windows[1:-2]
        for server in sure
        if server.name in window.contributors | window.leaped
    )
    assert owed <= found, f"{life.about()}: something is lost"
    assert {window.partial for window in windows[-3:]} == {frozenset()}, f"{life.about()}: they recover"
