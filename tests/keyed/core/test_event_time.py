"""Bounded input and ordered elements: the same on any number of agents, and an end that all know of."""

from __future__ import annotations

import pytest
from fleet_of_elements import Fleet, element, graph_of, type_
from test_flow import check, counting, rows_of

from agent.runtime.keyed.hosting.time.master_times import ALIVE_S, SILENT_S
from agent.runtime.messages.elements import ElementTimes
from agent.runtime.model.fields import Message
from overlay import Peer


def run_bounded(fleet: Fleet, rows: list[tuple[str, str, int]], seconds: float = 60) -> None:
    """Deals rows of one file to agents, a part each, and lets them be processed to their end."""
    agents = list(fleet.agents.values())
    share = -(-len(rows) // len(agents))
    for place, agent in enumerate(agents):
        fleet.insert(agent, "Text", rows[place * share : (place + 1) * share], first=place * share)
        agent.job.end_of_source("Text")
    end = fleet.now + seconds
    while fleet.now < end and not all(agent.job.is_quiet for agent in agents):
        fleet.run(0.2)
    assert all(agent.job.is_quiet for agent in agents), [agent.job._time.times for agent in agents]


@pytest.mark.parametrize("guaranteed", [False, True])
def test_one_and_five_agents_process_bounded_input_alike(guaranteed: bool) -> None:
    seen = []
    for agents in (1, 5):
        fleet = Fleet(counting(guaranteed=guaranteed), agents, bounded=True, standbys=0)
        rows = rows_of(Fleet(counting(guaranteed=guaranteed), 1), 200)
        run_bounded(fleet, rows)
        check(fleet, {"Text": rows})
        seen.append({name: sorted(shown.values()) for name, shown in fleet.shown.items() if name == "Done"})
        order = [(one, tuple(runtime.order)) for one, runtime in _by_node(fleet).items()]
        seen[-1]["order"] = order
    assert seen[0] == seen[1]


def _by_node(fleet: Fleet):
    """The order in which each element's keys took events, by element and key."""

    class Order:
        def __init__(self) -> None:
            self.order: list = []

    found: dict = {}
    for agent in fleet.agents.values():
        for name, runtime in agent.runtimes.items():
            for key, content in runtime.order:
                found.setdefault((name, key), Order()).order.append(content)
    return dict(sorted(found.items()))


def test_bounded_input_of_elements_without_keys_ends() -> None:
    graph = graph_of(
        [type_("Text"), type_("Word")],
        [element("Split", ("Text", None), emits=["Word"]), element("Again", ("Word", None), emits=[])],
        ["Text"],
    )
    fleet = Fleet(graph, 2, bounded=True, standbys=0)
    run_bounded(fleet, rows_of(fleet, 50))


def test_the_watermark_waits_for_rows_under_way() -> None:
    fleet = Fleet(counting(guaranteed=True), 3)
    agents = list(fleet.agents.values())
    for agent in agents:
        fleet.insert(agent, "Text", rows_of(fleet, 20))
        agent.job.source_time("Text", 1_000_200)
    fleet.run(0.03)
    assert all(agent.job.watermark("Updated") <= 1_000_000 for agent in agents)
    fleet.run(5)
    assert all(agent.job.watermark("Updated") >= 1_000_190 for agent in agents)
    assert all(agent.job.watermark("Done") >= 1_000_180 for agent in agents)
    assert all(runtime.advanced for agent in agents for name, runtime in agent.runtimes.items() if name == "Sort")


def test_time_that_has_passed_at_the_sources_passes_all_types_of_a_chain_soon() -> None:
    """Also where all elements are beside each other, and everything goes from an agent to itself."""
    fleet = Fleet(counting(guaranteed=False), 1)
    (agent,) = fleet.agents.values()
    for second in range(1_001, 1_005):
        fleet.insert(agent, "Text", rows_of(fleet, 20))
        agent.job.source_time("Text", second * 1000)
        fleet.run(0.15, 0.01)
        assert [agent.job.watermark(one) for one in fleet.graph.types] == [second * 1000] * 4
        fleet.run(0.85)


def test_an_agent_that_does_not_report_gets_a_message_which_shows_whether_it_is_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet(counting(guaranteed=True), 4)
    fleet.run(2 * SILENT_S)
    master, *_, silent = fleet.agents.values()
    told: list[tuple[float, Peer]] = []
    send = master.send

    def note(peer: Peer, message: Message, now: float) -> None:
        if isinstance(message, ElementTimes) and not message.report:
            told.append((now, peer))
        send(peer, message, now)

    monkeypatch.setattr(master, "send", note)
    fleet.run(2 * SILENT_S)
    assert told == [], "all report"
    fleet.silence(silent, 60.0, detected_s=100.0)
    fleet.run(2 * SILENT_S + 2 * ALIVE_S)
    assert {peer for _, peer in told} == {silent.me}
    assert len(told) == 2
