"""Nodes move while events come all the time: those of an agent that leaves, and of a fleet that has lost one."""

from __future__ import annotations

import pytest
from fleet_of_elements import FIRST_MS, LATER_MS, Agent, Fleet
from seeds import seeds
from test_flow import check, counting, rows_of
from test_forgetful_agents import busy_fleet

from agent.runtime.messages.elements import CommitRecord, MoveNodes, NodeHosts
from overlay import Peer

WORDS = [(f"w{n}", f"g{n % 5}", 2) for n in range(12)]


class Pauses:
    """Counts words, each of which comes every 20 ms, and notes how long each was not counted at longest."""

    def __init__(self, fleet: Fleet) -> None:
        self.longest: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._fleet = fleet
        self._watched: list[Agent] = []
        self.watch_new()

    @property
    def worst(self) -> float:
        """The longest time for which any word was not counted, until now."""
        return max(*self.longest.values(), *(self._fleet.now - at for at in self._last.values()))

    def _watch(self, agent: Agent) -> None:
        self._watched.append(agent)
        runtime = agent.runtimes["Count"]
        process = runtime.process

        def watched(type_, rows, done) -> None:
            for word in rows["a"].unique().to_list():
                pause = self._fleet.now - self._last.get(word, self._fleet.now)
                self.longest[word] = max(pause, self.longest.get(word, 0.0))
                self._last[word] = self._fleet.now
            process(type_, rows, done)

        runtime.process = watched

    def watch_new(self) -> None:
        """Looks at agents that have begun since, too."""
        for agent in self._fleet.agents.values():
            if agent not in self._watched:
                self._watch(agent)


def feed(fleet: Fleet, agents: list[Agent], inserted: list, seconds: float, each_s: float = 0.02) -> None:
    end = fleet.now + seconds
    while fleet.now < end:
        for agent in agents:
            inserted += WORDS
            fleet.insert(agent, "Text", WORDS)
        fleet.run(each_s, each_s / 5)


@pytest.mark.parametrize(
    ("agents", "guaranteed", "most_s"), seeds((3, True, 0.06), slow=[(3, False, 0.08), (5, True, 0.1)])
)
def test_an_agent_leaves_though_events_come_all_the_time_and_its_elements_pause_shortly(
    agents: int, guaranteed: bool, most_s: float
) -> None:
    fleet = Fleet(counting(guaranteed=guaranteed), agents, 1)
    fleet.delay_s = 0.002
    *others, leaver = fleet.agents.values()
    inserted: list[tuple[str, str, int]] = []
    feed(fleet, others[:1], inserted, 1)
    records = fleet.sent(CommitRecord)
    pauses = Pauses(fleet)
    leaver.job.leave(fleet.now)
    feed(fleet, others[:1], inserted, 1.5)
    assert leaver.job.has_left
    assert max(pauses.longest.values()) < most_s
    moves = [one for one in records if one.is_move]
    assert len(moves) == 0 or not (guaranteed and agents == 3), "standbys have the state but for the last changes"
    assert fleet.remove_left() == [leaver]
    fleet.run(1)
    fleet.settle()
    check(fleet, {"Text": inserted})


@pytest.mark.parametrize("seed", seeds(slow=[1, 2, 3, 4]))  # commits are held soon in test_held_commits
def test_event_time_goes_on_within_seconds_after_a_kill_though_links_are_slow(seed: int) -> None:
    fleet = Fleet(counting(guaranteed=True), 5, seed)
    fleet.delay_s, fleet.has_time = 0.5, True
    agents = list(fleet.agents.values())
    for agent in agents[1:]:
        agent.job.source_time("Text", LATER_MS)
    inserted: list[tuple[str, str, int]] = []

    def pass_time(seconds: float) -> float:
        """Returns how far event time is behind, in seconds."""
        end = fleet.now + seconds
        while fleet.now < end:
            rows = rows_of(fleet, 20)
            inserted.extend(rows)
            fleet.insert(agents[0], "Text", rows)
            fleet.run(0.2, 0.1)
        return (FIRST_MS + 10 * len(inserted) - agents[1].job.watermark("Updated")) / 1000

    assert pass_time(9) < 7
    fleet.crash(agents[4], 1.0)
    pass_time(7)
    assert min(pass_time(0.5) for _ in range(4)) < 7, seed
    fleet.settle()
    fleet.run(2)
    check(fleet, {"Text": inserted})


def test_late_news_of_a_host_that_is_dead_is_not_believed() -> None:
    """Events for it would wait until it has not answered several times."""
    fleet, _ = busy_fleet(4)
    source, *_, victim = fleet.agents.values()
    node = next(node for node in range(1024) if source.job.host_of(node) == victim.me)
    message = NodeHosts(source.job.app_id, [victim.me], [(node, source.job.epoch_of(node), 0)])
    sender = next(peer for peer in fleet.agents if peer not in (source.me, victim.me))
    fleet.crash(victim)
    source.job.failed(victim.me, fleet.now)
    source.job.handle(message, sender, fleet.now)
    assert source.job.host_of(node) is None


@pytest.mark.parametrize("seed", seeds(slow=[3, *range(5, 12)]))
def test_a_node_takes_events_again_soon_when_the_agent_it_was_to_move_to_is_started_again(seed: int) -> None:
    fleet = Fleet(counting(guaranteed=True), 5, seed=seed)
    first = next(iter(fleet.agents.values()))
    inserted: list[tuple[str, str, int]] = []
    feed(fleet, [first], inserted, 2.0, 0.1)
    pauses = Pauses(fleet)
    restarted: list[float] = []

    def restart(_root: Agent, host: Peer) -> None:
        _, to = next(iter(fleet.agents[host].job._membership._movers.values()))
        restarted.append(fleet.now)
        fleet.restart(fleet.agents[to], 0.02)

    fleet.on_message(MoveNodes, 1, restart, arrived=True)
    fleet.lend(max(fleet.agents.values(), key=lambda agent: (agent is not first, agent.job._host.owned.sum())))
    end = fleet.now + 8.0
    while fleet.now < (restarted[0] + 4.0 if restarted else end):
        feed(fleet, [first], inserted, 0.5, 0.1)
        pauses.watch_new()
    assert restarted
    assert pauses.worst < 3.0
    fleet.settle()
    check(fleet, {"Text": inserted})
