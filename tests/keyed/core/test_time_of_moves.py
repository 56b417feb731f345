"""Events that rest at an agent which does not host their node hold event time back, wherever they are."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fleet_of_elements import FIRST_MS, Agent, Fleet
from seeds import seeds
from test_flow import check, counting, rows_of

from agent.runtime.keyed.elements.runtime import EVENT_TIME
from agent.runtime.keyed.hosting.rows.outgoing import NEVER
from agent.runtime.keyed.logical_nodes import NODES


class Overtaken:
    """Notes events that come to elements when time has passed them: they are late, and joins and windows drop them."""

    def __init__(self, fleet: Fleet) -> None:
        self.late: list[tuple[str, int, int]] = []
        for agent in fleet.agents.values():
            self.watch(agent)

    def watch(self, agent: Agent) -> None:
        for name, runtime in agent.runtimes.items():
            agent.runtimes[name].process = self._checked(name, runtime, runtime.process)  # type: ignore[method-assign]

    def _checked(self, name, runtime, process):
        def checked(type_, rows, done) -> None:
            upto = max(runtime.advanced, default=0)
            self.late += [(name, time, upto) for time in rows[EVENT_TIME].to_list() if time < upto]
            process(type_, rows, done)

        return checked


@pytest.mark.parametrize("seed", seeds(slow=[1, 5]))
def test_no_event_is_late_as_its_node_moves(seed: int) -> None:
    fleet = Fleet(counting(guaranteed=False), 4, seed)
    fleet.delay_s = 0.3
    overtaken, chance = Overtaken(fleet), random.Random(seed)
    fleet.has_time = True
    reading, *others = fleet.agents.values()
    for agent in others:
        agent.job.source_time("Text", 2**61)
    inserted = []
    for step in range(120):
        rows = rows_of(fleet, 4)
        inserted += rows
        fleet.insert(reading, "Text", rows)
        if step % 20 == 10:
            fleet.lend(chance.choice(list(fleet.agents.values())))
        fleet.run(0.1)
    fleet.run(2)
    fleet.settle()
    _assert_all_are_hosted(fleet)
    check(fleet, {"Text": inserted})
    assert any(runtime.advanced for runtime in reading.runtimes.values())
    assert overtaken.late == [], (seed, len(overtaken.late))


def _assert_all_are_hosted(fleet: Fleet) -> None:
    known = np.logical_or.reduce([agent.job._membership.known for agent in fleet.agents.values()])
    hosts = np.sum([agent.job._host.owned for agent in fleet.agents.values()], axis=0)
    assert (hosts[known] == 1).all(), (fleet.seed, np.flatnonzero(known & (hosts != 1)))


def test_what_a_node_emits_while_it_moves_holds_time_back_until_it_has_moved_or_stays() -> None:
    """A new host emits it, too; time that went on meanwhile would close windows without it."""
    fleet = Fleet(counting(guaranteed=False), 1)
    (agent,) = fleet.agents.values()
    inserted = rows_of(fleet, 20)
    fleet.insert(agent, "Text", inserted)
    fleet.settle()
    host = agent.job._host
    for slot in host.slots.values():
        slot.sealed[:] = True
    more = rows_of(fleet, 20)
    fleet.insert(agent, "Text", more)
    fleet.run(1)
    assert host.collected_lowest("Updated") == FIRST_MS + 200
    host.unseal(np.arange(NODES))
    fleet.settle()
    assert host.collected_lowest("Updated") == NEVER
    check(fleet, {"Text": [*inserted, *more]})
