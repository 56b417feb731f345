"""An agent that joins, or is back, hears of the fleet's jobs from a neighbour: it need not wait for announcements."""

from __future__ import annotations

import msgspec
import pytest
from memory_fleet import KEY, Fleet

from agent.runtime.fleet import job_inquiry
from agent.runtime.messages.jobs import CODEC, AnnouncementBatch
from agent.runtime.messages.sender import FLEET_GROUP
from overlay import app_id

OTHER = app_id("other", b"")


def running(size: int = 4) -> Fleet:
    """A fleet with a live job that has just been announced, and will not be for a while."""
    fleet = Fleet(size)
    fleet.submit(bounded=False)
    fleet.catch_up()
    fleet.wait_long(12.0)
    sent = announced(fleet)
    while announced(fleet) == sent:
        fleet.wait(0.1)
    return fleet


def announced(fleet: Fleet) -> float:
    """When the job was announced last."""
    at = fleet.agents[0].directory.announced_at(KEY)
    assert at is not None
    return at


def test_an_agent_that_joins_has_its_number_in_the_job_before_the_next_announcement() -> None:
    fleet = running()
    before = announced(fleet)
    added = fleet.add("later")
    part = added.jobs.get(KEY)
    assert part is not None
    assert part.number is not None
    assert announced(fleet) == before
    assert added.inquiry.statistics() == {"told": 1}
    assert added.inquiry.is_empty


def test_it_asks_the_next_neighbour_where_one_knows_nothing_and_gives_up_in_the_end() -> None:
    fleet = Fleet(6)
    added = fleet.add("later")
    assert not added.inquiry.is_empty
    fleet.submit(bounded=False)
    fleet.catch_up()
    fleet.wait_long(job_inquiry.ASKED_MAX * job_inquiry.ASK_AGAIN_S + 1.0)
    assert added.inquiry.is_empty
    assert all(agent.inquiry.is_empty for agent in fleet.agents)


def test_what_nobody_has_asked_for_is_refused() -> None:
    fleet = running()
    known = fleet.agents[0].directory.get(KEY)
    assert known is not None
    before = fleet.agents[1].refused
    other = msgspec.structs.replace(known, app_id=OTHER, name="other")
    for sender in fleet.agents[2:]:
        fleet.agents[1].inquiry._asked.pop(sender.node.peer.node_id, None)
        batch = AnnouncementBatch(FLEET_GROUP, [other])
        sender.node.send(fleet.agents[1].node.peer, CODEC.encode(batch), fleet.now)
    fleet.settle()
    assert fleet.agents[1].directory.get(OTHER) is None
    assert fleet.agents[1].refused == before + 2


def test_nobody_tells_the_former_master_that_it_leads_the_job_still() -> None:
    """It was started again, and nobody leads the job at the moment: whoever is next finds that out."""
    fleet = running()
    led = next(agent for agent in fleet.agents if agent.masters.get(KEY) is not None)
    fleet.agents.remove(led)
    fleet.network.remove(led.node)
    again = fleet.add(led.name)
    assert again.node.peer.node_id == led.node.peer.node_id
    assert again.inquiry.statistics() == {"told": 0}
    assert again.directory.get(KEY) is None


def test_of_very_many_jobs_a_neighbour_tells_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(2)
    for number in range(4):
        fleet.submit(name=f"shop-{number}", bounded=False)
    fleet.wait_long(2.0)
    monkeypatch.setattr(job_inquiry, "TOLD_MAX", 3)
    assert fleet.add("later").inquiry.statistics() == {"told": 3}


@pytest.mark.parametrize("count", [1, job_inquiry.ANNOUNCEMENTS_MAX, 2 * job_inquiry.ANNOUNCEMENTS_MAX + 1])
def test_announcements_are_batched_by_number_and_size(count: int) -> None:
    fleet = running()
    known = fleet.agents[0].directory.get(KEY)
    assert known is not None
    batches = [*job_inquiry.in_batches([known] * count)]
    assert sum(map(len, batches)) == count
    assert max(map(len, batches)) <= job_inquiry.ANNOUNCEMENTS_MAX
    long = msgspec.structs.replace(known, text="x" * (job_inquiry.BATCH_CHARACTERS + 1))
    assert [len(batch) for batch in job_inquiry.in_batches([long] * 3)] == [1, 1, 1]
