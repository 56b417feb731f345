"""Agents with the network in between: every link at its own pace, everyone sealing when it likes."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import pytest
from simulated_fleet import PANE_MS, SimulatedFleet, key_of

from agent import Agent, worker
from agent.panes import FIRST_PANE

HASTY = (1, 3, 4, 5)
JOBS = ("one", "two", "three")


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a few rows, so that a job has many of them."""
    monkeypatch.setattr(worker, "ROWS_PER_RUN", 4)


def some_events(source: random.Random) -> list[tuple[int, str]]:
    return [(source.randrange(6) * PANE_MS, source.choice("abcde")) for _ in range(source.randint(0, 12))]


def workers(fleet: SimulatedFleet) -> list[Agent]:
    return [agent for agent in fleet.agents if "web" in agent.streams]


def submission(fleet: SimulatedFleet, name: str) -> Callable[[], None]:
    return lambda: fleet.submit(name, by=fleet.random.choice(fleet.agents))


def insertion(fleet: SimulatedFleet, agent: Agent) -> Callable[[], None]:
    return lambda: fleet.insert(agent, some_events(fleet.random))


def joined_fleet(seed: int, size: int, bystanders: int) -> SimulatedFleet:
    """All in the overlay and in the trees of their streams."""
    fleet = SimulatedFleet(seed)
    for number in range(size + bystanders):
        fleet.add(*(["web"] if number < size else []))
        fleet.run(fleet.now + 0.5)
    fleet.run(fleet.now + 30.0)
    assert all(agent.node.is_active for agent in fleet.agents)
    return fleet


def work(fleet: SimulatedFleet, agent: Agent, begin: float, end: float, pause: float) -> None:
    """Events come to an agent until its input ends; then it seals."""
    for _ in range(fleet.random.randint(0, 3)):
        fleet.at(fleet.random.uniform(begin, end), insertion(fleet, agent))
    fleet.seal_from(end, agent, pause)


def calm_life(seed: int) -> SimulatedFleet:
    """Several jobs submitted from anywhere; everyone is on their rosters before anyone seals."""
    fleet = joined_fleet(seed, size=1 + seed % 9, bystanders=seed % 5)
    for name in JOBS:
        fleet.at(fleet.now + fleet.random.uniform(0, 2), submission(fleet, name))
    fleet.run(fleet.now + 20.0)
    begin = fleet.now
    for agent in workers(fleet):
        work(fleet, agent, begin, begin + fleet.random.uniform(5, 15), pause=2.0)
    fleet.run(begin + 120.0)
    return fleet


def restless_life(seed: int) -> SimulatedFleet:
    """Agents join the overlay, jobs are submitted twice, events come and inputs end, all at the same time."""
    fleet = joined_fleet(seed, size=2 + seed % 6, bystanders=seed % 3)
    draw, begin = fleet.random.uniform, fleet.now

    def newcomer() -> None:
        agent = fleet.add(*fleet.random.choice((["web"], ["web"], [])))
        work(fleet, agent, fleet.now, fleet.now + draw(1, 20), pause=3.0)

    for name in JOBS:
        fleet.at(begin + draw(0, 8), submission(fleet, name))
        fleet.at(begin + draw(0, 12), submission(fleet, name))
    for agent in workers(fleet):
        work(fleet, agent, begin, begin + draw(1, 20), pause=3.0)
    for _ in range(6):
        fleet.at(begin + draw(0, 15), newcomer)
    fleet.run(begin + 240.0)
    return fleet


def hasty_life(seed: int) -> SimulatedFleet:
    """Inputs end and are sealed while agents still enrol: some parents pass on runs before they get another child."""
    fleet = joined_fleet(seed, size=20 + seed % 4, bystanders=8)
    begin = fleet.now
    late = fleet.random.sample(workers(fleet), 6)
    for agent in late:
        fleet.slow_to_hear[agent.name] = fleet.random.uniform(0.5, 3.0)
    for name in JOBS:
        submission(fleet, name)()
    for agent in workers(fleet):
        ends = (3.0, 4.0, 5.0) if agent in late else (0.5, 0.5, 0.5, 0.5, 0.5, 4.0)
        work(fleet, agent, begin, begin + fleet.random.choice(ends), pause=0.1)
    fleet.run(begin + 60.0)
    return fleet


Life = Callable[[int], SimulatedFleet]


@cache
def lived(life: Life, seed: int) -> SimulatedFleet:
    fleet = life(seed)
    fleet.check_results()
    fleet.check_finished(*JOBS)
    return fleet


@pytest.mark.parametrize("seed", range(12))
def test_everyone_counts_once_whatever_the_pace(seed: int) -> None:
    fleet = lived(calm_life, seed)
    names = sorted(agent.name for agent in workers(fleet))
    for job in JOBS:
        published = fleet.of(job)
        assert [one.pane for one in published] == sorted(fleet.panes(job))
        assert all(one.result.missing == [] and sorted(one.expected) == names for one in published)
    assert sum(agent.refused for agent in fleet.agents) == 0


@pytest.mark.parametrize(
    ("life", "seed"), [*((restless_life, n) for n in range(12)), *((hasty_life, n) for n in HASTY)]
)
def test_what_comes_in_between_is_honestly_told(life: Life, seed: int) -> None:
    lived(life, seed)


def test_awkward_orders_do_happen() -> None:
    """The lives above are worth nothing if nobody ever comes late and no root ever changes."""
    assert any(one.result.missing for seed in HASTY for one in lived(hasty_life, seed).published)
    fleets = [lived(restless_life, seed) for seed in range(4)]
    masters = [(agent, key_of(job)) for fleet in fleets for job in JOBS for agent, _ in fleet.masters(job)]
    assert any(not agent.node.is_root(key) for agent, key in masters)


@pytest.mark.parametrize("life", [calm_life, restless_life, hasty_life])
def test_the_same_seed_is_the_same_life(life: Life) -> None:
    assert life(3).fingerprint() == lived(life, 3).fingerprint() != lived(life, 4).fingerprint()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("streams", [[], ["web"]])
def test_a_master_keeps_its_job_when_a_closer_node_joins(seed: int, streams: list[str]) -> None:
    """Before or after the roster is complete; a job submitted again then starts nothing."""
    fleet = joined_fleet(seed, size=6, bystanders=2)
    begin = fleet.now
    fleet.submit("one", by=fleet.agents[0])
    fleet.run(begin + (0.3 if seed % 2 else 10.0))
    closer = fleet.add(*streams, node_id=key_of("one"))
    fleet.run(begin + 20.0)
    assert closer.node.is_root(key_of("one"))
    assert closer.master(key_of("one")) is None
    fleet.submit("one", by=fleet.agents[1])
    for agent in fleet.agents:
        work(fleet, agent, begin + 21.0, begin + 30.0, pause=0.5)
    fleet.run(begin + 60.0)
    fleet.check_results()
    fleet.check_finished("one")
    assert len(fleet.masters("one")) == 1
    assert all(one.result.expected == 6 and one.result.missing == [] for one in fleet.published)


def test_who_enrols_after_the_end_has_no_part_in_it() -> None:
    fleet = joined_fleet(seed=1, size=4, bystanders=0)
    fleet.submit("one", by=fleet.agents[0])
    fleet.run(fleet.now + 10.0)
    for agent in fleet.agents:
        fleet.insert(agent, [(0, "a")])
        fleet.seal_from(fleet.now, agent, pause=0.1)
    fleet.run(fleet.now + 10.0)
    ((_, master),) = fleet.masters("one")
    late = master.enrol(12345, "late", works=True)
    assert (late.number, late.frontier, len(fleet.published)) == (4, master.frontier, 1)
    assert master.roster.expected(0).bit_count() == 4
    fleet.check_finished("one")


def test_jobs_of_one_name_are_one_job() -> None:
    """Whichever comes first; the other is refused and counted."""
    fleet = joined_fleet(seed=2, size=5, bystanders=1)
    fleet.submit("one", by=fleet.agents[0])
    fleet.submit("one", by=fleet.agents[3], sql="SELECT product, COUNT(product) AS n FROM web GROUP BY product")
    fleet.run(fleet.now + 10.0)
    ((agent, master),) = fleet.masters("one")
    assert master.frontier == FIRST_PANE
    assert (agent.refused, len(master.roster), master.everyone_runs()) == (1, 5, True)
