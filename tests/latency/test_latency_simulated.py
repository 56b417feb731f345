"""Simulated fleets that measure how long their results take: phases sum up, and who is slow is named."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from lives import JOB, Life, begin, begin_some, follow_elsewhere
from recording_client import client_of
from seeds import seeds
from simulated_fleet import PANE_MS, WALL_MS, Server, key_of, sql

from agent import PublishedWindow
from agent.control.observation.latency_view import described_latency
from agent.runtime.messages.views.latency import LatencyView
from agent.runtime.model.latency.recent_latency import RecentLatency, ResultLatency
from overlay import distance
from query.latency import Phase, phases_from_bytes

LIMIT_MS = 1_000
IN_TIME = f"{sql('abcde', 2)} WITHIN {LIMIT_MS} MILLISECONDS"
SOON = f"{sql('abcde', 2)} WITHIN {LIMIT_MS // 2} MILLISECONDS"
CLOCK_S = 0.002
"""By so much a clock of whole milliseconds may be off at both ends."""
WATCHED_S = 40.0


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[ResultLatency]:
    """What masters have measured of each result."""
    every: list[ResultLatency] = []
    note = RecentLatency.note

    def kept(recent: RecentLatency, result: ResultLatency) -> None:
        every.append(result)
        note(recent, result)

    monkeypatch.setattr(RecentLatency, "note", kept)
    return every


def view_of(life: Life) -> LatencyView:
    """What the job's master tells the follower."""
    client_of(life.follower.agent).ask_latency(key_of(JOB), life.fleet.now)
    life.fleet.run(life.fleet.now + 2.0)
    return [one for one in life.follower.notices if isinstance(one, LatencyView)][-1]


def lines(life: Life, since: float) -> list[dict[str, object]]:
    """The lines that the follower got of windows that have ended since."""
    shown = [one for one in life.follower.followed[key_of(JOB)] if isinstance(one, PublishedWindow)]
    return [json.loads(bytes(one.result)) for one in shown if one.pane >= WALL_MS + 1000 * since]


def off_s(life: Life, name: str) -> float:
    """By how much the ways from an agent to the master may differ from halves of there and back."""
    key, off = key_of(JOB), 0.0
    node = life.fleet.servers[name].node
    while (parent := node.parent(key)) is not None:
        _, most = life.fleet.links.half_way_s(node.peer, parent)
        off += max(most, life.fleet.links.longest_s(node.peer, parent))
        node = next(one.node for one in life.fleet.servers.values() if one.node.peer == parent)
    return off


@pytest.mark.parametrize("seed", seeds(1, slow=[5, *range(10, 30)]))
def test_phases_sum_up_to_the_latency_but_for_the_links(seed: int, noted: list[ResultLatency]) -> None:
    life = begin_some(seed, random.Random(seed), sql=IN_TIME)
    fleet = life.fleet
    fleet.run(fleet.now + 10.0)  # all ways are known
    before = len(noted)
    fleet.run(fleet.now + WATCHED_S)
    results = noted[before:]
    assert len(results) > WATCHED_S * 1000 / PANE_MS - 2
    for result, window in zip(results, fleet.of(JOB)[-len(results) :], strict=True):
        taken_s = window.at - (window.pane + PANE_MS - WALL_MS) / 1000
        assert result.latency_s == pytest.approx(taken_s, abs=CLOCK_S)
        assert abs(result.skew_s) <= off_s(life, result.agent) + CLOCK_S, result
        assert min(result.phases.values()) >= 0
        assert set(result.phases) == set(Phase) - {Phase.DELIVER}
        assert result.agent in window.contributors
    asked = len(noted)
    found = view_of(life)
    judged = [one.is_met for one in noted[: found.results]]
    assert (found.met, found.missed) == (judged.count(True), judged.count(False))
    assert asked <= found.results <= len(noted), "as many as there were when the master answered"


def begun(seed: int, text: str) -> tuple[Life, Server]:
    """A fleet of ten that measures, and one of its agents for which nobody waits but its parent: no neighbour of the
    master's, which holds results too."""
    life = begin(seed, 10, sql=text)
    key = key_of(JOB)
    return life, max(
        (one for one in life.alive() if one.node.parent(key) is not None and not one.node.children(key)),
        key=lambda one: distance(one.node.peer.node_id, key),
    )


def check_named(life: Life, slow: Server, phase: Phase, since: float) -> None:
    """Of the windows since a time most name an agent, and so does their master."""
    shown = [line for line in lines(life, since) if "met" in line]
    assert len(shown) >= 10
    missed = [str(line["slowest"]) for line in shown if not line["met"]]
    assert len(missed) >= 3
    assert Counter(missed).most_common(1)[0][0] == f"{phase.label}, {slow.name}"
    found = view_of(life)
    assert found.last_parts[0][0] == slow.name
    assert all(name in life.fleet.servers for name, _ in found.last_parts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, slow=range(30, 40)))
def test_an_agent_that_looks_late_is_named(seed: int) -> None:
    life, slow = begun(seed, IN_TIME)
    fleet, since = life.fleet, life.fleet.now
    ends = range(-(-fleet.wall_ms // PANE_MS) * PANE_MS, fleet.wall_ms + round(1000 * WATCHED_S), PANE_MS)
    for end in ends:
        closed_at = (end - WALL_MS + LIMIT_MS / 4) / 1000
        fleet.at(closed_at - 0.3, lambda until=closed_at + 1.0: setattr(slow, "reads_from", until))  # type: ignore[misc]
    fleet.run(fleet.now + WATCHED_S)
    check_named(life, slow, Phase.TAIL, since)
    found = described_latency(view_of(life))
    assert found.agents[0].agent == slow.name, "by its own parts too"


@pytest.mark.parametrize("seed", seeds(3, slow=range(40, 50)))
def test_an_agent_behind_a_slow_link_is_named(seed: int) -> None:
    life, slow = begun(seed, SOON)
    fleet, since = life.fleet, life.fleet.now
    fleet.links.slow_down(slow.node.peer, 0.7)
    fleet.run(fleet.now + WATCHED_S)
    check_named(life, slow, Phase.UPLINK, since + 10.0)


@pytest.mark.parametrize("seed", seeds(4, slow=range(50, 60)))
def test_the_way_to_followers_is_half_of_there_and_back(seed: int) -> None:
    life = begin_some(seed, random.Random(seed), sql=IN_TIME)
    follow_elsewhere(life)
    fleet = life.fleet
    ((master, _),) = fleet.masters(JOB)
    fleet.run(fleet.now + 15.0)
    deliver = phases_from_bytes(view_of(life).phases)[Phase.DELIVER]
    followers = [one for one in fleet.servers.values() if key_of(JOB) in one.agent.following.jobs]
    assert deliver.count == len(followers)
    bounds = [fleet.links.half_way_s(master.node.peer, one.node.peer) for one in followers]
    assert sum(least for least, _ in bounds) / len(bounds) <= deliver.mean + 1e-6
    assert deliver.mean - 1e-6 <= sum(most for _, most in bounds) / len(bounds)
    client_of(life.follower.agent).unfollow(key_of(JOB), fleet.now)
    fleet.run(fleet.now + 2.0)
    later = phases_from_bytes(view_of(life).phases)[Phase.DELIVER]
    assert later.count == deliver.count - 1, "who follows no more does not count"
