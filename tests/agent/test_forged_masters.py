"""Agents that announce themselves as a job's next master, and are not."""

from __future__ import annotations

import msgspec
import pytest
from lives import JOB, begin, check, crash_master, follow_elsewhere
from memory_fleet import COUNT, KEY, Fleet, events
from recording_client import client_of
from seeds import seeds
from simulated_fleet import key_of

from agent import Agent, Ended, PublishedWindow, StreamOptions
from agent.runtime.master.failover import descriptor_of
from agent.runtime.messages.jobs import CODEC, Announce, AnnouncementBatch, Followed, JobEnded, WindowMessage
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.model.epoch import JUMP_MAX, JobEpoch
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.requests import claims
from agent.runtime.requests.claims import OUTDO_S, RIVAL_S
from overlay import Id, MulticastReceived, distance


def running(size: int) -> tuple[Fleet, Agent, list[Agent]]:
    """A fleet with a live job, its master's agent, and the others, the nearest to the appId first."""
    fleet = Fleet(size, streams={"web": StreamOptions("end")})
    fleet.submit(COUNT, bounded=False, grace_ms=0)
    fleet.catch_up()
    by_distance = sorted(fleet.agents, key=lambda agent: distance(KEY, agent.node.peer.node_id))
    assert by_distance[0].masters.get(KEY) is not None
    return fleet, by_distance[0], by_distance[1:]


def claim_of(forger: Agent, **changes: object) -> Announce:
    """What the next master would announce, if the forger were it."""
    known = forger.directory.get(KEY)
    assert known is not None
    epoch = known.epoch.next(forger.node.peer.node_id)
    claim = msgspec.structs.replace(known, epoch=epoch, master=forger.node.peer, master_name=forger.name)
    return msgspec.structs.replace(claim, **changes)


def announce(fleet: Fleet, forger: Agent, claim: Announce) -> None:
    forger.node.multicast(FLEET_GROUP, CODEC.encode(claim), fleet.now)
    fleet.settle()


def followed(fleet: Fleet) -> set[JobEpoch]:
    known = [agent.directory.get(KEY) for agent in fleet.agents]
    return {one.epoch for one in known if one is not None}


def publish_one(fleet: Fleet) -> None:
    """Everybody counts an event of one window, which ends."""
    start_ms = fleet.wall_ms // 1000 * 1000 + 2000
    for after_ms in (0, 5000):
        for number in range(len(fleet.agents)):
            fleet.insert(number, events("a", at_ms=start_ms + after_ms))
    fleet.wait_long(2.0)


def unconfirmed(fleet: Fleet) -> int:
    return sum(agent.claims.statistics()["unconfirmed"] for agent in fleet.agents)


@pytest.mark.parametrize("place", range(4))
def test_nobody_follows_an_agent_that_is_not_the_nearest_to_the_job(place: int) -> None:
    fleet, master, others = running(5)
    (epoch,) = followed(fleet)
    announce(fleet, others[place], claim_of(others[place]))
    assert followed(fleet) == {epoch}
    assert unconfirmed(fleet) >= 4, "every agent has asked, the master has asked the others"
    publish_one(fleet)
    assert [(result.contributors, result.epoch) for result in fleet.results if result.events] == [(5, epoch.counter)]
    assert master.masters.get(KEY) is not None


def test_an_agent_that_knows_only_a_part_of_the_fleet_asks_the_nearest() -> None:
    fleet, _, others = running(24)
    (epoch,) = followed(fleet)
    far = [agent for agent in others if not agent.node.leaf_set.covers(KEY)]
    assert far, "for some the leaf set does not reach as far as the job"
    announce(fleet, far[0], claim_of(far[0]))
    assert followed(fleet) == {epoch}
    fresh = fleet.add("newcomer")
    fleet.wait_long(4.0)
    assert fresh.directory.get(KEY) is not None
    assert followed(fleet) == {epoch}


@pytest.mark.parametrize("leap", [JUMP_MAX + 1, 2**62])
def test_no_claim_uses_up_the_epochs_to_come(leap: int) -> None:
    fleet, _, others = running(4)
    (epoch,) = followed(fleet)
    node_id = others[0].node.peer.node_id
    announce(fleet, others[0], claim_of(others[0], epoch=JobEpoch(epoch.born_ms, epoch.counter + leap, node_id)))
    assert followed(fleet) == {epoch}
    assert unconfirmed(fleet) == 0, "nobody is asked"
    assert sum(agent.refused for agent in fleet.agents) >= 4


def test_a_later_job_of_the_name_is_not_believed_either() -> None:
    fleet, _, others = running(4)
    (epoch,) = followed(fleet)
    later = JobEpoch(epoch.born_ms + 1000, 1, others[0].node.peer.node_id)
    announce(fleet, others[0], claim_of(others[0], epoch=later))
    fleet.wait_long(RIVAL_S)
    announce(fleet, others[0], claim_of(others[0], epoch=later))
    assert followed(fleet) == {epoch}


def test_who_speaks_for_another_agent_is_refused() -> None:
    fleet, master, others = running(4)
    (epoch,) = followed(fleet)
    claim = claim_of(others[0], epoch=epoch.next(master.node.peer.node_id))
    before = sum(agent.refused for agent in fleet.agents)
    announce(fleet, others[0], claim)
    announce(fleet, others[0], msgspec.structs.replace(claim, epoch=epoch))
    assert followed(fleet) == {epoch}
    assert sum(agent.refused for agent in fleet.agents) - before == 8


@pytest.mark.parametrize("change", [{"stream": "other"}, {"trees": 2}, {"bounded": True}, {"name": "other"}])
def test_what_a_job_is_does_not_change_under_one_master(change: dict[str, object]) -> None:
    fleet, _, others = running(4)
    known = others[0].directory.get(KEY)
    assert known is not None
    before = sum(agent.refused for agent in fleet.agents)
    announce(fleet, others[0], msgspec.structs.replace(known, **change))
    batch = AnnouncementBatch(FLEET_GROUP, [msgspec.structs.replace(known, **change)])
    others[0].node.multicast(FLEET_GROUP, CODEC.encode(batch), fleet.now)
    fleet.settle()
    assert sum(agent.refused for agent in fleet.agents) - before == 8
    assert {agent.directory.get(KEY) for agent in fleet.agents} == {known}


def test_a_rival_that_does_not_give_up_is_outdone_now_and_then() -> None:
    fleet, master, others = running(5)
    (epoch,) = followed(fleet)
    claim = claim_of(others[0])
    for _ in range(round(RIVAL_S / 2)):
        announce(fleet, others[0], claim)
        assert followed(fleet) == {epoch}
        fleet.wait_long(2.0)
    for _ in range(4):
        announce(fleet, others[0], claim_of(others[0], epoch=epoch.next(others[0].node.peer.node_id)))
        fleet.wait_long(2.0)
    (outdone,) = followed(fleet)
    assert (outdone.counter, outdone.master) == (epoch.counter + 2, master.node.peer.node_id)
    assert master.claims.statistics()["outdone"] == 1
    for _ in range(round(OUTDO_S / 2) - 5):
        announce(fleet, others[0], claim_of(others[0]))
        fleet.wait_long(2.0)
    assert master.claims.statistics()["outdone"] == 1, "not more often, whatever is claimed"


def test_agents_that_have_followed_a_rival_come_back() -> None:
    fleet, master, others = running(6)
    claim = claim_of(others[-1])
    assert others[0].directory.believe(claim, fleet.now)
    assert len(followed(fleet)) == 2
    announce(fleet, others[-1], claim)
    fleet.wait_long(2.0)
    (outdone,) = followed(fleet)
    assert outdone == claim.epoch.next(master.node.peer.node_id)
    publish_one(fleet)
    assert [(one.contributors, one.epoch) for one in fleet.results if one.events] == [(6, outdone.counter)]


def test_a_forged_descriptor_does_not_take_the_place_of_the_masters() -> None:
    fleet, master, others = running(5)
    (epoch,) = followed(fleet)
    state = master.masters.state(KEY)
    assert state is not None
    forger, heir = others[-1], others[0]
    forged = msgspec.structs.replace(
        descriptor_of(state, 99), epoch=epoch.next(forger.node.peer.node_id), frontier=2**62, members=[]
    )
    for _ in range(2):
        forger.node.send(heir.node.peer, CODEC.encode(forged), fleet.now)
    fleet.settle()
    fleet.agents.remove(master)
    fleet.network.remove(master.node)
    fleet.wait_long(15.0)
    (after,) = followed(fleet)
    assert after == epoch.next(heir.node.peer.node_id)
    taken = heir.masters.state(KEY)
    assert taken is not None
    assert len(taken.roster) == 5
    assert taken.published_upto < 2**62


@pytest.mark.parametrize("seed", seeds(slow=[1, 2, 3, 4]))
def test_a_fleet_lives_with_an_agent_that_forges_all_the_time(seed: int) -> None:
    """It claims every job once a second, also while masters die and others take over."""
    life = begin(seed, size=7)
    fleet, key = life.fleet, key_of(JOB)
    follow_elsewhere(life)
    nearest = sorted(life.alive(), key=lambda one: distance(key, one.node.peer.node_id))
    forger = nearest[-1]
    claimed: list[JobEpoch] = []

    def forge() -> None:
        known = forger.agent.directory.get(key)
        if known is not None:
            epoch = known.epoch.next(forger.node.peer.node_id)
            claimed.append(epoch)
            claim = msgspec.structs.replace(known, epoch=epoch, master=forger.node.peer, frontier=2**62)
            forger.node.multicast(FLEET_GROUP, CODEC.encode(claim), fleet.now)
        fleet.at(fleet.now + 1.0, forge)

    forge()
    for _ in range(2):
        fleet.run(fleet.now + 8.0)
        masters = [server for server, _ in fleet.masters(JOB)]
        if forger not in masters:
            crash_master(life)
        fleet.run(fleet.now + 12.0)
    fleet.run(fleet.now + 15.0)
    check(life, silence_max_s=10.0)
    assert len(claimed) > 40, life.about()
    assert not {window.epoch for window in fleet.of(JOB)} & {(one.born_ms, one.counter, one.master) for one in claimed}


def test_claims_that_wait_to_be_confirmed_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "OPEN_MAX", 3)
    fleet, master, others = running(3)
    asker = others[1]
    for number in range(5):
        unknown = claim_of(others[0], app_id=Id(KEY + 1 + number))
        asker.process(MulticastReceived(FLEET_GROUP, CODEC.encode(unknown)), fleet.now, fleet.wall_ms)
    assert asker.pending.statistics() == {"pending": 3}
    fleet.settle()
    assert asker.pending.statistics() == {"pending": 0}
    for number in range(5):
        unknown = claim_of(others[0], app_id=Id(KEY + 1 + number))
        master.process(MulticastReceived(FLEET_GROUP, CODEC.encode(unknown)), fleet.now, fleet.wall_ms)
    assert not master.claims.is_empty
    fleet.settle()
    assert master.claims.is_empty
    assert len(master.directory.all()) == 4, "the job, and as many as it could ask about at a time"


def test_windows_come_from_the_master_alone() -> None:
    fleet, _, others = running(4)
    forger, follower = others[0], others[1]
    client_of(follower).follow(KEY, None, fleet.now)
    fleet.settle()
    known = follower.directory.get(KEY)
    assert known is not None
    refused = follower.refused
    ended = JobEnded(KEY, known.epoch, FIRST_PANE, "stopped")
    window = WindowMessage(KEY, known.epoch, FIRST_PANE, 5000, b"{}")
    own = known.epoch.next(forger.node.peer.node_id)
    answer = Followed(KEY, own, 1, FIRST_PANE, "shop", COUNT, "web", [], False)
    for message in (window, ended, answer, msgspec.structs.replace(window, epoch=own)):
        forger.node.send(follower.node.peer, CODEC.encode(message), fleet.now)
    fleet.settle()
    assert follower.refused == refused + 4
    publish_one(fleet)
    told = client_of(follower).notices()
    assert [one.pane for one in told if isinstance(one, PublishedWindow)]
    assert not [one for one in told if isinstance(one, Ended) or one == PublishedWindow(5000, msgspec.Raw(b"{}"))]


@pytest.mark.parametrize("seed", seeds(1, slow=[2]))
def test_announcements_in_the_name_of_a_dead_master_keep_nobody_from_taking_over(seed: int) -> None:
    life = begin(seed, size=6)
    fleet, key = life.fleet, key_of(JOB)
    follow_elsewhere(life)
    ((master, _),) = fleet.masters(JOB)
    forger = next(one for one in life.alive() if one is not master)
    forged = forger.agent.directory.get(key)
    assert forged is not None
    fleet.crash(master)
    died_at = fleet.now

    def forge() -> None:
        forger.node.multicast(FLEET_GROUP, CODEC.encode(forged), fleet.now)
        fleet.at(fleet.now + 0.2, forge)

    forge()
    fleet.run(fleet.now + 25.0)
    windows = [window.at for window in fleet.of(JOB) if window.epoch[1] > forged.epoch.counter]
    assert windows, life.about()
    assert windows[0] - died_at < 10.0, life.about()
