"""The benchmark of jobs: among simulated agents a change is what it is among processes."""

from __future__ import annotations

from benchmarks.jobs_simulated import LINK_S, SimulatedAgents


def test_a_change_reaches_all_simulated_agents_in_the_time_that_messages_take() -> None:
    fleet = SimulatedAgents(seed=1, size=12)
    key = fleet.run_job()
    for number in (1, 2):
        ran_s, told_s = fleet.change_filter(key, number)
        assert 3 * LINK_S < ran_s <= told_s
        assert all(agent.status().parts[0].version == number + 1 for agent in fleet._agents.values())
