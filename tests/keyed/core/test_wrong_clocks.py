"""An agent whose clock is wrong by hours holds up nobody's time, and leads nobody's astray: its own events are late, or
early, and all are processed."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from fleet_of_elements import Agent, Fleet, element, graph_of, type_
from seeds import seeds
from test_flow import counting

HOUR_MS = 3_600_000
STEP_S = 0.1
KEYS = 12


class Traffic:
    """Each agent has events all the time, at the time of its own clock."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.counted: Counter[str] = Counter()
        self._numbers: Counter[Agent] = Counter()

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            for agent in self.fleet.agents.values():
                self._insert(agent)
            self.fleet.run(STEP_S, STEP_S / 2)

    def _insert(self, agent: Agent) -> None:
        if not agent.job.has_room:
            return
        clock_ms, number = round(self.fleet.now * 1000) + agent.lead_ms, self._numbers[agent]
        self._numbers[agent] += 1
        key = f"key-{self.fleet.random.randrange(KEYS)}"
        self.counted[key] += 1
        columns = {"@time": [clock_ms], "@source": [agent.job.channel("Text")], "@seq": [number << 20]}
        agent.job.insert("Text", pl.DataFrame(columns | {"a": ["x"], "b": [key], "v": [1]}), self.fleet.now)
        agent.job.source_time("Text", clock_ms)


def behind_s(fleet: Fleet, type_name: str) -> list[float]:
    """The time by which each agent's time of a type is behind the true one."""
    return [fleet.now - agent.job.watermark(type_name) / 1000 for agent in fleet.agents.values()]


@pytest.mark.parametrize(
    ("place", "guaranteed", "lead_ms"),
    seeds(
        slow=[
            (0, False, -3 * HOUR_MS), (0, False, 3 * HOUR_MS), (0, True, -3 * HOUR_MS), (0, True, 3 * HOUR_MS),
            (2, True, -3 * HOUR_MS), (2, True, 3 * HOUR_MS),
        ],
    ),
)  # fmt: skip
def test_time_goes_on_for_all_though_one_clock_is_wrong(place: int, guaranteed: bool, lead_ms: int) -> None:
    fleet = Fleet(counting(guaranteed=guaranteed), 4)
    traffic = Traffic(fleet)
    wrong = list(fleet.agents.values())[place]
    wrong.lead_ms = lead_ms
    traffic.run(2)
    for _ in range(3):
        traffic.run(0.3)
        assert all(-0.2 < one < 2 for name in ("Text", "Word", "Updated", "Done") for one in behind_s(fleet, name)), (
            behind_s(fleet, "Text"),
            behind_s(fleet, "Done"),
        )
    told = {agent.me for agent in fleet.agents.values() if agent.job.statistics()["wrong_clock"]}
    assert told == {wrong.me}
    fleet.run(2)
    assert {key: count for key, (count, _) in fleet.states("Count").items()} == traffic.counted


@pytest.mark.slow
def test_a_clock_that_goes_wrong_and_is_set_right_again_leads_nobody_astray() -> None:
    fleet = Fleet(counting(guaranteed=True), 3)
    traffic = Traffic(fleet)
    traffic.run(2)
    wrong = list(fleet.agents.values())[1]
    for lead_ms in (-HOUR_MS, 0, HOUR_MS, 0):
        wrong.lead_ms = lead_ms
        traffic.run(3)
        assert all(-0.2 < one < 2 for one in behind_s(fleet, "Done")), (lead_ms, behind_s(fleet, "Done"))
        assert wrong.job.statistics()["wrong_clock"] == (lead_ms != 0)


@pytest.mark.parametrize("seed", seeds(1, slow=[0, 2, 3]))
def test_types_in_a_circle_have_the_time_of_the_middle_clock(seed: int) -> None:
    types = [type_(name) for name in ("Text", "Word", "Told")]
    ping = element("Ping", ("Text", ["a"]), ("Word", ["b"]), emits=["Word"])
    fleet = Fleet(graph_of(types, [ping, element("Tell", ("Word", None), emits=["Told"])], ["Text"]), 3, seed)
    next(iter(fleet.agents.values())).lead_ms = 3 * HOUR_MS
    Traffic(fleet).run(2)
    for name in ("Word", "Told"):  # what comes from the circle, too
        assert all(-0.2 < one < 2 for one in behind_s(fleet, name)), (name, behind_s(fleet, name))


def test_a_log_of_the_past_holds_up_time_until_it_is_read_whatever_the_clock() -> None:
    fleet = Fleet(counting(guaranteed=True), 3)
    past, *others = fleet.agents.values()
    for agent in others:
        agent.job.source_time("Text", round(fleet.now * 1000))
    past.job.source_time("Text", round(fleet.now * 1000) - HOUR_MS)
    fleet.run(3)
    assert all(one > 3590 for one in behind_s(fleet, "Text"))
    for agent in fleet.agents.values():
        agent.job.source_time("Text", round(fleet.now * 1000))
    fleet.run(3)
    assert all(one < 5 for one in behind_s(fleet, "Text"))


@pytest.mark.slow
def test_news_that_come_late_to_an_agent_that_stood_still_make_no_clock_wrong_for_long() -> None:
    """What waited for it was said long ago: nobody's time leaps ahead for that."""
    fleet = Fleet(counting(guaranteed=True), 3)
    traffic = Traffic(fleet)
    traffic.run(1)
    still = next(iter(fleet.agents.values()))  # the master
    fleet.silence(still, 90.0, detected_s=200.0)
    fleet.run(90.1, 0.5)
    for _ in range(5):
        traffic.run(0.2)
        assert all(one > -0.2 for one in behind_s(fleet, "Done")), behind_s(fleet, "Done")
    traffic.run(2)
    assert not any(agent.job.statistics()["wrong_clock"] for agent in fleet.agents.values())
    assert all(-0.2 < one < 2 for one in behind_s(fleet, "Done")), behind_s(fleet, "Done")
