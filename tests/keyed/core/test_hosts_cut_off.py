"""What has the state of a node is waited for, and stays until others have it."""

from __future__ import annotations

import pytest
from fleet_of_elements import Fleet
from test_flow import check, counting, rows_of

from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.keyed.hosting.placement.configurations import Ballot, Configuration, Configurations
from agent.runtime.keyed.hosting.placement.membership import TELL_S
from agent.runtime.keyed.hosting.placement.places import Places
from agent.runtime.keyed.hosting.placement.roots import HOSTING, RETRY_S, Roots
from overlay import Id, Peer
from overlay import app_id as app_key

HOST, ME, OTHER, NEW = (Peer(Id(number), f"10.0.0.{number}:1") for number in (1, 2, 3, 4))
LOST_S = 5.0
NODE = 7
MOVED = Configuration(2, (HOST, ME, OTHER), move_number=30, incarnations=(1, 1, 1))
"""The host was given the state, and its standbys are to get it."""


class Ring:
    """Three agents, as one of them sees them."""

    me = ME

    def is_root(self, _key: Id) -> bool:
        return True

    def nearest(self, _key: Id, count: int) -> tuple[Peer, ...]:
        return (ME, OTHER, HOST)[:count]


def roots_of(value: Configuration, *others: Peer) -> tuple[Roots, list[tuple[str, Ballot]], Places]:
    """The roots at one of three agents or more that knows where a node is, and what they say."""
    said: list[tuple[str, Ballot]] = []
    known = Configurations(ME, 1, lambda *_: None)
    known.learn(NODE, value)
    options = KeyedOptions(lost_s=LOST_S, incarnation=1)
    places = Places(app_key("elements", b"test"), Ring(), options)  # type: ignore[arg-type]
    places.members((HOST, ME, OTHER, *others))
    roots = Roots(
        ME, known, places, options, lambda phase, _peer, ballot: said.append((phase, ballot)),
        majority=True, waits_for_hosts=False,
    )  # fmt: skip
    return roots, said, places


def accepted_at(copy: tuple[int, int], *, host_forgot: bool = False) -> float | None:
    """The time after which standbys with such copies are asked to go on without a host that is dead, if they are."""
    roots, said, places = roots_of(MOVED)
    places.failed(HOST)
    roots.doubt(NODE, 0.0)
    for step in range(1, round(2 * LOST_S / RETRY_S)):
        asked, said[:] = list(said), []
        for phase, ballot in asked:
            if phase == "accept":
                return step * RETRY_S
            for peer in (ME, OTHER):
                roots.heard("promise", ballot._replace(value=None, copy=copy), peer, step * RETRY_S)
            if host_forgot:
                roots.heard("unknown", ballot._replace(value=None), HOST, step * RETRY_S)
        roots.tick(step * RETRY_S)
    return None


def test_standbys_without_the_state_wait_for_the_host_that_has_it() -> None:
    assert accepted_at((0, 0)) is None


def test_standbys_with_the_state_go_on_at_once() -> None:
    found = accepted_at((2, 4))
    assert found is not None
    assert found <= 2 * RETRY_S


def test_nobody_is_waited_for_who_has_forgotten() -> None:
    found = accepted_at((0, 0), host_forgot=True)
    assert found is not None
    assert found <= 2 * RETRY_S


def test_a_move_whose_host_has_forgotten_it_does_not_keep_the_node_from_its_standbys() -> None:
    """The host was started again after it had given the state away, and before it voted."""
    roots, said, _ = roots_of(MOVED)
    roots._begin(NODE, (ME, 40), 0.0)
    ballot = said[0][1]._replace(value=None)
    for peer in (HOST, ME, OTHER):
        roots.heard("promise", ballot._replace(copy=(2, HOSTING if peer == HOST else 40)), peer, 0.0)
    assert said[-1][0] == "accept"
    for peer in (ME, OTHER):
        roots.heard("accepted", ballot, peer, 0.1)
    roots.heard("unknown", ballot, HOST, 0.1)
    said.clear()
    roots.tick(RETRY_S)
    assert {phase for phase, _ in said} == {"prepare"}, "another round, that goes on from the copies"


def test_standbys_that_were_started_again_before_they_voted_do_not_keep_a_ballot_open_for_ever() -> None:
    """The host has voted already, so the value stands; nobody else will."""
    roots, said, _ = roots_of(MOVED)
    roots.doubt(NODE, 0.0)
    ballot = said[0][1]._replace(value=None)
    for peer in (HOST, ME, OTHER):
        roots.heard("promise", ballot._replace(copy=(2, HOSTING if peer == HOST else 40)), peer, 0.0)
    phase, vote = said[-1]
    assert phase == "accept"
    roots.heard("accepted", vote, HOST, 0.1)
    given = vote._replace(copy=(2, HOSTING), accepted=vote.number)
    for step in range(1, round(2 * LOST_S / RETRY_S)):
        now = step * RETRY_S
        asked, said[:] = list(said), []
        for phase, ballot in asked:
            if phase == "chosen":
                assert now > LOST_S, "before that, two agents of three are needed"
                assert ballot.value == vote.value
                return
            answer = "promise" if phase == "prepare" else "accepted"
            roots.heard(answer, given._replace(number=ballot.number), HOST, now)
            for peer in (ME, OTHER):
                roots.heard("unknown", ballot, peer, now)
        roots.tick(now)
    raise AssertionError("the ballot has not ended")


def test_standbys_stay_until_those_that_come_instead_have_the_state() -> None:
    """Or two agents that fail at once might be all that have it."""
    _, _, places = roots_of(MOVED, NEW)
    staying, coming = places.standbys(NODE, HOST)
    going = next(peer for peer in (ME, OTHER, NEW) if peer not in (staying, coming))
    has_nothing, has_all = (0, 0), (2, 7)
    three, four = (HOST, staying, going), (HOST, staying, coming, going)
    for members, copy_of_coming, expected in ((three, has_nothing, four), (four, has_all, four[:3])):
        roots, said, _ = roots_of(Configuration(2, members, incarnations=(1,) * len(members)), NEW)
        roots.doubt(NODE, 0.0)
        ballot = said[0][1]._replace(value=None)
        copies = {HOST: (2, HOSTING), staying: has_all, going: has_all, coming: copy_of_coming}
        for peer, copy in copies.items():
            roots.heard("promise", ballot._replace(copy=copy), peer, 0.0)
        phase, vote = said[-1]
        assert phase == "accept"
        assert vote.value is not None
        assert vote.value.members == expected


@pytest.mark.parametrize(("epoch_of_copy", "is_lost"), [(2, False), (1, True)])
def test_a_state_that_is_left_alone_and_may_be_an_old_one_is_named_lost(epoch_of_copy: int, is_lost: bool) -> None:
    roots, said, places = roots_of(MOVED)
    places.failed(HOST)
    places.members((ME, OTHER))
    roots.doubt(NODE, 0.0)
    for step in range(1, round(2 * LOST_S / RETRY_S)):
        asked, said[:] = list(said), []
        for phase, ballot in asked:
            if phase == "accept":
                assert step * RETRY_S > LOST_S
                assert ballot.value is not None
                assert (ballot.value.host, ballot.value.is_anew, ballot.value.is_lost) == (ME, False, is_lost)
                return
            roots.heard("promise", ballot._replace(value=None, copy=(epoch_of_copy, 9)), ME, step * RETRY_S)
            roots.heard("unknown", ballot, OTHER, step * RETRY_S)
        roots.tick(step * RETRY_S)
    raise AssertionError("the state that is left is not used")


def test_agents_that_were_cut_off_from_each_other_are_alive_again_though_they_have_nothing_to_say() -> None:
    """Rows for the other one would wait for ever."""
    fleet = Fleet(counting(guaranteed=True), 4)
    fleet.run(1.0)
    agents = list(fleet.agents.values())
    fleet.cut(agents[2:3])
    fleet.run(3.0)
    assert any(agent.job._membership._places.dead for agent in agents)
    fleet.heal()
    fleet.run(TELL_S + 1.0, 0.05)
    assert not any(agent.job._membership._places.dead for agent in agents)
    inserted = rows_of(fleet, 100)
    fleet.insert(agents[2], "Text", inserted)
    fleet.settle()
    check(fleet, {"Text": inserted})
