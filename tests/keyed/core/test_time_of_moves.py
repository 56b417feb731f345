"""Events that rest at an agent which does not host their node hold event time back, wherever they are."""

from __future__ import annotations

import random

import pytest
from fleet_of_elements import Agent, Fleet
from seeds import seeds
from test_flow import check, counting, rows_of

from agent.runtime.keyed.elements.runtime import EVENT_TIME


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


@pytest.mark.parametrize("seed", seeds(1, slow=[5]))
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
    check(fleet, {"Text": inserted})
    assert any(runtime.advanced for runtime in reading.runtimes.values())
    assert overtaken.late == [], (seed, len(overtaken.late))
