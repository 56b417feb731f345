"""Where a job has many agents, messages go along the ring, together: no agent has links to all."""

from __future__ import annotations

import pytest
from fleet_of_elements import APP, LEAVES, Fleet
from seeds import seeds
from test_flow import check, counting, rows_of

from agent.runtime.keyed.hosting.rows.relay import PARCEL_BYTES
from agent.runtime.messages.elements import CARRIED, HOPS_MAX, CommitHeld, ElementParcel, ElementRows, Letter

AGENTS, SOURCES = 16, 4
FINGERS = 4


@pytest.mark.parametrize("guaranteed", seeds(False, slow=[True]))
def test_each_event_gets_to_its_element_along_the_ring(guaranteed: bool) -> None:
    fleet = Fleet(counting(guaranteed=guaranteed), AGENTS, is_sparse=True, direct_max=8)
    inserted = []
    for number, agent in enumerate(list(fleet.agents.values())[:SOURCES]):
        rows = rows_of(fleet, 60)
        inserted += rows
        fleet.insert(agent, "Text", rows)
        if guaranteed and number == SOURCES // 2:
            fleet.crash(next(reversed(fleet.agents.values())))
        fleet.run(0.05)
    fleet.settle()
    check(fleet, {"Text": inserted})
    counts = [agent.job.statistics() for agent in fleet.agents.values()]
    assert max(len(agent.peers) for agent in fleet.agents.values()) <= 2 * LEAVES + FINGERS + 2 * guaranteed
    assert sum(one["letters"] for one in counts) > 1.3 * sum(one["parcels"] for one in counts) > 0


def test_few_agents_send_directly() -> None:
    fleet = Fleet(counting(guaranteed=False), 8, direct_max=8)
    inserted = rows_of(fleet, 200)
    fleet.insert(next(iter(fleet.agents.values())), "Text", inserted)
    fleet.settle()
    check(fleet, {"Text": inserted})
    assert sum(agent.job.statistics()["letters"] for agent in fleet.agents.values()) == 0


def test_letters_that_go_round_in_circles_or_are_none_are_dropped_and_counted() -> None:
    fleet = Fleet(counting(guaranteed=False), 3)
    one, other, third = fleet.agents.values()
    held = CARRIED.encode(CommitHeld(APP, 1, 0))
    letters = [
        Letter(third.me, one.me, HOPS_MAX, held),
        Letter(other.me, one.me, 0, b"no message"),
        Letter(third.me, one.me, 0, held),
    ]
    other.job.handle(ElementParcel(APP, letters), one.me, fleet.now)
    assert other.job.statistics()["undelivered"] == 2
    assert other.job.statistics()["letters"] == 1


def test_a_parcel_that_is_large_waits_for_no_more() -> None:
    fleet = Fleet(counting(guaranteed=False), 3)
    one, other, third = fleet.agents.values()
    rows = CARRIED.encode(ElementRows(APP, 0, 1, 0, 0, bytes(PARCEL_BYTES)))
    other.job.handle(ElementParcel(APP, [Letter(third.me, one.me, 0, rows)]), one.me, fleet.now)
    assert other.job.statistics()["parcels"] == 1
